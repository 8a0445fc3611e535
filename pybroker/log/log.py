"""The log of one partition: segments on disk, the offsets where it begins and ends, and its producers and leader epochs.

Its operations are in modules of their own: `append`, `read`, `timestamp_lookup`, `truncate`, `retention`, `recovery` and others.
They take the state of a log, which `log_state` has, and do not know this module, which offers them as methods.

A log belongs to the loop. Only fsync and the removal of files run in threads, on descriptors and paths that they were given.

Source: UnifiedLog.scala, LocalLog of Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.config.setting import LONG_MAX
from pybroker.log import append, cold_lookup, flush, read, roll, timestamp_lookup, truncate
from pybroker.log.checkpoints import checkpoint
from pybroker.log.indexes.transaction_index import ENTRY
from pybroker.log.log_state import LogState, nothing
from pybroker.log.recovery import recovery
from pybroker.log.retention import log_start, retention
from pybroker.model import FIRST_OFFSET, NO_OFFSET, LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.config.topic import TopicConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.leader_epoch_cache import EpochEndOffset
    from pybroker.log.log_state import LogServices
    from pybroker.log.results import AbortedTransactions, LogAppendInfo, LogOffsetMetadata, TimestampedOffset
    from pybroker.log.segments.fetched_records import FetchedRecords
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import TopicId, TopicPartition
    from pybroker.sharing.work import Work


class Log(LogState):
    """One partition's log, opened by `Log.open` or `Log.create`. Every method may raise KafkaError(KAFKA_STORAGE_ERROR)."""

    __slots__ = ()

    @classmethod
    def create(
        cls,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        log_directory: LogDirectory,
        services: LogServices,
        *,
        name: str | None = None,
    ) -> Log:
        """Return a new, empty log with its directory."""
        log = cls(topic_partition, topic_id, config, log_directory, services, name=name)
        try:
            log.filesystem.make_directory(log.path)
            log_directory.note_names()
            checkpoint.write_partition_metadata(log.filesystem, log.path, topic_id)
            log.add_segment(FIRST_OFFSET, services.clock.time_ms())
            log.flush_state.is_new = True
        except OSError as error:
            raise log_directory.fail(error) from error
        return log

    @classmethod
    def open(
        cls,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        log_directory: LogDirectory,
        services: LogServices,
        *,
        was_clean: bool,
        recovery_point: Offset = FIRST_OFFSET,
        log_start_offset: Offset = FIRST_OFFSET,
        is_start_offset_certain: bool = True,
        known_end_offset: Offset = FIRST_OFFSET,
        perhaps_durable_below: Offset = FIRST_OFFSET,
        may_be_compacted: bool = False,
        aborted_counts: Mapping[Offset, int] | None = None,
    ) -> Log:
        """Open an existing log, and recover it from `recovery_point` on unless `was_clean`. Blocks for as long as that
        takes.

        A log start offset that is not certain is ignored if it is beyond the log's end. `known_end_offset` is an
        offset that this log reached once, by its checkpoints: a log that ends before it has lost its end. A gap above
        the recovery point ends the log, except for a gap below `perhaps_durable_below` and one that compaction may
        have left. `aborted_counts`: how many transactions each segment's index had at a clean stop, where it had any; None if
        that is not known. Any exception leaves no file open.
        """
        log = cls(topic_partition, topic_id, config, log_directory, services)
        try:
            recovery.load(
                log,
                was_clean=was_clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                is_start_offset_certain=is_start_offset_certain,
                known_end_offset=known_end_offset,
                perhaps_durable_below=perhaps_durable_below,
                may_be_compacted=may_be_compacted,
                aborted_counts=aborted_counts,
            )
            log.lost.sort(key=lambda one: one.first_offset)
            for segment in log.segments:
                segment.release()  # nothing reads or writes it yet, and maybe never
        except OSError as error:
            log.release()
            raise log_directory.fail(error) from error
        except BaseException:
            log.release()
            raise
        return log

    # --- append ---

    append_unusual = append.append_unusual  # bound, where the others are wrapped: saves a call for each append
    append_accepted = append.append_accepted
    write_batch = append.write_batch

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> LogAppendInfo:
        """Write batches as the leader has them, with their offsets and epochs. `records` is borrowed until return.

        Raises KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE if they do not continue the log.
        """
        return append.append_as_follower(self, records, now_ms=now_ms)

    def roll(self, now_ms: int, base_offset: Offset = FIRST_OFFSET) -> LogSegment:
        """Close the active segment and begin one at the log end offset, or at `base_offset` if that is larger. Raises OSError.

        After OSError the log is as it was, and appends to its active segment.
        """
        return roll.roll(self, now_ms, base_offset)

    def skip_to(self, offset: Offset) -> None:
        """Let the next record have `offset`, above the log end offset: the log that is copied has no records in between."""

        def work() -> None:
            self.roll(self.services.clock.time_ms(), offset)
            self.log_end_offset = self.producers.map_end_offset = offset

        self.guarded(work)

    # --- durability ---

    def flush(self, *, upto: Offset | None = None) -> None:
        """Make everything below `upto` (default: all) durable, in a thread, and then move the recovery point there.

        One flush of a log runs at a time; requests that come meanwhile are done by the next flush, so that no segment
        is synced more often than it has changed. Raises OSError.
        """
        flush.flush(self, upto)

    def settle(self, first_offset: Offset) -> None:
        """Hide an append at `first_offset`, which has reached `flush.messages`, until it is durable.

        Starts a flush, as `flush` does; `on_settled` is called when it is done. Raises OSError.
        """
        flush.settle(self, first_offset)

    def count_as_written(self, durable_end: Offset) -> None:
        """Count what is not below `durable_end`, and all names, as not durable, in a log that was just opened."""
        self.recovery_point = min(self.recovery_point, durable_end)
        self.producers.durable_snapshot_offset = NO_OFFSET
        state = self.flush_state
        state.has_new_names = state.are_indexes_behind = state.is_due = True

    def settle_moved(self) -> None:
        """Hide what is not durable at the place to which the log was moved, if `flush.messages` promises that it is."""
        if self.config.flush_messages < LONG_MAX and self.recovery_point < self.log_end_offset:
            self.guarded(lambda: flush.settle(self, self.recovery_point))

    @property
    def aborted_counts(self) -> dict[Offset, int]:
        """The number of transactions in each segment's index, of those that have any. Raises OSError."""
        counts = ((segment.base_offset, segment.transaction_index.size_in_file() // ENTRY.size) for segment in self.segments)
        return {base_offset: count for base_offset, count in counts if count}

    # --- read ---

    read = read.read
    """Return a slice from the batch that holds `offset`, of batches below `upper_offset`, cut at `bytes_max` wherever that is.

    With `min_one_batch` the first batch is whole, however large. Raises KafkaError(OFFSET_OUT_OF_RANGE), and CORRUPT_MESSAGE if
    the disk does not hold batches there.
    """

    def cold_lookup(self, offset: Offset) -> Callable[[], None] | None:
        """Return what to run in a thread before `read` from `offset`, so that it waits for no disk; None if nothing."""
        return cold_lookup.cold_lookup(self, offset)

    def offset_behind_damage(self, offset: Offset) -> Offset | None:
        """Return where reading can continue after `read` from `offset` raised CORRUPT_MESSAGE; None if that is not known."""
        return read.offset_behind_damage(self, offset)

    def offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return where an offset is; without the position if it is outside of the log."""
        return read.offset_metadata(self, offset)

    def aborted_transactions(
        self, *, fetch_offset: Offset, upper_offset: Offset, fetched: FetchedRecords | None = None
    ) -> AbortedTransactions:
        """Return the aborted transactions, by last offset, that a read-committed reader of the range, or of `fetched`, skips."""
        return read.aborted_transactions(self, fetch_offset=fetch_offset, upper_offset=upper_offset, fetched=fetched)

    # --- lookups ---

    def offset_for_timestamp(self, timestamp: int) -> Work[TimestampedOffset | None]:
        """Return the first record, by offset, whose timestamp (ms) is `timestamp` or later. Yields where others may work."""
        return timestamp_lookup.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> Work[TimestampedOffset | None]:
        """Return the first record that has the largest timestamp; None in a log without timestamps. Yields as the other does."""
        return timestamp_lookup.offset_of_max_timestamp(self)

    def legacy_offsets_before(self, timestamp: int, *, count: int) -> list[Offset]:
        """Return offsets for ListOffsets v0: of segments by the time of their files, latest first, at most `count`."""
        return timestamp_lookup.legacy_offsets_before(self, timestamp, count=count)

    def lead(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that this broker leads in `leader_epoch` from `start_offset` on, where the log ended when it became the leader."""
        self.epochs.lead(leader_epoch, start_offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEndOffset:
        """Return the largest epoch up to `epoch` and where it ends; both -1 if unknown. A leader's own is known without
        any record.
        """
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch of the record at `offset`, also of the record that a leader writes there next; -1 if
        unknown.
        """
        return self.epochs.epoch_for_offset(offset)

    # --- shorten ---

    def finish_truncation(self) -> None:
        """Do the rest of a truncation that stopped half-way."""
        self.guarded(lambda: truncate.finish(self))

    def truncate_to(self, offset: Offset) -> bool:
        """Drop every record at or above `offset`. Returns whether there was any."""
        return truncate.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything; the log begins and ends at `offset`."""
        truncate.truncate_fully_and_start_at(self, offset)

    def increment_log_start_offset(self, offset: Offset, *, high_watermark: Offset) -> bool:
        """Let the log begin at `offset` if that is later (DeleteRecords).

        Raises KafkaError(OFFSET_OUT_OF_RANGE) above the watermark.
        """
        return log_start.increment_log_start_offset(self, offset, high_watermark=high_watermark)

    def delete_below_start(self, *, count_max: int | None = None) -> int:
        """Delete the segments below the log start offset, after that is durable, at most `count_max`. Returns their number."""
        return retention.delete_below_start(self, count_max=count_max)

    # --- life ---

    def close(self) -> None:
        """Close the log cleanly: make everything durable, write a snapshot of the producers, release the files.

        Blocks. Slices that are being sent stay readable. Raises ShortageError, after which the log is open as before.
        """
        try:
            self.prepare_close()()
        except OSError as error:
            failure = self.log_directory.fail(error)
            if not self.log_directory.is_offline:
                raise failure from error
        self.finish_close()

    def prepare_close(self) -> Callable[[], None]:
        """Write what a clean end leaves behind; what is returned makes it durable in any thread. Both raise OSError."""
        if self.is_closed or self.log_directory.is_offline:
            return nothing
        if self.is_unfinished:
            truncate.finish(self)
        self.producers.take_snapshot()
        snapshot = self.producers.snapshot_to_sync
        for segment in self.segments:
            segment.write_last_timestamp()
            segment.transaction_index.write()
        if self.epochs.is_behind:
            self.epochs.write()
        state = self.flush_state
        is_durable = self.log_end_offset <= self.recovery_point and not state.are_indexes_behind and not state.sealed
        if not is_durable:
            return flush.sync_work(self, self.log_end_offset, is_closing=True)[0]
        if snapshot is None:
            return nothing
        filesystem, path = self.filesystem, self.path

        def work() -> None:
            filesystem.sync_path(snapshot)
            filesystem.sync_directory(path)

        return work

    def finish_close(self) -> None:
        """Release the files: everything is durable, unless the directory is offline."""
        if not self.is_closed and not self.log_directory.is_offline:
            self.recovery_point = max(self.recovery_point, self.log_end_offset)
        self.release()

    def release(self) -> None:
        """Release the files without writing anything; the log must not be used afterwards."""
        self.is_closed = True
        self.on_settled = nothing  # it refers to this log: a cycle that was frozen would never be freed
        for segment in self.segments:
            segment.release()
