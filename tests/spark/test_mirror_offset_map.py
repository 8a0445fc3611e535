"""The offset map: it knows the next source offset for any end of the target, and where a record came from."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror import offset_map
from pybroker.spark.mirror.offset_map import Arrived, OffsetMap, Run, read_arrived

EXAMPLE = [(Offset(100), Offset(0)), (Offset(104), Offset(3)), (Offset(200), Offset(5))]


def example(path: Path) -> None:
    with OffsetMap.write(path) as offsets:
        offsets.begin(Offset(100), target=Offset(0))
        offsets.plan(EXAMPLE)
        offsets.mark(Arrived(Offset(202), Offset(7), 99))


def test_where_each_offset_went(tmp_path: Path) -> None:
    path = tmp_path / "t" / "0.map"
    example(path)
    offsets = OffsetMap.read(path)
    assert [offsets.source_of(Offset(n)) for n in range(7)] == [100, 101, 102, 104, 105, 200, 201]
    assert list(offsets.runs()) == [Run(100, 0, 3), Run(104, 3, 2), Run(200, 5, 2)]
    assert offsets.arrived == read_arrived(path) == Arrived(Offset(202), Offset(7), 99)
    assert path.stat().st_size == 36 + 3 * 20, "consecutive offsets are one run"


@pytest.mark.parametrize(
    ("end", "following", "runs"), [(0, 100, 1), (2, 102, 1), (3, 104, 2), (4, 105, 2), (5, 200, 3), (9, 204, 3)]
)
def test_the_end_of_the_target_shows_what_is_next(tmp_path: Path, end: int, following: int, runs: int) -> None:
    path = tmp_path / "0.map"
    example(path)
    with OffsetMap.write(path) as offsets:
        assert offsets.resume(Offset(end)) == following
    assert path.stat().st_size == 36 + runs * 20


def test_a_gap_at_the_end_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "0.map"
    example(path)
    with OffsetMap.write(path) as offsets:
        offsets.plan([(Offset(207), Offset(7))])
        assert offsets.resume(Offset(7)) == 207
        offsets.plan([(Offset(209), Offset(7))])  # a longer gap: nothing was sent in between
        assert offsets.resume(Offset(7)) == 209
        offsets.mark(Arrived(Offset(210), Offset(8), 0))
        assert offsets.source_of(Offset(7)) == 209
        assert list(offsets.runs())[-1] == Run(209, 7, 1)


def test_a_target_that_ends_before_the_map_begins_is_another_log(tmp_path: Path) -> None:
    with OffsetMap.write(tmp_path / "0.map") as offsets:
        offsets.begin(Offset(5), target=Offset(10))
        with pytest.raises(PipelineError, match="begins at offset 10, but the target ends at 9: it is another log"):
            offsets.resume(Offset(9))


def test_a_run_that_was_half_written_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "0.map"
    example(path)
    whole = path.read_bytes()
    for left in range(1, 20):
        path.write_bytes(whole[:-left])
        with OffsetMap.write(path) as offsets:
            assert offsets.resume(Offset(7)) == 108
    path.write_bytes(whole[:-20] + bytes(20))  # the machine went down after the size was written, before the data was
    with OffsetMap.write(path) as offsets:
        assert offsets.resume(Offset(4)) == 105


def test_a_file_that_was_just_made_is_a_new_map(tmp_path: Path) -> None:
    for begin in (b"", b"pbm", b"pbmirr1\n", b"pbmirr1\n" + bytes(10)):
        path = tmp_path / f"{len(begin)}.map"
        path.write_bytes(begin)
        with OffsetMap.write(path) as offsets:
            assert offsets.is_new
            offsets.begin(Offset(3), target=Offset(0))
        with OffsetMap.write(path) as offsets:
            assert offsets.resume(Offset(1)) == 4


def test_a_file_that_is_not_a_map_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0.map"
    with pytest.raises(PipelineError, match="No such file"):
        OffsetMap.read(path)
    assert read_arrived(path) is None
    path.write_bytes(b"something else")
    with pytest.raises(PipelineError, match="is not the offset map of a mirror"):
        OffsetMap.write(path)
    path.unlink()
    example(path)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(PipelineError, match="is damaged at run 0"):
        OffsetMap.read(path)


def test_only_one_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_map, "_LOCK_TIMEOUT_S", -1)
    with OffsetMap.write(tmp_path / "0.map"), pytest.raises(PipelineError, match="in use: another mirror is running"):
        OffsetMap.write(tmp_path / "0.map")
    with OffsetMap.write(tmp_path / "0.map") as offsets:
        assert offsets.is_new


def test_offsets_before_the_map_are_not_known(tmp_path: Path) -> None:
    with OffsetMap.write(tmp_path / "0.map") as offsets:
        offsets.begin(Offset(5), target=Offset(10))
        with pytest.raises(PipelineError, match="offsets before 10 were not mirrored"):
            offsets.source_of(Offset(9))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=12), st.integers(0, 1 << 30))
def test_the_map_knows_what_arrived_before_a_kill(steps: list[tuple[int, int]], seed: int) -> None:
    """Batches with gaps before them are planned some at a time; a kill comes when some of those have arrived."""
    chance = random.Random(seed)
    batches, source, target = [], 10, 0
    for gap, count in steps:
        batches.append((source + gap, target, count))
        source, target = source + gap + count, target + count
    wanted = [first + number for first, _, count in batches for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        path, there = Path(folder) / "0.map", 0
        with OffsetMap.write(path) as offsets:
            offsets.begin(Offset(10), target=Offset(0))
        while there < len(batches):
            with OffsetMap.write(path) as offsets:
                end = batches[there][1]
                following = offsets.resume(Offset(end))
                assert following <= batches[there][0], "nothing is left out"
                assert following > (wanted[end - 1] if end else -1), "and nothing is sent twice"
                planned = batches[there : there + chance.randint(1, 4)]
                offsets.plan((Offset(first), Offset(at)) for first, at, _ in planned)
            there += chance.randint(0, len(planned))
        with OffsetMap.write(path) as offsets:
            end = len(wanted)
            offsets.resume(Offset(end))
            offsets.mark(Arrived(Offset(source), Offset(end), 0))
            assert [offsets.source_of(Offset(number)) for number in range(end)] == wanted
            assert [run.source + number for run in offsets.runs() for number in range(run.count)] == wanted
