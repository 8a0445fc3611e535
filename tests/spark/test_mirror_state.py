"""The folder of a mirror, and where a record of the target came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.offset_map import Arrived, OffsetMap, Run
from pybroker.spark.mirror.outgoing import Producer
from pybroker.spark.mirror.state import Identity, Origin, Pair, State

IDENTITY = Identity("one", "two", Producer(ProducerId(7), ProducerEpoch(0)), {"a": Pair("copy.a", "00", "11")})


def written(path: Path) -> State:
    state = State.write(path)
    state.identify(IDENTITY)
    with OffsetMap.write(state.map_path("a", 1)) as offsets:
        offsets.begin(Offset(10), target=Offset(0))
        offsets.plan([(Offset(10), Offset(0)), (Offset(20), Offset(5))])
        offsets.mark(Arrived(Offset(23), Offset(8), 0))
    return state


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert State.write(tmp_path / "m").identity() is None
    state = written(tmp_path / "n")
    assert state.identity() == IDENTITY
    assert State.read(tmp_path / "n").identity() == IDENTITY
    assert list(state.maps()) == [("a", 1)]


def test_where_a_record_came_from(tmp_path: Path) -> None:
    state = written(tmp_path)
    assert [state.origin("copy.a", 1, offset=Offset(offset)) for offset in (0, 4, 5, 7)] == [
        Origin("a", 1, Offset(n)) for n in (10, 14, 20, 22)
    ]
    assert state.runs("copy.a") == {1: [Run(10, 0, 5), Run(20, 5, 3)]}
    with pytest.raises(PipelineError, match=r"copy.a-1 is mirrored up to offset 7; offset 8 is not mirrored yet"):
        state.origin("copy.a", 1, offset=Offset(8))
    with pytest.raises(PipelineError, match=r"partition 0 of topic copy.a was not mirrored"):
        state.origin("copy.a", 0, offset=Offset(0))
    with pytest.raises(PipelineError, match="does not mirror anything to topic a"):
        state.origin("a", 1, offset=Offset(0))


def test_one_mirror_at_a_time(tmp_path: Path) -> None:
    state = written(tmp_path)
    with pytest.raises(PipelineError, match="is in use: another mirror is running"):
        State.write(tmp_path)
    state.close()
    State.write(tmp_path).close()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": 5}', '{"kind": "a mirror of pybroker, 1", "topics": {}}', "\0"])
def test_what_is_not_its_state_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mirror.json").write_text(text)
    with pytest.raises(PipelineError, match=r"mirror\.json is "):
        State.read(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"is not the folder of a mirror$"):
        State.read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="is not empty and is not the folder of a mirror"):
        State.write(tmp_path)
    with pytest.raises(PipelineError, match="file: File exists"):
        State.write(tmp_path / "file")
