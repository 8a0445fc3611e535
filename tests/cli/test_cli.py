"""The command line in click's runner; integration/cli/test_cli_process.py tests what needs a process of its own."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from pybroker import __version__
from pybroker.api import document as apis
from pybroker.api.access import document as permissions
from pybroker.broker.process import StartError
from pybroker.cli.main import cli
from pybroker.cli.start import ADDRESS_IN_USE
from pybroker.config import document

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.broker.lifecycle import Lifecycle
    from pybroker.config.broker import BrokerConfig


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(cli, arguments, prog_name="pybroker")


class FakeBroker(ModuleType):
    """A replacement for pybroker.broker.process that remembers its configuration and ends as the test wants."""

    def __init__(self) -> None:
        super().__init__("pybroker.broker.process")
        self.StartError = StartError
        self.config: BrokerConfig | None = None
        self.exit_code = 0
        self.error: Exception | None = None

    def run(self, config: BrokerConfig, lifecycle: Lifecycle | None = None, **options: object) -> int:
        self.lifecycle, self.options = lifecycle, options
        self.config = config
        if self.error is not None:
            raise self.error
        return self.exit_code


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, restored: None) -> FakeBroker:
    fake = FakeBroker()
    monkeypatch.setitem(sys.modules, "pybroker.broker.process", fake)
    monkeypatch.setattr("pybroker.broker.process", fake, raising=False)
    return fake


def test_help_and_version() -> None:
    assert invoke("--version").output == f"pybroker {__version__}\n"
    for arguments in (["--help"], ["-h"]):
        output = invoke(*arguments).output
        assert "config " in output
        assert "start " in output
    assert "--override NAME=VALUE" in invoke("start", "--help").output


def test_the_table_is_printed() -> None:
    assert invoke("config", "list").output == document.listing()
    assert invoke("config", "properties").output == document.server_properties()
    assert invoke("config", "document").output == document.markdown()
    assert invoke("apis").output == apis.markdown()
    assert invoke("apis", "--permissions").output == permissions.rows() + "\n"


def test_start_hands_the_configuration_to_the_broker(broker: FakeBroker, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.dirs=/elsewhere\n")
    result = invoke(
        *("start", str(file), "--env", "--port", "0", "--data-dir", str(tmp_path / "d"), "--override", "broker.rack=a=b"),
        KAFKA_NODE_ID="8",
    )
    assert (result.exit_code, result.stdout) == (0, "")
    assert broker.config is not None
    assert (broker.config.num_partitions, broker.config.node_id, broker.config.broker_rack) == (2, 8, "a=b")
    assert broker.config.log_dirs == (str(tmp_path / "d"),)
    assert [endpoint.port for endpoint in broker.config.endpoints] == [0]


def test_start_listens_on_loopback_unless_an_option_names_another_address(broker: FakeBroker) -> None:
    for arguments, expected in (((), "127.0.0.1"), (("--host", "0.0.0.0"), "0.0.0.0"), (("--host", "::", "--port", "0"), "::")):
        assert invoke("start", *arguments).exit_code == 0
        assert broker.config is not None
        assert [endpoint.host for endpoint in broker.config.endpoints] == [expected]


def test_variables_of_the_shell_configure_the_broker_only_where_it_is_asked_for(broker: FakeBroker) -> None:
    environment = {"KAFKA_NUM_PARTITIONS": "7", "KAFKA_BOOTSTRAP_SERVERS": "a:1", "CLUSTER_ID": "x"}
    result = invoke("start", **environment)
    assert broker.config is not None
    assert (broker.config.num_partitions, broker.config.cluster_id) == (1, None)
    assert 'msg="The environment has KAFKA_NUM_PARTITIONS, which only --env reads as properties"' in result.stderr
    assert result.stderr.count("\n") == 1
    result = invoke("start", "--env", **environment)
    assert (broker.config.num_partitions, broker.config.cluster_id) == (7, "x")
    assert "only --env reads" not in result.stderr


def test_the_brokers_exit_code_is_the_commands(broker: FakeBroker) -> None:
    broker.exit_code = 1
    assert invoke("start").exit_code == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(99, "PLAINTEXT://a:9092: no such address"), "Error: PLAINTEXT://a:9092: no such address\n"),
        (OSError(98, "*:9092: Address already in use"), f"Error: *:9092: Address already in use: {ADDRESS_IN_USE}\n"),
        (PermissionError(13, "Permission denied", "/data"), "Error: /data: Permission denied\n"),
        (StartError("another broker uses /data"), "Error: another broker uses /data\n"),
    ],
)
def test_a_broker_that_cannot_run_prints_why_in_a_line(broker: FakeBroker, error: Exception, message: str) -> None:
    broker.error = error
    result = invoke("start")
    assert (result.exit_code, result.stderr) == (1, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--override", "num.partitions=x"], "Error: num.partitions=x: must be a whole number (from command line)"),
        (["--override", "num.partitions"], "Error: --override num.partitions: must be NAME=VALUE"),
        (["no-such-file"], "Error: cannot read no-such-file: No such file or directory"),
        (["--log-level", "LOUD"], "Error: log-level=LOUD: must be LEVEL or MODULE=LEVEL"),
        (["--log-config", "no-such-file"], "Error: cannot read no-such-file"),
        (["--port", "65536"], "Invalid value for '--port'"),
        (["--host", " "], "Error: --host must name an address"),
        (["--host", "0.0.0.0:99"], "Error: --host 0.0.0.0:99: must be an address without a port, which --port sets"),
        (["--host", "::", "--override", "listeners=A://:1"], "Error: --host and --override listeners set the same property"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line_with_exit_code_2(broker: FakeBroker, arguments: list[str], message: str) -> None:
    result = invoke("start", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert broker.config is None


def test_remarks_on_the_configuration_are_logged(broker: FakeBroker) -> None:
    result = invoke("start", "--override", "no.such=1", "--override", "num.io.threads=9")
    assert broker.config is not None
    assert 'level=warning module=pybroker.cli.start msg="unknown property no.such (from command line)"' in result.stderr
    assert 'level=info module=pybroker.cli.start msg="accepted and ignored: num.io.threads"' in result.stderr
    assert "num.io.threads" not in invoke("start", "--override", "num.io.threads=9", "--log-level", "WARN").stderr


def test_the_tools_are_listed() -> None:
    for arguments in ([], ["--help"]):
        listed = invoke("tool", *arguments).output.partition("Tools:\n")[2]
        assert "  kafka-topics\n" in listed
        assert "  kafka-configs\n" in listed


def test_a_directory_that_is_not_known_is_refused_and_nothing_is_created(tmp_path: Path, restored: None) -> None:
    result = invoke("directories", "forget", "abc", "--data-dir", str(tmp_path))
    assert result.exit_code == 1
    assert "Directory abc is not known" in result.output
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("session", "exit_code"), [(7, 1), (1, 0)])
def test_a_broker_whose_parent_has_ended_before_it_begins_does_not_start(
    monkeypatch: pytest.MonkeyPatch, broker: FakeBroker, session: int, exit_code: int
) -> None:
    """The first process has taken it over; where that is in the same session, as in a container, it is the parent."""
    monkeypatch.setattr(os, "getppid", lambda: 1)
    monkeypatch.setattr(os, "getsid", lambda pid: session if pid == 0 else 1)
    result = invoke("start", "--exit-with-parent")
    assert (result.exit_code, broker.config is None) == (exit_code, bool(exit_code))
    assert ("--exit-with-parent: the process that started the broker has already ended" in result.output) is bool(exit_code)
