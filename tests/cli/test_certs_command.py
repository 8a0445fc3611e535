"""`pybroker certs` makes what a broker and its clients need, once."""

from __future__ import annotations

import stat
from pathlib import Path

from click.testing import CliRunner

from pybroker.cli.certs_command import command
from pybroker.config.load import load_texts
from pybroker.config.properties import parse_properties
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
