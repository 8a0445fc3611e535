"""The start's way through the log directories: finds the logs, their owners, and which of two copies is used.

Steps
    1. Each directory is searched. A log that belongs to no partition of the metadata is set aside as a stray.
    2. Each partition's log is opened, and recovered if the directory's last stop was unclean. A log that cannot be
       opened is noted with its reason, and only its partition is offline; an error of the disk takes its directory
       offline, with the logs opened there.
    3. Finished moves between directories take their place, and unfinished moves are thrown away.

Two copies of one partition with one topic id
    They exist after a power failure that undid half of a move, when a directory that was forgotten comes back, or
    when a person has copied one. The first of these rules that distinguishes them decides; the other copy becomes a
    stray:

    1. a copy in a directory that was forgotten loses
    2. a copy that has its topic id wins over one whose `partition.metadata` is lost
    3. the higher last leader epoch wins: that copy was the leader's later
    4. the longer copy wins: a finished move has everything, and continues from there
    5. the later log start offset wins: no deletion is undone
    6. the copy in the directory that `log.dirs` names first wins; they are the same

    If one of them cannot be opened, nothing is settled: the partition is offline, because that copy may be the right
    one.

Source: LogManager.loadLogs, LogManager.isStrayKraftReplica of Kafka.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories import strays
from pybroker.log.log import Log
from pybroker.log.manager.opening import open_logs
from pybroker.log.recovery import lost
from pybroker.log.recovery.old_formats import OldFormatError
from pybroker.log.results import LastRun
from pybroker.model import FIRST_OFFSET, OFFSET_END, ZERO_TOPIC_ID, TopicId, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.config.topic import TopicConfig
    from pybroker.log.directories.claims import Claims
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log_state import LogServices

    TopicIdOf = Callable[[TopicPartition], TopicId | None]

logger = logging.getLogger(__name__)


class FoundLog(NamedTuple):
    """A partition's directory. `topic_id` is zero if none was ever written, None if it was lost."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    directory: LogDirectory
    path: str


class UnopenedLog(NamedTuple):
    """A log that could not be opened; it is left as it is, and its partition is offline."""

    found: FoundLog
    reason: str


