"""`pybroker start --brokers N`: the command line of each broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.broker.several import parent
from pybroker.cli.main import cli


@pytest.mark.usefixtures("restored")
def test_each_broker_gets_the_options_of_all_and_its_own_properties(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[Sequence[str]] = []

    def run(
        _config: object, count: int, command_of: Callable[[int, str, int | None], Sequence[str]], *_: object, **__: Any
    ) -> int:
        commands.extend(command_of(number, "unix:/s", None) for number in range(1, count + 1))
        return 0

    monkeypatch.setattr(parent, "run", run)
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=6\n")
    options = ["--env", "--log-level", "DEBUG", "--log-format", "json", "--override", "broker.rack=a=b"]
    result = CliRunner().invoke(cli, ["start", str(file), "--brokers", "2", "--port", "9192", "--data-dir", "/d", *options])
    assert result.exit_code == 0, result.output
    second = [*commands[1]]
    assert second[second.index("-m") :][:4] == ["-m", "pybroker", "start", str(file)]
    for expected in (
        ["--env"],
        ["--exit-with-parent"],
        ["--log-level", "DEBUG"],
        ["--log-format", "json"],
        ["--log-field", "broker=2"],
        ["--override", "broker.rack=a=b"],
        ["--override", "listeners=PLAINTEXT://127.0.0.1:9193"],
        ["--override", "node.id=2"],
        ["--override", "metadata.store=unix:/s"],
    ):
        assert any(second[at : at + len(expected)] == expected for at in range(len(second))), expected
    assert second.index("log.dirs=/d") < second.index("log.dirs=/d/broker_2"), "the last one counts"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (["--port", "65535"], "listeners=PLAINTEXT://127.0.0.1:65535: PLAINTEXT has no free port that is 1 higher", 2),
        (["--override", "controller.quorum.voters=1@a:9093"], "--brokers runs brokers of one machine", 2),
        (
            ["--override", "controller.quorum.voters=1@a:1,2@b:2"],
            "controller.quorum.voters=1@a:1,2@b:2: names the controllers",
            2,
        ),
        (["--host", "0.0.0.0"], "listeners=PLAINTEXT://0.0.0.0:9092: the listener PLAINTEXT is at every interface", 2),
        (["--override", "node.id=7"], "node.id=7: --brokers numbers the brokers from 1, so leave it out", 2),
    ],
)
def test_what_several_brokers_cannot_have_is_one_line(options: list[str], words: str, code: int, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["start", "--brokers", "2", "--data-dir", str(tmp_path / "d"), *options])
    assert result.exit_code == code
    assert words in result.output
    assert not (tmp_path / "d").exists()
