"""Retention: which segments are deleted, and when their files are."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.log.log import Log
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import run_through
from testing.scenes.logs import START_MS, Disk, append, batch, content, delete_old_segments, read_batches

SIZE = len(batch(size=100))


def filled(disk: Disk, count: int = 10) -> Log:
    """Fill a log with batches one second apart, two in each segment."""
    log = disk.create()
    for i in range(count):
        append(log, batch(size=100, timestamp=START_MS + i * 1000))
    return log


def starts(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_by_size_the_oldest_whole_segments_above_the_limit_go(tmp_path: Path) -> None:
    log = filled(
        Disk(tmp_path, segment_bytes=2 * SIZE, retention_bytes=5 * SIZE, retention_ms=-1, retention_granularity="segment")
    )
    assert starts(log) == [0, 2, 4, 6, 8]
    assert delete_old_segments(log, START_MS) == 2
    assert starts(log) == [4, 6, 8]
    assert (log.log_start_offset, log.size) == (4, 6 * SIZE)
    assert delete_old_segments(log, START_MS) == 0
    with pytest.raises(KafkaError) as caught:
        log.read(Offset(3), bytes_max=1, upper_offset=Offset(10), min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_by_time_a_segment_is_as_old_as_its_youngest_record(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2 * SIZE, retention_ms=10_000, retention_granularity="segment")
    log = filled(disk)
    assert delete_old_segments(log, START_MS + 13_000) == 1  # records at 0 s and 1 s; those at 2 s and 3 s are exactly 10 s old
    assert starts(log) == [2, 4, 6, 8]
    log.close()
    log = disk.open(was_clean=True, log_start_offset=log.log_start_offset)
    assert delete_old_segments(log, START_MS + 15_001) == 2, "after a restart the time indexes show it"
    assert delete_old_segments(log, START_MS + 10**9) == 2
    assert (starts(log), log.log_start_offset, log.log_end_offset, log.size) == ([10], 10, 10, 0)
    assert append(log, batch()) == 10


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, segment_bytes=2 * SIZE, retention_ms=0, retention_granularity="segment"))
    assert delete_old_segments(log, START_MS + 10**9, high_watermark=Offset(5)) == 2
    assert starts(log) == [4, 6, 8]


def test_a_compacted_topic_loses_only_what_is_below_its_start(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, segment_bytes=2 * SIZE, retention_ms=0, cleanup_policy=frozenset({"compact"})))
    assert delete_old_segments(log, START_MS + 10**9) == 0
    log.increment_log_start_offset(Offset(5), high_watermark=Offset(10))
    assert delete_old_segments(log, START_MS + 10**9) == 2
    assert (starts(log), log.log_start_offset) == ([4, 6, 8], 5)
    log.increment_log_start_offset(Offset(10), high_watermark=Offset(10))
    assert delete_old_segments(log, START_MS) == 2
    assert starts(log) == [8], "the active segment stays"


def test_the_start_cannot_pass_the_high_watermark_nor_go_back(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path))
    with pytest.raises(KafkaError) as caught:
        log.increment_log_start_offset(Offset(9), high_watermark=Offset(8))
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.increment_log_start_offset(Offset(7), high_watermark=Offset(8))
    assert not log.increment_log_start_offset(Offset(6), high_watermark=Offset(8))
    assert log.log_start_offset == 7


def test_files_are_renamed_at_once_and_removed_after_the_delay_while_readers_finish(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2 * SIZE, retention_bytes=0, file_delete_delay_ms=500)
    log = filled(disk)
    expected = [one.base_offset for one in read_batches(log)][:2]
    slice_of_first = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(10), min_one_batch=True)
    assert delete_old_segments(log, START_MS) == 5
    names = {path.name for path in disk.log_path.glob("*.log*")}
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.log" not in names
    assert list(disk.directory.take_due(START_MS + 499)) == []
    due = list(disk.directory.take_due(START_MS + 500))
    assert len(due) == 5
    for remove in due:
        remove()
    assert not list(disk.log_path.glob("*.deleted"))
    data = content(slice_of_first)
    assert len(data) == 2 * SIZE
    assert expected == [0, 1]


@pytest.mark.parametrize("offset", range(11))
def test_a_truncated_log_continues_where_it_was_cut(tmp_path: Path, offset: int) -> None:
    disk = Disk(tmp_path, segment_bytes=2 * SIZE, index_interval_bytes=0)
    log = filled(disk)
    before = [(r.offset, r.value) for one in read_batches(log) for r in one.records()]
    assert log.truncate_to(Offset(offset)) is (offset < 10)
    assert append(log, batch(timestamp=START_MS)) == offset
    after = [(r.offset, r.value) for one in read_batches(log) for r in one.records()]
    assert after[:-1] == before[:offset]
    assert run_through(log.offset_of_max_timestamp()) is not None
    log.release()
    assert disk.open().log_end_offset == offset + 1


def test_a_fully_truncated_log_begins_from_the_start(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2 * SIZE)
    log = filled(disk)
    log.truncate_fully_and_start_at(Offset(50))
    assert (starts(log), log.log_start_offset, log.log_end_offset) == ([50], 50, 50)
    assert log.recovery_point <= 50
    assert log.epochs.entries == []
    assert append(log, batch()) == 50
    log.release()
    reopened = disk.open()
    assert (reopened.log_start_offset, reopened.log_end_offset) == (50, 51)
