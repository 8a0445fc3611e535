"""`pybroker spark mirror`: how it reports a wrong command line, and what it looks up without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.cli.main import cli
from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.spark.mirror.offset_map import Arrived, OffsetMap
from pybroker.spark.mirror.outgoing import Producer
from pybroker.spark.mirror.state import Identity, Pair, State


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["spark", "mirror", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "a"], "--source and --target are needed"),
        (["--source", "a:1", "--target", "b:1"], "give either --topic or --pattern"),
        (["--source", "a:1", "--target", "b:1", "--topic", "a", "--pattern", "b"], "give either --topic or --pattern"),
        (["--source", "a:1", "--target", "b:1", "--topic", "a", "--rename", "a"], "--rename a: must be TOPIC=NAME"),
        (["--origin", "a:1"], "--origin a:1: must be TOPIC:PARTITION:OFFSET"),
    ],
)
def test_a_wrong_command_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    lay_down(tmp_path)
    result = invoke(str(tmp_path), *arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {message}\n")


def test_an_invalid_address_is_one_line(tmp_path: Path) -> None:
    result = invoke(str(tmp_path / "m"), "--source", "here", "--target", "b:1", "--topic", "a", "--local")
    assert (result.exit_code, result.stderr) == (1, "Error: 'here' is not an address of a broker: it must be HOST:PORT\n")
    assert not (tmp_path / "m").exists()


def lay_down(path: Path) -> None:
    state = State.write(path)
    state.identify(Identity("one", "two", Producer(ProducerId(7), ProducerEpoch(0)), {"a": Pair("copy.a", "00", "11")}))
    with OffsetMap.write(state.map_path("a", 1)) as offsets:
        offsets.begin(Offset(10), target=Offset(0))
        offsets.plan([(Offset(10), Offset(0)), (Offset(20), Offset(5))])
        offsets.mark(Arrived(Offset(23), Offset(8), 0))
    state.close()


def test_looking_up(tmp_path: Path) -> None:
    lay_down(tmp_path)
    assert invoke(str(tmp_path), "--origin", "copy.a:1:6").stdout == "a:1:21\n"
    assert invoke(str(tmp_path), "--map", "copy.a").stdout.splitlines() == [
        "partition 1: source 10-14 is 0-4",
        "partition 1: source 20-22 is 5-7",
    ]
    result = invoke(str(tmp_path), "--origin", "copy.a:1:8")
    assert (result.exit_code, result.stderr) == (1, "Error: copy.a-1 is mirrored up to offset 7; offset 8 is not mirrored yet\n")
    assert invoke(str(tmp_path / "x"), "--map", "a").stderr == f"Error: {tmp_path}/x is not the folder of a mirror\n"
