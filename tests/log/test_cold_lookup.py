"""A lookup that would wait for the disk is done in a thread first, and then the loop finds everything in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.log import entry_file
from pybroker.log.log import Log
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


def test_a_file_that_is_damaged_or_gone_is_left_to_the_read(log: Log, filesystem: ColdFilesystem) -> None:
    forget(log, filesystem)
    first, second = log.segments[0], log.segments[1]
    Path(first.offset_index.path).write_bytes(b"12345678" * 100)
    Path(first.time_index.path).unlink()
    with Path(second.path).open("r+b") as file:
        file.write(bytes(1000))
    for offset in (700, second.base_offset):
        work = log.cold_lookup(Offset(offset))
        assert work is not None
        filesystem.in_thread(work)
    assert log.read(Offset(700), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True).first_batch_size
    with pytest.raises(CorruptRecordError):
        log.read(second.base_offset, bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)


def test_what_a_thread_reads_leaves_the_windows_of_the_index_alone(log: Log, filesystem: ColdFilesystem) -> None:
    forget(log, filesystem)
    work = log.cold_lookup(Offset(700))
    assert work is not None
    work()
    assert log.segments[0].offset_index._windows == {}
    assert len(entry_file._YOUNGEST) <= entry_file.WINDOWS_MAX
