"""The log of one partition: segments on disk, the offsets where it begins and ends, and its producers and leader epochs.

Its operations are in modules of their own: `append`, `read`, `timestamp_lookup`, `truncate`, `retention`, `recovery` and others.
They take the state of a log, which `log_state` has, and do not know this module, which offers them as methods. Those that are
bound as they are, without a method around them, cost no further call.

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
    from collections.abc import Callable

    from pybroker.config.topic import TopicConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.leader_epoch_cache import EpochEndOffset
    from pybroker.log.log_state import LogServices
    from pybroker.log.results import LastRun
    from pybroker.model import TopicId, TopicPartition


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
    def open(  # noqa: PLR0917  (each is of another kind)
        cls,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        log_directory: LogDirectory,
        services: LogServices,
        last: LastRun,
    ) -> Log:
        """Open an existing log, and recover it unless the last stop was clean. Blocks for as long as that takes.

        Any exception leaves no file open.
        """
        log = cls(topic_partition, topic_id, config, log_directory, services)
        try:
            recovery.load(log, last)
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

    append_unusual = append.append_unusual
    append_accepted = append.append_accepted
    append_unusual_copies = append.append_unusual_copies
    write_batches = append.write_batches
    roll = roll.roll

    def skip_to(self, offset: Offset) -> None:
        """Let the next record have `offset`, above the log end offset: the log that is copied has no records in between."""

        def work() -> None:
            self.roll(self.services.clock.time_ms(), offset)
            self.log_end_offset = self.producers.map_end_offset = offset

        self.guarded(work)

    # --- durability ---

    settle = flush.settle
    flush = flush.flush

    def count_as_written(self, durable_end: Offset) -> None:
        """Count what is not below `durable_end`, and all names, as not durable, in a log that was just opened."""
        self.recovery_point = min(self.recovery_point, durable_end)
        self.producers.durable_snapshot_offset = NO_OFFSET
        state = self.flush_state
        state.has_new_names = state.are_indexes_behind = state.is_due = True

    def settle_moved(self) -> None:
        """Hide what is not durable at the place to which the log was moved, if `flush.messages` promises that it is."""
        if self.config.flush_messages < LONG_MAX and self.recovery_point < self.log_end_offset:
            self.guarded(lambda: self.settle(self.recovery_point))

    @property
    def aborted_counts(self) -> dict[Offset, int]:
        """The number of transactions in each segment's index, of those that have any. Raises OSError."""
        counts = ((segment.base_offset, segment.transaction_index.size_in_file() // ENTRY.size) for segment in self.segments)
        return {base_offset: count for base_offset, count in counts if count}

    # --- read ---

    cold_lookup = cold_lookup.cold_lookup
    offset_behind_damage = read.offset_behind_damage
    offset_metadata = read.offset_metadata
    aborted_transactions = read.aborted_transactions
    read = read.read

    # --- lookups ---

    offset_for_timestamp = timestamp_lookup.offset_for_timestamp
    offset_of_max_timestamp = timestamp_lookup.offset_of_max_timestamp
    legacy_offsets_before = timestamp_lookup.legacy_offsets_before

    def lead(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that this broker leads in `leader_epoch` from `start_offset` on, where the log ended when it became the leader."""
        self.epochs.lead(leader_epoch, start_offset)

    def follow(self) -> None:
        """Note that this broker does not lead: what comes has the epochs of another leader."""
        self.epochs.follow()

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

    truncate_to = truncate.truncate_to
    truncate_fully_and_start_at = truncate.truncate_fully_and_start_at
    increment_log_start_offset = log_start.increment_log_start_offset
    delete_below_start = retention.delete_below_start

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
