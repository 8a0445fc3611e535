"""A follower takes over what its leader has responded for a partition.

The log follows the leader's: batches are appended as they came. Where the logs diverge, the leader shows where its own log ends
the epoch of the follower's last record. The follower drops what is behind that, and asks again. The high watermark is never a
reason to drop a record: a follower may have records that are committed before its high watermark shows it.

Each function raises KafkaError with the log's code; a disk that fails takes the partition offline by itself.

Source: ReplicaFetcherThread.processPartitionData, AbstractFetcherThread; KIP-101, KIP-279, KIP-595.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import NO_OFFSET, LeaderEpoch, Offset

if TYPE_CHECKING:
    from pybroker.protocol.messages.fetch import PartitionData
    from pybroker.replication.partition import Partition


def append(partition: Partition, data: PartitionData, now_ms: int) -> int:
    """Append the records, and follow the high watermark and the log start. Returns the bytes that were appended.

    A log on a full volume takes no records: KAFKA_STORAGE_ERROR. It follows the rest, which may make room.
    """
    log, size = partition.log, 0
    records, room = data.records, log.log_directory.room
    if records and not room.is_full:
        assert isinstance(records, (bytes, bytearray, memoryview)), "received, and not to be sent"
        _begin_with_batch(partition, Offset(int.from_bytes(records[:8], "big")))
        size = log.append_as_follower(memoryview(records), now_ms).size
    _follow_high_watermark(partition, Offset(data.high_watermark))
    if log.log_start_offset < data.log_start_offset <= partition.high_watermark:
        log.increment_log_start_offset(Offset(data.log_start_offset), high_watermark=partition.high_watermark)
    if records and room.is_full:  # a write that finds no room would take the directory offline
        raise room.refusal()
    return size


def _begin_with_batch(partition: Partition, base_offset: Offset) -> None:
    """Begin an empty log where its first batch begins, because DeleteRecords may move the leader's log start into a batch.

    Source: Partition.doAppendRecordsToFollowerOrFutureReplica, for UnexpectedAppendOffsetException.
    """
    log = partition.log
    if base_offset < log.log_end_offset == log.log_start_offset:
        start_at(partition, base_offset)


def _follow_high_watermark(partition: Partition, of_leader: Offset) -> None:
    """Move the high watermark to the leader's, as far as the log goes. It never moves back: a new leader may not know it yet."""
    high_watermark = min(of_leader, partition.log.log_end_offset)
    if high_watermark > partition.high_watermark:
        partition.high_watermark_metadata = partition.log.offset_metadata(high_watermark)
    partition.log.producers.on_high_watermark(partition.high_watermark)  # also if only the log was shortened


def truncate(partition: Partition, *, epoch: LeaderEpoch, end_offset: Offset) -> None:
    """Drop what the leader does not have: it ends `epoch`, the largest up to this log's last one, at `end_offset`."""
    log = partition.log
    if end_offset < 0:
        return
    own = log.end_offset_for_epoch(epoch)
    end = end_offset if own.end_offset == NO_OFFSET else min(end_offset, own.end_offset)
    log.truncate_to(Offset(end))
    _end_high_watermark_with_log(partition)


def start_at(partition: Partition, log_start_offset: Offset) -> None:
    """Drop everything and begin where the leader's log begins, because that is behind this log's end."""
    partition.log.truncate_fully_and_start_at(log_start_offset)
    partition.high_watermark_metadata = partition.log.offset_metadata(log_start_offset)
    partition.log.producers.on_high_watermark(log_start_offset)


def _end_high_watermark_with_log(partition: Partition) -> None:
    """Move the high watermark back to the log's end: an unclean election may drop records that were below it. It is no smaller
    than the log's start, where a log begins again that was cut before it.
    """
    log = partition.log
    if partition.high_watermark >= log.log_end_offset:  # the same offset may be at another position now
        partition.high_watermark_metadata = log.offset_metadata(log.log_end_offset)
    elif partition.high_watermark < log.log_start_offset:
        partition.high_watermark_metadata = log.offset_metadata(log.log_start_offset)
    log.producers.on_high_watermark(partition.high_watermark)  # a shorter log takes no ended transaction as replicated


def last_epoch(partition: Partition) -> LeaderEpoch:
    """Return the epoch of the log's last record, -1 if there is none."""
    return partition.log.epochs.latest_epoch
