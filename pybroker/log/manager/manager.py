"""All logs of a broker in its log directories.

    claim()    locks the directories and checks whom they belong to, as `claims` describes
    start()    opens every log in them, and recovers those whose last stop was unclean (`loading`); create, get, delete
    passes     what the broker does with all logs at intervals (`passes`)
    stop()     makes everything durable, writes checkpoints, and last the marker of a clean stop

`strays` describes the names of partitions' directories, also of deleted ones; `directory_moves` those in `-future`.

Source: LogManager.scala, LocalLog of Kafka.
"""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories import removals, strays
from pybroker.log.directories.claims import Claims
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.manager import checkpoint_pass, room_pass
from pybroker.log.manager.loading import Loader
from pybroker.log.manager.passes import LogPasses
from pybroker.log.results import LastRun
from pybroker.model import ZERO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import ThreadRunner, WorkRunner, emptied, run_inline, run_through, run_unshared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pybroker.config.topic import TopicConfig
    from pybroker.log.directories.claims import KnownDirectory
    from pybroker.log.log_state import LogServices
    from pybroker.log.manager.loading import TopicIdOf, UnopenedLog

logger = logging.getLogger(__name__)

CLOSING_THREADS: Final = 16
MANY: Final = 100


class LogManager:
    """The logs of one broker. `config_of(topic)` returns a topic's configuration when its logs are opened."""

    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        cluster_id: str,
        node_id: BrokerId,
        services: LogServices,
        config_of: Callable[[str], TopicConfig],
        filesystem: Filesystem | None = None,
        on_directory_failure: Callable[[LogDirectory], None] | None = None,
        thread_of: Callable[[str], ThreadRunner] = lambda _path: run_inline,
        run_work: WorkRunner = run_unshared,
    ) -> None:
        """Prepare the directories; `thread_of(path)` returns the thread for what blocks on a directory's disk.

        `run_work` runs long work on the loop.
        """
        assert log_dirs
        filesystem = filesystem or Filesystem()
        self.directories = [
            LogDirectory(path.rstrip("/") or "/", filesystem, on_directory_failure, thread_of(path)) for path in log_dirs
        ]
        self.services = services
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._config_of = config_of
        self._logs: dict[TopicPartition, Log] = {}
        self._unopened: dict[TopicPartition, UnopenedLog] = {}
        self._claims: Claims | None = None
        self._left: dict[TopicPartition, Log] = {}  # the old places of logs that have moved, until these are durable
        self._given_up: list[Log] = []  # deleted logs whose names could not be freed yet
        self.made_again: list[TopicPartition] = []
        """Partitions of the metadata whose logs were in no directory: the start has made empty logs for them."""
        self._interrupted_moves: dict[TopicPartition, LogDirectory] = {}
        self._run_work = run_work
        self.passes = LogPasses(self.directories, lambda: list(self._logs.values()), run_work)

    # --- start and stop ---

    def claim(self, known: Sequence[KnownDirectory] = ()) -> Claims:
        """Lock the directories and make them this broker's; `known` are those that it has used before. Comes before
        `start`.

        `Claims.known` must then be stored before `start`, so that no record is written to a directory whose loss
        would not be noticed. A directory that cannot be used is offline. Raises LogDirectoryInUseError,
        InconsistentDirectoryError.
        """
        claims = Claims(known, cluster_id=self._cluster_id, node_id=self._node_id)
        claims.claim_all(self.directories)
        self._claims = claims
        return claims

    def start(self, topic_id_of: TopicIdOf | None = None) -> None:
        """Open every log; `topic_id_of(partition)` returns the topic id of the metadata. Blocks. Claims first, if that
        was not done.

        A failing disk is left offline, and so is a partition that cannot be opened. Raises KafkaError if no directory
        works, unless only room is missing.
        """
        claims = self.claim() if self._claims is None else self._claims
        if not all(directory.is_offline for directory in self.directories):
            loader = Loader(self.directories, claims, self.services, self._config_of, topic_id_of)
            try:
                loader.load()
            except BaseException:
                self._logs = loader.logs
                self.abandon()
                raise
            self._logs, self._unopened, self._interrupted_moves = loader.logs, loader.unopened, loader.interrupted_moves
            for log in self._logs.values():
                log.log_directory.log_count += 1
        if self.is_dead:
            self._unlock()
            failures = "; ".join(f"{directory.path}: {directory.failure}" for directory in self.directories)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no log directory works: {failures}")

    @property
    def is_dead(self) -> bool:
        """Whether all directories are offline, and not only because their volumes are full: then topics can still be
        deleted.
        """
        return not any(directory.can_delete for directory in self.directories)

    @property
    def has_room(self) -> bool:
        """Whether any directory takes records."""
        return not all(directory.is_offline or directory.room.is_full for directory in self.directories)

    @property
    def has_failed_directory(self) -> bool:
        """Whether a directory is offline, which it remains until the next start."""
        return any(one.is_offline for one in self.directories)

    @property
    def is_any_directory_missing(self) -> bool:
        """Whether a directory is offline, or a known directory away: logs may be in a directory that cannot be read."""
        return self.has_failed_directory or (self._claims is not None and bool(self._claims.away))

    @property
    def came_back(self) -> frozenset[str]:
        """The ids of directories that were away at the last start, or had been given up, and are here."""
        return frozenset() if self._claims is None else frozenset(self._claims.came_back)

    def is_lost(self, tp: TopicPartition) -> bool:
        """Return whether no directory has the partition's log and none that could have it is missing: `create` makes an
        empty one.
        """
        return tp not in self._logs and tp not in self._unopened and not self.is_any_directory_missing

    def stop(self) -> None:
        """Make everything durable and mark each directory as cleanly stopped; pending removals are left to the next
        start. Blocks.
        """
        for directory in self.directories:
            try:
                self.close_directory(directory)
            except OSError as error:
                directory.fail(error)
            self.let_go(directory)

    def close_directory(self, directory: LogDirectory) -> None:
        """Make the directory's logs durable and write the marker of a clean stop, unless it is offline. Raises OSError.

        Blocks: it may run in the directory's thread, when its logs are not used any more. `let_go` must follow on the
        loop.
        """
        if directory.is_offline:
            return
        logs = self._logs_in(directory)
        if directory.room.is_full:
            directory.room.release()  # before anything else is written
        # Many files are written to the disk at the same time; one by one, each would wait for it.
        with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="close") as threads:
            begun: list[Future[None]] = []
            for work in [log.prepare_close() for log in logs]:
                try:
                    begun.append(threads.submit(work))
                except RuntimeError:  # there are too many threads; one that was started may do the work once more
                    work()
            for done in begun:
                done.result()
        for log in logs:
            log.finish_close()
        if not directory.is_offline:
            run_through(checkpoint_pass.both(directory, lambda: logs))()
            if self._is_recovered(directory):
                counts = {log.topic_partition: found for log in logs if (found := log.aborted_counts)}
                checkpoint.write_clean_shutdown(directory.filesystem, directory.path, counts)
            directory.room.look(len(logs))  # the used part of the reserve is allocated again for the next stop

    def _is_recovered(self, directory: LogDirectory) -> bool:
        """Return whether no log of the directory needs a recovery: one that cannot be opened after an unclean stop does."""
        left = [] if directory.was_clean else [one for one in self._unopened.values() if one.found.directory is directory]
        if left:
            logger.warning(
                "Log directory %s does not stop cleanly: the next start recovers its logs, because %d could not be opened",
                directory.path,
                len(left),
            )
        return not left

    def let_go(self, directory: LogDirectory) -> None:
        """Release the directory's files and its lock, after `close_directory` has ended or failed."""
        logs = self._logs_in(directory)
        for log in logs:
            log.release()
        if directory.is_out_of_room:
            logger.warning(
                "Log directory %s is full and does not stop cleanly: the next start recovers its %d logs; nothing is lost",
                directory.path,
                len(logs),
            )
        directory.unlock()

    def abandon(self) -> None:
        """Release everything as a crash would, for tests: no flush, no checkpoint, no marker."""
        for log in self._logs.values():
            log.release()
        self._unlock()

    def _unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    # --- logs ---

    def get(self, tp: TopicPartition) -> Log | None:
        """Return the partition's log, or None."""
        return self._logs.get(tp)

    def all_logs(self) -> Iterable[Log]:
        """Return every log, including those on offline directories."""
        return self._logs.values()

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self._logs.values() if log.log_directory is directory]

    def create(self, tp: TopicPartition, topic_id: TopicId, config: TopicConfig, *, is_new: bool = True) -> Log:
        """Return the partition's log, made in the directory with the fewest logs if there is none.

        A partition that is not `is_new` was in the metadata before this start: while a directory is missing, its log
        is assumed to be there. Raises KafkaError: KAFKA_STORAGE_ERROR then, for a log that cannot be opened, and if
        no directory works; INCONSISTENT_TOPIC_ID if the log belongs to another topic of that name.
        """
        log = self._logs.get(tp)
        if log is not None:
            return self._known(log, topic_id, config)
        if tp in self._unopened:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{tp} is offline: {self._unopened[tp].reason}")
        if not is_new and self.is_any_directory_missing:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{tp} is offline: its log is in no directory that works, and a directory is missing",
            )
        self._try_again_to_give_up()
        directory = room_pass.directory_for_new(self.directories)
        log = self._logs[tp] = Log.create(tp, topic_id, config, directory, self.services)
        directory.log_count += 1
        if not is_new:
            logger.warning("No directory has the log of %s: the broker makes an empty one in %s", tp, directory.path)
            self.made_again.append(tp)
        return log

    def _known(self, log: Log, topic_id: TopicId, config: TopicConfig) -> Log:
        log.check_usable()
        if log.topic_id == ZERO_TOPIC_ID:
            log.guarded(lambda: checkpoint.write_partition_metadata(log.filesystem, log.path, topic_id))
            log.topic_id = topic_id
        if log.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {log.topic_partition} belongs to an older topic of that name"
            )
        log.config = config
        return log

    def delete(self, tp: TopicPartition, topic_id: TopicId = ZERO_TOPIC_ID) -> None:
        """Delete the partition's log, if there is one. Readers that have a slice may finish.

        `topic_id` is the deleted topic's: it identifies a log that could not be loaded because its volume was full.
        Raises KafkaError if its directory's name cannot be freed. The log is deleted nevertheless: by the next pass
        of removals, or before a new log is made, or, if the disk is broken, as a stray of the next start.
        """
        log = self._logs.pop(tp, None)
        if tp in self._left:
            self.leave_place(tp)
        if log is not None:
            log.log_directory.log_count -= 1
            self._free_later(log)
            self._give_up(log, log.config.file_delete_delay_ms)
        unopened = self._unopened.pop(tp, None)
        if log is None and unopened is None:
            removals.delete_unloaded(self.directories, tp, topic_id, self.services.clock.monotonic_ms())
        elif unopened is not None and unopened.found.directory.can_delete:
            directory = unopened.found.directory
            for name in checkpoint.OFFSET_FILES:
                directory.checkpoint(name).drop(tp)
            try:
                strays.delete_later(directory, unopened.found.path, tp, self.services.clock.monotonic_ms())
            except OSError as error:
                raise directory.fail(error) from error

    def _free_later(self, log: Log) -> None:
        """Keep what a large log has many of, and free it in slices: with the log, all of it would be freed at once."""
        segments, producers = list(log.segments), list(log.producers.producers.values())
        if len(segments) + len(producers) > MANY:
            self._run_work("end of a log", emptied(segments, producers))

    def _give_up(self, log: Log, delay_ms: int) -> None:
        """Free the name of the log's directory, and have it removed. Raises KafkaError; it is tried again if the disk works."""
        log.release()
        directory = log.log_directory
        if directory.can_delete:
            try:
                due_ms = self.services.clock.monotonic_ms() + delay_ms
                strays.delete_later(directory, log.path, log.topic_partition, due_ms)
            except OSError as error:
                failure = directory.fail(error)
                if directory.can_delete:
                    self._given_up.append(log)
                raise failure from error

    def _try_again_to_give_up(self) -> None:
        given_up, self._given_up = self._given_up, []
        for number, log in enumerate(given_up):
            try:
                self._give_up(log, 0)
            except KafkaError:
                self._given_up += given_up[number + 1 :]
                raise

    # --- moves to another directory, as `directory_moves` describes ---

    def create_future(self, present: Log, directory: LogDirectory) -> Log:
        """Return an empty log for a copy of `present`. Raises KafkaError, also for a name too long to be marked."""
        tp = present.topic_partition
        name = f"{tp}.{uuid.uuid4().hex}{strays.FUTURE_SUFFIX}"
        if directory.is_offline:
            raise directory.error()
        if len(name) > strays.NAME_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {tp} is too long for a move")
        return Log.create(tp, present.topic_id, present.config, directory, self.services, name=name)

    def drop_future(self, future: Log) -> None:
        """Remove a future log. Raises KafkaError."""
        self._free_later(future)
        self._give_up(future, 0)

    def replace(self, present: Log, future: Log) -> Log:
        """Make `future`, which has all that `present` has, the partition's log. Returns it, opened again.

        Nothing here waits for the disk. The checkpoints have the start of `future` by now, so that a crash undoes no
        deletion of records. The files of `present` stay until `leave_place`, when the returned log is durable; if a
        crash leaves both, the start settles it, as `loading` describes. If an error is raised, KafkaError for a
        disk's, the present log is the partition's as before.
        """
        tp, directory = present.topic_partition, future.log_directory
        path = f"{directory.path}/{tp}"
        # Records that only the future log has durably may be lost until the new name is durable, too.
        durable_end = min(future.safe_recovery_point, present.safe_recovery_point)
        try:
            future.prepare_close()  # the next flush makes durable what it wrote
            future.release()
            if directory.is_offline:
                raise directory.error()
            directory.filesystem.rename(future.path, path)
            future.path = path
            directory.note_names()
        except OSError as error:
            raise directory.fail(error) from error
        last = LastRun(was_clean=True, recovery_point=durable_end, log_start_offset=future.log_start_offset)
        log = Log.open(tp, present.topic_id, present.config, directory, self.services, last)
        log.count_as_written(durable_end)
        present.release()
        self._logs[tp], self._left[tp] = log, present
        source = present.log_directory
        source.log_count, directory.log_count = source.log_count - 1, directory.log_count + 1
        return log

    def leave_place(self, tp: TopicPartition) -> None:
        """Give up the files at the old place of a moved log, which is durable at its new place."""
        present = self._left.pop(tp)
        source = present.log_directory
        self._free_later(present)
        try:
            self._give_up(present, present.config.file_delete_delay_ms)
        except KafkaError as error:
            logger.warning("%s has moved, but its old files in %s could not be removed: %s", tp, present.path, error)
        else:
            source.run_in_thread(source.sync_names, source.note_failure)

    def take_interrupted_moves(self) -> dict[TopicPartition, LogDirectory]:
        """Return the directories to which logs were being moved when the last run ended; only the first call has them."""
        moves, self._interrupted_moves = self._interrupted_moves, {}
        return moves

    def remove_due(self, now_ms: int) -> None:
        """Remove what is due, as `LogPasses.remove_due` does, after the names of deleted logs are free where that has failed."""
        try:
            self._try_again_to_give_up()
        except KafkaError as error:
            logger.warning("The name of a deleted log is not free yet; the next pass tries again: %s", error)
        self.passes.remove_due(now_ms)

    # --- what is kept of all logs ---

    def write_last_high_watermarks(
        self, directory: LogDirectory, high_watermark: Callable[[TopicPartition], Offset | None]
    ) -> None:
        """Write `replication-offset-checkpoint` of a directory in its thread, before it is closed."""
        if not directory.is_offline:
            collection = checkpoint_pass.high_watermarks(directory, lambda: self._logs_in(directory), high_watermark)
            directory.run_pass("high watermarks", [run_through(collection)])

    def read_high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the high watermarks of the existing logs that `write_high_watermarks` wrote last, as of the start."""
        offsets: dict[TopicPartition, Offset] = {}
        for tp, log in self._logs.items():
            if not log.log_directory.is_offline:
                try:
                    found = log.log_directory.checkpoint(checkpoint.REPLICATION_OFFSET_FILE).offset_for(tp, log.topic_id)
                except OSError as error:
                    log.log_directory.fail(error)
                    continue
                if found is not None:
                    offsets[tp] = found.offset
        for directory in self.directories:
            directory.checkpoint(checkpoint.REPLICATION_OFFSET_FILE).forget()
        return offsets

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Set the time of silence after which producers are forgotten."""
        self.services.producer_id_expiration_ms = expiration_ms
        for log in self._logs.values():
            log.producers.expiration_ms = expiration_ms
