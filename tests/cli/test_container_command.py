"""`pybroker container` in click's runner, up to the start of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pybroker.cli import container_command
from pybroker.cli.main import cli
from pybroker.container.lifecycle import ContainerLifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.broker.lifecycle import Lifecycle
    from pybroker.config.load import Loaded


class Broker:
    """A replacement for the broker that remembers its configuration."""

    loaded: Loaded
    lifecycle: Lifecycle | None

    def serve(self, loaded: Loaded, lifecycle: Lifecycle | None = None) -> int:
        self.loaded, self.lifecycle = loaded, lifecycle
        return 0


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch, restored: None) -> Broker:
    fake = Broker()
    monkeypatch.setattr(container_command, "serve", fake.serve)
    return fake


def start(tmp_path: Path, *arguments: str, **environment: str) -> None:
    environment = {"PYBROKER_READY_FILE": str(tmp_path / "ready"), "KAFKA_LOG_DIRS": str(tmp_path / "data"), **environment}
    result = CliRunner(env=environment).invoke(cli, ["container", *arguments])
    assert result.exit_code == 0, result.output


def test_the_environment_is_what_is_served(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "ready").write_text("of an earlier run")
    start(tmp_path, KAFKA_CFG_NODE_ID="7")
    assert broker.loaded.config.node_id == 7
    assert broker.loaded.config.pybroker_advertised_by_peer
    assert isinstance(broker.lifecycle, ContainerLifecycle)
    assert (tmp_path / "data").is_dir()
    assert not (tmp_path / "ready").exists()


def test_options_and_assignments(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "1")  # so that what the command sets is taken back at the end
    (tmp_path / "f.properties").write_text("broker.rack=of the file\nnode.id=3\n")
    options = ("--config", str(tmp_path / "f.properties"), "--override", "node.id=4")
    start(tmp_path, *options, "KAFKA_NUM_PARTITIONS=5")
    config = broker.loaded.config
    assert (config.broker_rack, config.node_id, config.num_partitions) == ("of the file", 4, 5)


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"KAFKA_PROCESS_ROLES": "controller"}, "Error: process.roles=controller: "),
        ({"KAFKA_NUM_PARTITIONS": "x"}, "Error: num.partitions=x: must be a whole number (from KAFKA_NUM_PARTITIONS)"),
        ({"PYBROKER_TOPICS": "a:x"}, "Error: PYBROKER_TOPICS=a:x: 'x' is not a number of partitions"),
        ({"PYBROKER_LOG_LEVEL": "LOUD"}, "Error: PYBROKER_LOG_LEVEL=LOUD: must be LEVEL or MODULE=LEVEL"),
        ({"PYBROKER_LOG_FORMAT": "xml"}, "Error: PYBROKER_LOG_FORMAT=xml: must be one of text, json"),
        ({"KAFKA_LOG_DIRS": "/proc/nowhere"}, "Error: log.dirs=/proc/nowhere: uid "),
    ],
)
def test_what_cannot_be_is_a_line_and_exit_code_1(tmp_path: Path, environment: dict[str, str], line: str) -> None:
    runner = CliRunner(env={"PYBROKER_READY_FILE": str(tmp_path / "ready"), "KAFKA_LOG_DIRS": str(tmp_path), **environment})
    result = runner.invoke(cli, ["container"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(line)


def test_a_missing_command_is_a_line_and_exit_code_1() -> None:
    result = CliRunner().invoke(cli, ["container", "no-such-command", "--option"])
    assert (result.exit_code, result.stderr) == (1, "Error: no-such-command: No such file or directory\n")
