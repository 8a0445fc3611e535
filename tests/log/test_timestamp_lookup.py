"""Offsets by time, against a search through everything."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.log.timestamp_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pybroker.model import LeaderEpoch, Offset
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.sharing.work import run_through
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import START_MS, Disk, append, batch, read_batches


@settings(max_examples=40, deadline=None)
@given(
    times=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1, max_size=25),
    codec=st.sampled_from([CompressionType.NONE, CompressionType.LZ4]),
    interval=st.integers(0, 400),
    start=st.integers(0, 30),
    reopen=st.booleans(),
    timestamp_type=st.sampled_from(TimestampType),
)
def test_times_are_found_as_by_search(
    times: list[list[int]], codec: CompressionType, interval: int, start: int, *, reopen: bool, timestamp_type: TimestampType
) -> None:
    with tempfile.TemporaryDirectory() as path:
        topic_type = "LogAppendTime" if timestamp_type else "CreateTime"
        disk = Disk(path, segment_bytes=1200, index_interval_bytes=interval, message_timestamp_type=topic_type)
        log = disk.create()
        for i, one in enumerate(times):
            sent = batch(timestamps=[START_MS + t for t in one], compression=codec)
            append(log, sent, leader_epoch=i // 4, now_ms=START_MS + max(one))
        if reopen:
            log.close()
            log = disk.open(was_clean=True)
        start = min(start, log.log_end_offset)
        log.increment_log_start_offset(Offset(start), high_watermark=log.log_end_offset)
        records = [
            (r, one.partition_leader_epoch) for one in read_batches(log, start) for r in one.records() if r.offset >= start
        ]
        for timestamp in range(START_MS - 1, START_MS + 62):
            expected = next(((r.offset, r.timestamp, epoch) for r, epoch in records if r.timestamp >= timestamp), None)
            assert run_through(log.offset_for_timestamp(timestamp)) == expected
        largest = max((r.timestamp for r, _ in records), default=-1)
        expected = next(((r.offset, r.timestamp, epoch) for r, epoch in records if r.timestamp == largest), None)
        assert run_through(log.offset_of_max_timestamp()) == expected


def test_a_log_without_records_or_timestamps_has_no_largest(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    assert run_through(log.offset_of_max_timestamp()) is None
    assert run_through(log.offset_for_timestamp(0)) is None
    append(log, batch(timestamp=-1))
    assert run_through(log.offset_of_max_timestamp()) is None


def test_legacy_offsets_are_those_of_segments_by_file_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=210)
    log = disk.create()
    assert log.legacy_offsets_before(LATEST_TIMESTAMP, count=5) == [0]
    for _ in range(4):
        append(log, batch(2, size=60))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    for segment, modified_ms in zip(log.segments, (10, 20, 30, 40), strict=True):
        os.utime(segment.path, ns=(0, modified_ms * 1_000_000))
    assert log.legacy_offsets_before(LATEST_TIMESTAMP, count=10) == [8, 6, 4, 2, 0]
    assert log.legacy_offsets_before(LATEST_TIMESTAMP, count=2) == [8, 6]
    assert log.legacy_offsets_before(LATEST_TIMESTAMP, count=0) == []
    assert log.legacy_offsets_before(EARLIEST_TIMESTAMP, count=10) == [0]
    assert log.legacy_offsets_before(30, count=10) == [4, 2, 0]
    assert log.legacy_offsets_before(39, count=1) == [4]
    assert log.legacy_offsets_before(9, count=10) == []
    log.increment_log_start_offset(Offset(3), high_watermark=Offset(8))
    assert log.legacy_offsets_before(20, count=10) == [3, 3]


def test_epochs_end_where_the_next_begins(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    for epoch in (0, 0, 2, 3):
        append(log, batch(5), leader_epoch=epoch)
    expected = {-1: (-1, -1), 0: (0, 10), 1: (0, 10), 2: (2, 15), 3: (3, 20), 4: (-1, -1)}
    assert {epoch: tuple(log.end_offset_for_epoch(LeaderEpoch(epoch))) for epoch in expected} == expected
    assert [log.epoch_for_offset(Offset(offset)) for offset in (0, 9, 10, 14, 15, 19)] == [0, 0, 2, 2, 3, 3]
    log.increment_log_start_offset(Offset(12), high_watermark=Offset(20))
    assert tuple(log.end_offset_for_epoch(LeaderEpoch(1))) == (1, 12)
    assert log.epoch_for_offset(Offset(12)) == 2


def test_the_largest_timestamp_is_found_right_after_a_cut_and_a_compaction(tmp_path: Path) -> None:
    """Either may remove the record that a segment's index names as its largest; then the next one counts."""
    moves = cuts = 0
    for seed in range(6):
        draw = random.Random(seed)
        setting = CompactedLog(
            tmp_path / f"{seed}",
            cleanup_policy=frozenset({"compact", "delete"}),
            retention_ms=-1,
            file_delete_delay_ms=0,
            segment_bytes=1 << 20,
            message_timestamp_type=draw.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        )
        for _ in range(4):
            for _ in range(25):
                fill(setting, draw)
            setting.roll()
            for is_cut in draw.sample((True, False), 2):
                before, base = run_through(setting.log.offset_of_max_timestamp()), setting.log.segments[0].base_offset
                if is_cut:
                    begin_later(setting, draw)
                for _ in range(2):  # the first look flushes what is cut
                    setting.clean()
                assert_largest(setting)
                moves += before != run_through(setting.log.offset_of_max_timestamp())
                cuts += is_cut and setting.log.segments[0].base_offset > base
            setting.restart(is_clean=draw.random() < 0.5)
            assert_largest(setting)
    assert min(moves, cuts) > 10, (moves, cuts)


def begin_later(setting: CompactedLog, draw: random.Random) -> None:
    """Let the log begin later, mostly in the middle of a segment of which less than half stays."""
    log = setting.log
    start = log.log_start_offset + int((log.log_end_offset - log.log_start_offset) * draw.uniform(0.2, 0.9))
    log.increment_log_start_offset(Offset(start), high_watermark=log.log_end_offset)
    assert_largest(setting)
    log.delete_below_start()


def fill(setting: CompactedLog, draw: random.Random) -> None:
    """Append a batch of few keys; some of its times are far in the future."""
    now_ms = setting.clock.time_ms()
    records = [
        Record(
            Offset(n), now_ms + draw.choice([-5, 0, 0, draw.randrange(10**6)]), b"%d" % draw.randrange(40), draw.randbytes(300)
        )
        for n in range(draw.randint(1, 4))
    ]
    setting.append(build_batch(records, compression=draw.choice(list(CompressionType))))


def assert_largest(setting: CompactedLog) -> None:
    """Assert that the first record with the largest timestamp is found, as a reader of all records finds it."""
    log = setting.log
    found = [one for each in read_batches(log) for one in each.records() if one.offset >= log.log_start_offset]
    largest = max(found, key=lambda one: (one.timestamp, -one.offset))
    assert run_through(log.offset_of_max_timestamp()) == (largest.offset, largest.timestamp, LeaderEpoch(0))
