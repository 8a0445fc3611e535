"""`pybroker clients` as a command: the table, the lines of JSON, and what it does without a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import clients_command
from pybroker.cli.main import cli
from pybroker.clients.clients import Client, Name
from pybroker.clients.file import lines_of
from pybroker.log.checkpoints.checkpoint import CLIENTS_FILE
from pybroker.testing import Broker
from testing.wire.raw import API_VERSIONS, Connection


def client(client_id: str, requests: dict[tuple[int, int], int], *, seen_ms: int) -> Client:
    one = Client(Name(client_id, "librdkafka", "2.11.1", "10.0.0.7"), seen_ms)
    one.requests, one.connections, one.bytes_in, one.bytes_out = requests, 1, 999, 12_345_678
    return one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the data directory of a broker with two clients, the older of which is the newer software."""
    write(tmp_path, client("new", {(0, 9): 5, (0, 11): 1}, seen_ms=1_000), client("old\n", {(0, 2): 1, (1, 3): 7}, seen_ms=2_000))
    return tmp_path


def write(folder: Path, *clients: Client) -> None:
    folder.mkdir(exist_ok=True)
    (folder / CLIENTS_FILE).write_text("".join(lines_of(clients, 3_000)))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(clients_command.command, arguments)


def test_a_table_has_the_client_that_was_seen_last_first_and_ends_with_the_verdicts(folder: Path) -> None:
    done = run("--data-dir", str(folder))
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].split() == ["CLIENT", "ID", "SOFTWARE", "HOST", "OPEN", "LAST", "SEEN", "IN", "OUT", "CONVERTED", "APIS"]
    assert lines[1].startswith("old\\n      librdkafka 2.11.1  10.0.0.7  1     ")
    assert lines[1].endswith("  999 B  12 MB  0 read, 1 sent  Produce v2 Fetch v3")
    assert lines[2].endswith("  999 B  12 MB  -               Produce v9-11")
    assert lines[3:] == [
        "",
        "Kafka 4 would refuse requests of 1 of 2 clients:",
        "  old\\n at 10.0.0.7: Produce v2 (Kafka 4 begins with v3); Fetch v3 (Kafka 4 begins with v4)",
    ]


def test_json_has_a_line_for_each_client(folder: Path) -> None:
    done = run("--data-dir", str(folder), "--json")
    old, new = map(json.loads, done.output.splitlines())
    assert (old["client_id"], old["requests"]) == ("old\n", {"Produce": {"2": 1}, "Fetch": {"3": 7}})
    assert (new["software_name"], new["software_version"], new["refused_by_kafka_4"]) == ("librdkafka", "2.11.1", [])


def test_the_directory_is_that_of_the_configuration(folder: Path) -> None:
    assert len(run("--override", f"log.dirs={folder},/elsewhere", "--json").output.splitlines()) == 2


def test_clients_of_several_brokers_are_added(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / f"broker_{number}", client("app", {(0, 9): number}, seen_ms=1_000))
    (line,) = run("--data-dir", str(tmp_path), "--json").output.splitlines()
    assert json.loads(line)["requests"] == {"Produce": {"9": 3}}
    assert json.loads(line)["connections"] == 2


@pytest.mark.parametrize(("content", "expected"), [(None, "and --admin URL asks a running broker"), ("{", "line 1: ")])
def test_what_cannot_be_read_is_one_line(content: str | None, expected: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / CLIENTS_FILE).write_text(content)
    done = run("--data-dir", str(tmp_path))
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {tmp_path}")
    assert expected in done.output
    assert len(done.output.splitlines()) == 1


def test_a_running_broker_is_asked_with_the_token_of_its_settings() -> None:
    token = "pybroker.admin.token=t0ken"
    settings = {"pybroker.admin.listener": "http://127.0.0.1:0", "pybroker.admin.token": "t0ken"}
    with Broker.in_thread(settings) as broker:
        with Connection(broker.bootstrap) as connection:
            connection.call(API_VERSIONS, 0, b"")
            done = run("--admin", str(broker.admin_url), "--override", token, "--json")
        (line,) = done.output.splitlines()
        (client,) = broker.clients()
        assert json.loads(line) == json.loads(json.dumps({**client.as_data(), "connections": 1}))
        refused = run("--admin", str(broker.admin_url))
        assert "needs the token" in refused.output
        assert "not the API of a broker" in run("--admin", f"http://{broker.bootstrap}").output


def test_the_help_has_it_among_the_commands_for_one_broker() -> None:
    sections = CliRunner().invoke(cli, ["--help"]).output.split("\n\n")
    (section,) = (one for one in sections if "\n  clients " in one)
    assert section.startswith("One broker of pybroker, and its files:")
