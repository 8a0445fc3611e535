"""An append: its results, its refusals, and the bytes on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.log.log import Log
from pybroker.log.results import AppendOrigin
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import Record, TimestampType, batches
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.scenes.logs import START_MS, Disk, Producer, append, batch, content, read_batches, stored


def refused(disk_log: Log, data: bytearray, **options: Any) -> ErrorCode:
    before = disk_log.log_end_offset, disk_log.size
    with pytest.raises(KafkaError) as caught:
        disk_log.append_as_leader(memoryview(data), **{"leader_epoch": 0, "now_ms": START_MS} | options)
    assert (disk_log.log_end_offset, disk_log.size) == before
    return caught.value.code


def test_the_result_names_offsets_times_and_sizes(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch(3))
    data = batch(2, timestamps=[START_MS + 5, START_MS + 1])
    info = log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(4), now_ms=START_MS)
    assert (info.first_offset, info.last_offset, info.record_count) == (3, 4, 2)
    assert (info.max_timestamp, info.log_append_time, info.log_start_offset) == (START_MS + 5, -1, 0)
    assert info.size == len(data)
    assert stored(log)[-len(data) :] == data, "the batch is patched in the caller's buffer and written from there"
    (last,) = list(batches(data))
    assert (last.base_offset, last.partition_leader_epoch, last.is_valid) == (3, 4, True)


def test_log_append_time_is_the_broker_s(tmp_path: Path) -> None:
    log = Disk(tmp_path, message_timestamp_type="LogAppendTime").create()
    info = log.append_as_leader(memoryview(batch(2)), leader_epoch=LeaderEpoch(0), now_ms=START_MS + 77)
    assert (info.log_append_time, info.max_timestamp) == (START_MS + 77, START_MS + 77)
    (read,) = read_batches(log)
    assert read.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in read.records()} == {START_MS + 77}


def test_a_replaced_configuration_counts_from_the_next_append_on(tmp_path: Path) -> None:
    disk = Disk(tmp_path, max_message_bytes=200)
    log = disk.create()
    assert refused(log, batch(size=300)) is ErrorCode.MESSAGE_TOO_LARGE
    log.config = Disk(tmp_path, max_message_bytes=500).config
    assert append(log, batch(size=300)) == 0


def test_records_that_no_segment_can_hold_are_refused(tmp_path: Path) -> None:
    log = Disk(tmp_path, segment_bytes=300).create()
    assert refused(log, batch(size=300)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_damaged_records_are_refused(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    data = batch()
    data[-1] ^= 1
    assert refused(log, data) is ErrorCode.CORRUPT_MESSAGE


def test_old_messages_lie_on_the_disk_in_the_new_format(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    records = [Record(Offset(i), START_MS + i, b"k", b"value") for i in range(3)]
    info = log.append_as_leader(
        memoryview(bytearray(build_message_set(records, magic=1))),
        leader_epoch=LeaderEpoch(0),
        now_ms=START_MS,
        request_version=2,
    )
    assert (info.first_offset, info.last_offset, info.records_converted) == (0, 2, 3)
    assert [list(one.records()) for one in read_batches(log)] == [records]


@pytest.mark.parametrize("codec", list(CompressionType))
def test_compressed_batches_are_kept_as_they_came(tmp_path: Path, codec: CompressionType) -> None:
    log = Disk(tmp_path).create()
    data = batch(20, compression=codec)
    append(log, data)
    assert content(log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(20), min_one_batch=True)) == data
    assert read_batches(log)[0].compression is codec


# --- rolling ---


def test_a_segment_rolls_before_it_would_outgrow_its_size(tmp_path: Path) -> None:
    log = Disk(tmp_path, segment_bytes=500).create()
    for _ in range(9):
        append(log, batch(size=100))
    size = len(batch(size=100))
    assert [segment.size for segment in log.segments] == [500 // size * size] * (9 // (500 // size)) + [
        left for left in [9 % (500 // size) * size] if left
    ]


def test_a_segment_rolls_by_the_time_between_its_records_not_by_the_clock(tmp_path: Path) -> None:
    log = Disk(tmp_path, segment_ms=1000).create()
    append(log, batch(timestamp=START_MS), now_ms=START_MS)
    append(log, batch(timestamp=START_MS + 1000), now_ms=START_MS + 10**6)
    assert len(log.segments) == 1
    append(log, batch(timestamp=START_MS + 1001), now_ms=START_MS + 10**6)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.release()
    log = Disk(tmp_path, segment_ms=1000).open()
    append(log, batch(timestamp=START_MS + 2002))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 3], "the first record's time is read again from the disk"


def test_without_timestamps_a_segment_rolls_by_its_age(tmp_path: Path) -> None:
    log = Disk(tmp_path, segment_ms=1000).create()
    append(log, batch(timestamp=-1), now_ms=START_MS)
    append(log, batch(timestamp=-1), now_ms=START_MS + 1001)
    assert len(log.segments) == 2


def test_jitter_rolls_earlier_and_never_by_more_than_allowed(tmp_path: Path) -> None:
    log = Disk(tmp_path, segment_ms=1000, segment_jitter_ms=400).create()
    for _ in range(50):
        log.roll(START_MS)
        append(log, batch())
    jitters = {segment.tail.jitter_ms for segment in log.segments}
    assert len(jitters) > 10
    assert jitters <= set(range(400))


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = Disk(tmp_path, segment_index_bytes=36, index_interval_bytes=0).create()
    for i in range(9):
        append(log, batch(timestamp=START_MS + i))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]  # the time index holds two, and one at its end


def test_offsets_that_do_not_fit_in_four_bytes_roll(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch())
    far = build_batch([Record(Offset(2**31), START_MS, None, b"v")], leader_epoch=LeaderEpoch(0))
    log.append_as_follower(memoryview(far), START_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert log.log_end_offset == 2**31 + 1


# --- followers ---


def test_a_follower_keeps_offsets_and_epochs_and_drops_a_partial_batch(tmp_path: Path) -> None:
    leader = Disk(tmp_path / "leader").create()
    for i in range(5):
        append(leader, batch(2), leader_epoch=i // 2)
    follower = Disk(tmp_path / "follower").create()
    info = follower.append_as_follower(memoryview(stored(leader)[:-7]), START_MS)
    assert (info.first_offset, info.last_offset) == (0, 7)
    info = follower.append_as_follower(
        memoryview(content(leader.read(Offset(8), bytes_max=1 << 20, upper_offset=Offset(10), min_one_batch=True))), START_MS
    )
    assert stored(follower) == stored(leader)
    assert follower.epochs.entries == leader.epochs.entries
    with pytest.raises(KafkaError) as caught:
        follower.append_as_follower(memoryview(stored(leader)), START_MS)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


# --- producers ---


def test_a_repeated_batch_gets_its_first_offsets_and_is_not_written_again(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    producer = Producer(9)
    for i in range(7):
        assert append(log, batch(2, producer=producer, sequence=2 * i)) == 2 * i
    size = log.size
    for i in range(2, 7):  # five are remembered
        info = log.append_as_leader(
            memoryview(batch(2, producer=producer, sequence=2 * i)), leader_epoch=LeaderEpoch(0), now_ms=START_MS
        )
        assert (info.is_duplicate, info.first_offset, info.last_offset) == (True, 2 * i, 2 * i + 1)
    assert refused(log, batch(2, producer=producer, sequence=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (log.size, log.log_end_offset) == (size, 14)


def test_transactions_end_with_markers_and_aborted_ones_are_listed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=600)
    log = disk.create()
    for sequence in range(4):
        append(log, batch(producer=Producer(1), sequence=sequence, is_transactional=True))
        append(log, batch(producer=Producer(2), sequence=sequence, is_transactional=True))
    assert log.producers.first_unstable_offset == 0

    def end(producer_id: int, kind: ControlType) -> int:
        marker = build_transaction_marker(
            TransactionMarker(kind, CoordinatorEpoch(0)),
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=START_MS,
        )
        info = log.append_as_leader(
            memoryview(marker), leader_epoch=LeaderEpoch(0), now_ms=START_MS, origin=AppendOrigin.COORDINATOR
        )
        return info.first_offset

    aborted_at, committed_at = end(1, ControlType.ABORT), end(2, ControlType.COMMIT)
    assert log.producers.first_unstable_offset == 0, "until the markers are replicated"
    log.producers.on_high_watermark(Offset(committed_at + 1))
    assert log.producers.first_unstable_offset is None
    assert log.aborted_transactions(fetch_offset=0, upper_offset=log.log_end_offset) == [(1, 0, aborted_at, 1)]
    assert log.aborted_transactions(fetch_offset=aborted_at + 1, upper_offset=log.log_end_offset) == []
    assert refused(log, batch(producer=Producer(1), sequence=9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.release()
    log = disk.open()
    assert log.aborted_transactions(fetch_offset=0, upper_offset=log.log_end_offset) == [(1, 0, aborted_at, 1)], (
        "the index is rebuilt from the data"
    )


# --- reading ---


def test_a_slice_is_cut_at_its_limit_and_holds_one_whole_batch_where_asked(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    sizes = [len(batch(size=size)) for size in (100, 200, 300)]
    for size in (100, 200, 300):
        append(log, batch(size=size))
    whole = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(3), min_one_batch=False)
    assert whole.size == sum(sizes)
    cut = log.read(Offset(0), bytes_max=sizes[0] + 10, upper_offset=Offset(3), min_one_batch=True)
    assert (cut.size, cut.first_batch_size, cut.is_first_incomplete) == (sizes[0] + 10, sizes[0], False)
    least = log.read(Offset(1), bytes_max=10, upper_offset=Offset(3), min_one_batch=True)
    assert (least.size, content(least)) == (sizes[1], stored(log)[sizes[0] : sizes[0] + sizes[1]])
    old = log.read(Offset(1), bytes_max=10, upper_offset=Offset(3), min_one_batch=False)
    assert (old.size, old.is_first_incomplete) == (10, True)
    assert log.read(Offset(1), bytes_max=0, upper_offset=Offset(3), min_one_batch=False).records == b""
    visible = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(2), min_one_batch=True)
    assert visible.size == sizes[0] + sizes[1]
    assert log.read(Offset(2), bytes_max=100, upper_offset=Offset(2), min_one_batch=True).size == 0
    assert log.read(Offset(3), bytes_max=100, upper_offset=Offset(3), min_one_batch=True).offset_metadata == (3, 0, sum(sizes))
    assert least.offset_metadata.position - whole.offset_metadata.position == sizes[0]