class Loader:
    """Loads the logs of a start. Call `load` once; then `logs`, `unopened` and `interrupted_moves` have the result.

    `topic_id_of(partition)` returns the topic id of the metadata, or None for an unknown partition. Without it every
    log is loaded.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        claims: Claims,
        services: LogServices,
        config_of: Callable[[str], TopicConfig],
        topic_id_of: TopicIdOf | None,
    ) -> None:
        self._directories = directories
        self._claims = claims
        self._services = services
        self._config_of = config_of
        self._topic_id_of = topic_id_of
        self._now_ms = services.clock.monotonic_ms()
        self._futures: list[FoundLog] = []
        self._aborted_counts: dict[LogDirectory, checkpoint.AbortedCounts | None] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.unopened: dict[TopicPartition, UnopenedLog] = {}
        self.interrupted_moves: dict[TopicPartition, LogDirectory] = {}

    def load(self) -> None:
        """Search all directories and open their logs. Blocks. Raises KafkaError if the process, not a disk, is the
        reason to stop.
        """
        found: dict[LogDirectory, list[FoundLog]] = {}
        for directory in self._directories:
            self._guarded(directory, lambda one=directory: found.update({one: self._look_through(one)}))  # type: ignore[misc]
        openers: dict[LogDirectory, list[Callable[[], Log]]] = {}
        for directory, logs in found.items():
            if directory.room.is_full and not directory.was_clean:
                directory.room.release()  # a recovery writes indexes and snapshots
            self._guarded(
                directory,
                lambda one=directory, all_of=logs: openers.update({one: [self._opener(log) for log in all_of]}),  # type: ignore[misc]
            )
        outcomes = open_logs(openers, threads_per_directory=self._services.recovery_threads)
        took_s = (self._services.clock.monotonic_ms() - self._now_ms) / 1000
        for directory in openers:
            self._guarded(directory, lambda one=directory: self._take_all(one, found[one], outcomes[one], took_s))  # type: ignore[misc]
        for future in self._futures:
            self._guarded(future.directory, lambda one=future: self._settle_future(one))  # type: ignore[misc]
        for directory in self._directories:
            self._guarded(directory, directory.sync_names)
            directory.room.look(len(found.get(directory, ())))
            for name in (checkpoint.RECOVERY_POINT_FILE, checkpoint.LOG_START_OFFSET_FILE):
                directory.checkpoint(name).forget()

    @staticmethod
    def _guarded(directory: LogDirectory, work: Callable[[], object]) -> None:
        if directory.is_offline:
            return
        try:
            work()
        except OSError as error:
            failure = directory.fail(error)
            if not directory.is_offline:  # for example too few descriptors: half of a directory must not count as all of it
                raise failure from error

    # --- searching ---

    def _look_through(self, directory: LogDirectory) -> list[FoundLog]:
        """Return the logs to open. All other directories of ours are settled."""
        filesystem = directory.filesystem
        left = checkpoint.take_clean_shutdown(filesystem, directory.path)
        directory.was_clean = left is not None
        self._aborted_counts[directory] = None if left is None else left.aborted_counts
        found: list[FoundLog] = []
        for entry in filesystem.list(directory.path):
            if not entry.is_dir():
                continue
            if strays.is_deleted(entry.name):
                directory.remove_tree_later(self._now_ms, entry.name)
            elif (tp := strays.partition_of_future(entry.name)) is not None:
                self._futures.append(FoundLog(tp, self._topic_id_of_log(directory, tp, entry.path), directory, entry.path))
            elif (tp := strays.partition_of(entry.name)) is not None:
                one = FoundLog(tp, self._topic_id_of_log(directory, tp, entry.path), directory, entry.path)
                if not self._is_set_aside(one):
                    found.append(one)
        return found

    @staticmethod
    def _topic_id_of_log(directory: LogDirectory, tp: TopicPartition, path: str) -> TopicId | None:
        """Return the topic's id, from the checkpoint if its file is damaged; zero for a log that another program left
        without one.

        Returns None if no file has it: the first flush of a log makes its file durable, so the log was never flushed,
        and may be of an older topic of that name. Raises OSError.
        """
        filesystem = directory.filesystem
        try:
            topic_id = checkpoint.read_partition_metadata(filesystem, path)
            lost = f"{path}: there is no {checkpoint.PARTITION_METADATA_FILE}"
        except checkpoint.CorruptCheckpointError as error:
            topic_id, lost = None, str(error)
        if topic_id is not None:
            return topic_id
        recovery_points = directory.checkpoint(checkpoint.RECOVERY_POINT_FILE)
        stored = recovery_points.read().get(tp)
        if stored is None and not recovery_points.is_damaged:
            logger.warning("The topic id is missing: %s", lost)
            return None
        if stored is None or stored.topic_id == ZERO_TOPIC_ID:
            logger.warning("The topic id is missing: %s; the log counts as that of the topic of its name", lost)
            return ZERO_TOPIC_ID
        logger.warning("The topic id is missing: %s; its checkpoint has %s, which is used", lost, topic_id_text(stored.topic_id))
        checkpoint.write_partition_metadata(filesystem, path, stored.topic_id)
        return stored.topic_id

    def _is_set_aside(self, found: FoundLog) -> bool:
        """Return whether the log belongs to no partition of the metadata, and was set aside."""
        if self._topic_id_of is None:
            return False
        expected = self._topic_id_of(found.topic_partition)
        if expected is not None and found.topic_id in (expected, ZERO_TOPIC_ID):
            return False
        if expected is None:
            reason = "belongs to no partition that the metadata has"
        elif found.topic_id is None:
            reason = "was never flushed and has lost its topic id: it may be of an older topic of that name"
        else:
            reason = f"is of topic id {topic_id_text(found.topic_id)}, while the topic is {topic_id_text(expected)} now"
        strays.set_aside(found.directory, found.path, found.topic_partition, reason=reason, now_ms=self._now_ms)
        return True

    # --- opening ---

    def _take_all(self, directory: LogDirectory, found: list[FoundLog], outcomes: list[Log | Exception], took_s: float) -> None:
        count = 0
        for one, outcome in zip(found, outcomes, strict=True):
            log = self._opened(one, outcome)
            if log is not None:
                count += 1
                self._take(log)
            elif directory.is_offline:
                return
        if count and directory.was_clean:
            logger.info("%s: %d logs after a clean stop", directory.path, count)
        elif count:
            logger.info("%s: %d logs after an unclean stop, recovered in %.1f s", directory.path, count, took_s)
        else:
            logger.info("%s: no logs yet", directory.path)

    def _opener(self, found: FoundLog, *, is_future: bool = False) -> Callable[[], Log]:
        """Return the function that opens the log, in any thread. A future log has no record of what is durable. Raises
        OSError.
        """
        tp, directory = found.topic_partition, found.directory
        topic_id = ZERO_TOPIC_ID if found.topic_id is None else found.topic_id
        recovery_points = directory.checkpoint(checkpoint.RECOVERY_POINT_FILE)
        recovery_point = recovery_points.offset_for(tp, topic_id)
        start_offset = directory.checkpoint(checkpoint.LOG_START_OFFSET_FILE).offset_for(tp, topic_id)
        high_watermark = directory.checkpoint(checkpoint.REPLICATION_OFFSET_FILE).offset_for(tp, topic_id)
        reached = (one.offset for one in (recovery_point, high_watermark) if one is not None and one.is_certain)
        known_end_offset = max(reached, default=FIRST_OFFSET)
        cleaned = directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).offset_for(tp, topic_id)
        config = self._config_of(tp.topic)
        counts = None if is_future else self._aborted_counts[directory]
        # Our cleaner leaves gaps only below a recovery point that the checkpoint durably has. Kafka's does not ensure
        # that, and a person may have removed the checkpoint; the cleaner's own entry is durable before the first gap.
        is_ours = recovery_point is not None and recovery_point.is_certain
        is_foreign = recovery_point is not None and not recovery_point.is_certain
        may_be_compacted = (
            is_future or (cleaned is not None and not is_ours) or (is_foreign and "compact" in config.cleanup_policy)
        )

        last = LastRun(
            was_clean=directory.was_clean and not is_future,
            recovery_point=FIRST_OFFSET if recovery_point is None else recovery_point.offset,
            log_start_offset=FIRST_OFFSET if start_offset is None else start_offset.offset,
            is_start_offset_certain=start_offset is not None and start_offset.is_certain,
            known_end_offset=known_end_offset,
            perhaps_durable_below=OFFSET_END if recovery_points.is_damaged else FIRST_OFFSET,
            may_be_compacted=may_be_compacted,
            aborted_counts=None if counts is None else counts.get(tp, {}),
        )

        def work() -> Log:
            if directory.is_offline:
                raise directory.error()
            return Log.open(tp, topic_id, config, directory, self._services, last)

        return work

    def _open_future(self, found: FoundLog) -> Log | None:
        """Open a future log. Returns None if that fails, which is noted. Raises OSError."""
        opener = self._opener(found, is_future=True)
        try:
            return self._opened(found, opener())
        except Exception as error:
            return self._opened(found, error)

    def _opened(self, found: FoundLog, outcome: Log | Exception) -> Log | None:
        """Return the log; None for an error, which is noted."""
        if not isinstance(outcome, Exception):
            return outcome
        if not found.directory.is_offline:
            is_clear = isinstance(outcome, OldFormatError)  # its text has all that a person needs
            logger.error(
                "The log in %s cannot be opened; its partition is offline, the others are not%s",
                found.path,
                f": {outcome}" if is_clear else "",
                exc_info=None if is_clear else outcome,
            )
            self._note_unopened(found, f"its log in {found.path} cannot be opened: {outcome if is_clear else repr(outcome)}")
        return None

    def _note_unopened(self, found: FoundLog, reason: str) -> None:
        other = self.logs.pop(found.topic_partition, None)
        if other is not None:
            other.release()
            reason += f"; there is another copy in {other.path}"
            _keep_entries(other.log_directory, found.topic_partition)
        self.unopened.setdefault(found.topic_partition, UnopenedLog(found, reason))
        _keep_entries(found.directory, found.topic_partition)

    # --- two copies ---

    def _take(self, log: Log) -> None:
        tp = log.topic_partition
        if tp in self.unopened:
            log.release()
            _keep_entries(log.log_directory, tp)
            return
        other = self.logs.get(tp)
        if other is None or other.log_directory.is_offline:
            self.logs[tp] = log
            return
        winner, loser = (other, log) if self._rank(other) >= self._rank(log) else (log, other)
        self.logs[tp] = winner
        loser.release()
        reason = (
            f"is a copy of {tp} that ends at offset {loser.log_end_offset} with epoch {loser.leader_epoch}; "
            f"{winner.path} ends at {winner.log_end_offset} with epoch {winner.leader_epoch} and is used"
        )
        self._guarded(
            loser.log_directory,
            lambda: strays.set_aside(loser.log_directory, loser.path, tp, reason=reason, now_ms=self._now_ms),
        )

    def _rank(self, log: Log) -> tuple[bool, bool, int, int, int]:
        is_forgotten = self._claims.is_forgotten(log.log_directory)
        return (
            not is_forgotten,
            log.topic_id != ZERO_TOPIC_ID,
            log.leader_epoch,
            log.log_end_offset,
            log.log_start_offset,
        )

    # --- moves ---

    def _settle_future(self, found: FoundLog) -> None:
        """Throw away an unfinished future log, or take a complete one as the partition's log. Raises OSError."""
        tp, _, directory, path = found
        if self._is_set_aside(found) or tp in self.unopened:
            return
        if tp in self.logs:
            strays.delete_later(directory, path, tp, self._now_ms)
            self.interrupted_moves[tp] = directory
        elif self._claims.away or any(one.is_offline for one in self._directories):
            _keep_entries(directory, tp)  # the present log may be in a directory that is offline
        else:
            name = f"{directory.path}/{tp}"
            directory.filesystem.rename(path, name)
            directory.note_names()
            log = self._open_future(found._replace(path=name))
            if log is not None:
                self.logs[tp] = log
                # The present log is removed only after the copy has its name, so it was lost in another way, with its
                # later records.
                lost.note(
                    log,
                    first_offset=log.log_end_offset,
                    end_offset=lost.UNKNOWN,
                    reason="only a copy that was being moved to another directory is left",
                )


def _keep_entries(directory: LogDirectory, tp: TopicPartition) -> None:
    for name in checkpoint.OFFSET_FILES:
        directory.checkpoint(name).keep(tp)
