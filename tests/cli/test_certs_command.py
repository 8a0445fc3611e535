"""`pybroker certs` makes what a broker and its clients need, once."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from click.testing import CliRunner

from pybroker.cli.certs_command import command
from pybroker.config.load import load_texts
from pybroker.config.properties import parse_properties
from pybroker.security.sasl.client_login import login_of_client
from pybroker.security.tls.listener import ListenerTls
from pybroker.security.tls.settings import settings_of_listener


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_lines_for_a_broker_are_those_of_a_working_one(tmp_path: Path) -> None:
    output = run(str(tmp_path / "certs"), "--host", "kafka.example")
    lines = output.partition("server.properties:\n")[2].partition("\n\n")[0]
    config = load_texts([{key: ("file", text) for key, text in parse_properties(lines).items()}]).config
    ListenerTls(settings_of_listener(config, "SSL"), is_for_brokers=True)
    assert "kafka.example" in output


def test_files_are_private_and_stay_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    first = run(str(folder))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert run(str(folder)) == first
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    run(str(folder), "--host", "other")
    changed = {path.name for path in folder.iterdir() if path.read_bytes() != before[path.name]}
    assert changed == {"broker.pem", "broker.hosts"}


def test_users_have_passwords_of_their_own_in_files_for_clients_and_brokers(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    run(str(folder), "--user", "admin")
    first = (folder / "admin.properties").read_text()
    output = run(str(folder), "--user", "admin", "--user", "alice")
    assert (folder / "admin.properties").read_text() == first
    logins = [login_of_client(parse_properties((folder / f"{name}.properties").read_text())) for name in ("admin", "alice")]
    assert [(login.user, login.mechanism) for login in logins] == [("admin", "SCRAM-SHA-512"), ("alice", "SCRAM-SHA-512")]
    passwords = re.findall(r'password="([^"]+)"', first + (folder / "alice.properties").read_text())
    added = parse_properties((folder / "users.properties").read_text())["pybroker.scram.users"]
    assert added == ",".join(
        f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in zip(("admin", "alice"), passwords, strict=True)
    )
    assert not any(password in output for password in passwords)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    lines = output.partition("certificates:\n")[2].partition("and the line")[0]
    settings = parse_properties(lines)
    texts = {**settings, **parse_properties((folder / "users.properties").read_text())}
    config = load_texts([{key: ("file", text) for key, text in texts.items()}]).config
    ListenerTls(settings_of_listener(config, "SASL_SSL"), is_for_brokers=True)
    assert (config.listeners, config.sasl_enabled_mechanisms) == ("SASL_SSL://:9093", ("SCRAM-SHA-512",))
    refused = CliRunner().invoke(command, [str(folder), "--user", "../x"])
    assert refused.exit_code == 2


def test_a_folder_that_cannot_be_made_and_a_name_of_no_host_are_one_line_each(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    refused = CliRunner().invoke(command, [str(file / "certs")])
    assert refused.exit_code == 1
    assert refused.output == f"Error: cannot make the folder {file}/certs: Not a directory\n"
    refused = CliRunner().invoke(command, [str(tmp_path / "certs"), "--host", "bad host"])
    assert refused.exit_code == 2
    assert "'bad host' is no name or address of a host" in refused.output
    assert not (tmp_path / "certs").exists()
