"""A lookup that would wait for the disk is done in a thread first, and then the loop finds everything in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.log.log import Log
from pybroker.log.segments import segment_reading
from pybroker.model import Offset
from pybroker.records.errors import CorruptRecordError
from testing.scenes.cold_files import ColdFilesystem
from testing.scenes.logs import Disk, append, batch

BATCHES = 3_000


@pytest.fixture
def filesystem(monkeypatch: pytest.MonkeyPatch) -> ColdFilesystem:
    monkeypatch.setattr("pybroker.log.cold_lookup.HOT_TAIL", 64 << 10)
    return ColdFilesystem()


@pytest.fixture
def log(tmp_path: Path, filesystem: ColdFilesystem) -> Log:
    made = Disk(tmp_path, filesystem=filesystem, segment_bytes=1 << 20, index_interval_bytes=1000).create()
    for _ in range(BATCHES):
        append(made, batch(size=700))
    assert len(made.segments) > 2
    return made


def names_in(log: Log) -> list[str]:
    return sorted(entry.name for entry in Path(log.path).iterdir())


def temporary(log: Log) -> list[str]:
    return [name for name in names_in(log) if name.endswith(".tmp")]


def forget(log: Log, filesystem: ColdFilesystem, *, closes: bool = True) -> None:
    """Let no page and no window be in memory, as a day later."""
    for segment in log.segments:
        segment.tail.forget()
        segment.offset_index.write()
        segment.offset_index.release()
        if closes and segment is not log.segments.active:
            segment.let_go()
            segment._is_loaded = False
    filesystem.drop_caches()
    filesystem.waits.clear()


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("offset", [0, 1, 700, 1401, 2100, 2500])
def test_a_cold_read_waits_for_the_disk_in_a_thread_alone(
    log: Log, filesystem: ColdFilesystem, offset: int, closes: bool
) -> None:
    forget(log, filesystem, closes=closes)
    work = log.cold_lookup(Offset(offset))
    assert filesystem.waits == [], "to look costs no read"
    assert work is not None
    filesystem.in_thread(work)
    fetched = log.read(Offset(offset), bytes_max=10_000, upper_offset=log.log_end_offset, min_one_batch=True)
    assert fetched.size == 10_000
    assert filesystem.waits == []
    assert log.cold_lookup(Offset(offset)) is None, "the next read finds everything"


def test_without_the_thread_the_same_read_waits_on_the_loop(log: Log, filesystem: ColdFilesystem) -> None:
    forget(log, filesystem)
    log.read(Offset(700), bytes_max=10_000, upper_offset=log.log_end_offset, min_one_batch=True)
    assert {name.rpartition(".")[2] for name, _ in filesystem.waits} == {"log", "index", "timeindex"}


def test_the_end_of_the_log_is_never_cold(log: Log, filesystem: ColdFilesystem) -> None:
    assert log.cold_lookup(Offset(BATCHES - 1)) is None, "one of the batches written last"
    assert log.cold_lookup(log.log_end_offset) is None
    assert log.cold_lookup(Offset(-1)) is None
    for segment in log.segments:
        segment.tail.forget()
    log.read(Offset(BATCHES - 3), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    filesystem.cached.clear()
    assert log.cold_lookup(Offset(BATCHES - 3)) is None, "the last bytes of a file that is written"


@pytest.mark.parametrize("is_from_other_data", [True, False])
@pytest.mark.parametrize("kind", ["offset_index", "time_index"])
def test_indexes_that_contradict_the_data_are_rebuilt_in_a_thread(
    log: Log, filesystem: ColdFilesystem, monkeypatch: pytest.MonkeyPatch, kind: str, is_from_other_data: bool
) -> None:
    segment = log.segments[1]
    paths = [Path(segment.offset_index.path), Path(segment.time_index.path)]
    forget(log, filesystem)
    before = [path.read_bytes() for path in paths]
    largest = segment.max_timestamp
    forget(log, filesystem)
    path = Path(getattr(segment, kind).path)
    if is_from_other_data:
        path.write_bytes(b"12345678" * 99)
    else:
        path.unlink()
    work = log.cold_lookup(Offset(segment.base_offset + 700))
    assert work is not None
    filesystem.in_thread(work)
    if kind == "offset_index" or not is_from_other_data:
        monkeypatch.setattr(segment_reading, "Survey", None)  # the loop walks over no headers
    fetched = log.read(Offset(segment.base_offset + 700), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    assert not isinstance(fetched.records, bytes)
    assert int.from_bytes(fetched.records.read(0, 8)) == segment.base_offset + 700
    assert [path.read_bytes() for path in paths] == before
    assert segment.max_timestamp == largest
    assert temporary(log) == []


def test_a_thread_rebuilds_nothing_twice_and_a_start_removes_what_was_not_taken(log: Log, filesystem: ColdFilesystem) -> None:
    forget(log, filesystem)
    segment = log.segments[0]
    Path(segment.offset_index.path).unlink()
    for _ in range(2):
        work = log.cold_lookup(Offset(700))
        assert work is not None
        work()
    assert len(temporary(log)) == 2, "one for each index"
    log.release()
    disk = Disk(Path(log.path).parent)
    again = disk.open()
    assert temporary(log) == []
    again.close()


def test_a_thread_leaves_a_segment_alone_that_was_deleted_meanwhile(log: Log, filesystem: ColdFilesystem) -> None:
    forget(log, filesystem)
    segment = log.segments[0]
    Path(segment.offset_index.path).unlink()
    work = log.cold_lookup(Offset(700))
    assert work is not None
    names = names_in(log)
    for path in segment.paths[:1]:
        Path(path).unlink()
    work()
    assert segment.rebuilt is None
    assert names_in(log) == [name for name in names if name != Path(segment.path).name]


def test_damage_is_found_in_a_thread_too(log: Log, filesystem: ColdFilesystem) -> None:
    forget(log, filesystem)
    second = log.segments[1]
    with Path(second.path).open("r+b") as file:
        file.write(bytes(1000))
    work = log.cold_lookup(second.base_offset)
    assert work is not None
    filesystem.in_thread(work)
    with pytest.raises(CorruptRecordError):
        log.read(second.base_offset, bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    assert second.damage
    behind = log.offset_behind_damage(second.base_offset)
    assert behind is not None
    assert log.read(behind, bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True).first_batch_size
