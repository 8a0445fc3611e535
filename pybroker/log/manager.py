"""All logs of a broker in its log directories.

    start()    lock the directories, check whom they belong to, open every log in them, recovering where the last stop was unclean
    create, get, delete
    checkpoint(), clean_up(now), flush_due(now), remove_due(now), release_sealed(): passes that the broker runs at intervals
    stop()     everything durable, checkpoints, and last the marker of a clean stop

A deleted partition's directory is renamed to `<topic>-<partition>.<32 hex digits>-delete` at once, so the name is free again,
and removed after `file.delete.delay.ms`. What ends in `-future` is described in `directory_moves`.

Source: LogManager.scala, LocalLog of Kafka.
"""

from __future__ import annotations

import logging
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pybroker.log import checkpoint
from pybroker.log.directory import LogDirectory
from pybroker.log.filesystem import Filesystem
from pybroker.log.log import Log, LogServices
from pybroker.log.results import ThreadRunner, run_inline
from pybroker.model import ZERO_TOPIC_ID, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pybroker.config.topic import TopicConfig

logger = logging.getLogger(__name__)

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
NAME_BYTES_MAX: Final = 255
CLOSING_THREADS: Final = 16
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"  # a KRaft broker's own log, kept beside the others; never ours
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_FUTURE_DIRECTORY: Final = re.compile(_PARTITION_DIRECTORY.pattern + r"\.[0-9a-f]{32}" + FUTURE_SUFFIX)
_DELETED_DIRECTORY: Final = re.compile(r".*\.[0-9a-f]{32}" + DELETE_SUFFIX)


class LogDirectoryInUseError(Exception):
    """Another broker holds the directory's lock."""


class InconsistentDirectoryError(Exception):
    """The directory belongs to another cluster or broker."""


class LogManager:
    """The logs of one broker. `config_of(topic)` gives a topic's configuration when its logs are opened."""

    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        cluster_id: str,
        node_id: int,
        services: LogServices,
        config_of: Callable[[str], TopicConfig],
        filesystem: Filesystem | None = None,
        on_directory_failure: Callable[[LogDirectory], None] | None = None,
        thread_of: Callable[[str], ThreadRunner] = lambda _path: run_inline,
    ) -> None:
        """`thread_of(path)` gives each log directory the thread for what blocks on its disk."""
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
        self._futures: list[tuple[TopicPartition, LogDirectory, str]] = []  # found at the start
        self._interrupted_moves: dict[TopicPartition, LogDirectory] = {}

    # --- start and stop ---

    def start(self) -> None:
        """Open everything. Blocks. Raises LogDirectoryInUseError, InconsistentDirectoryError; a failing disk is left offline."""
        for directory in self.directories:
            try:
                directory.filesystem.make_directory(directory.path)
                directory.lock()
            except BlockingIOError as error:
                self._unlock()
                raise LogDirectoryInUseError(f"another broker uses the log directory {directory.path}") from error
            except OSError as error:
                directory.fail(error)
        if all(directory.is_offline for directory in self.directories):
            raise self.directories[0].error()
        for directory in self.directories:
            if not directory.is_offline:
                try:
                    self._claim(directory)
                    self._load(directory)
                except OSError as error:
                    directory.fail(error)
                except InconsistentDirectoryError:
                    self._unlock()
                    raise
        for tp, directory, path in self._futures:
            if not directory.is_offline:
                try:
                    self._settle_future(tp, directory, path)
                except OSError as error:
                    directory.fail(error)

    def _claim(self, directory: LogDirectory) -> None:
        try:
            properties = checkpoint.read_meta_properties(directory.filesystem, directory.path)
        except checkpoint.CorruptCheckpointError as error:
            raise InconsistentDirectoryError(str(error)) from error
        if properties is None:
            properties = checkpoint.MetaProperties(
                cluster_id=self._cluster_id, node_id=self._node_id, directory_id=checkpoint.MetaProperties.new_directory_id()
            )
            checkpoint.write_meta_properties(directory.filesystem, directory.path, properties)
        if (properties.cluster_id, properties.node_id) != (self._cluster_id, self._node_id):
            raise InconsistentDirectoryError(
                f"{directory.path} belongs to broker {properties.node_id} of cluster {properties.cluster_id}, "
                f"this is broker {self._node_id} of cluster {self._cluster_id}"
            )
        directory.properties = properties

    def _load(self, directory: LogDirectory) -> None:
        filesystem, path = directory.filesystem, directory.path
        was_clean = checkpoint.take_clean_shutdown(filesystem, path)
        recovery_points = self._read_offsets(directory, checkpoint.RECOVERY_POINT_FILE)
        start_offsets = self._read_offsets(directory, checkpoint.LOG_START_OFFSET_FILE)
        now_ms = self.services.clock.time_ms()
        for entry in filesystem.list(path):
            if not entry.is_dir():
                continue
            if _DELETED_DIRECTORY.fullmatch(entry.name):
                directory.remove_later(now_ms, _remover(filesystem, entry.path))
                continue
            if (match := _FUTURE_DIRECTORY.fullmatch(entry.name)) is not None:
                self._futures.append((TopicPartition(match[1], int(match[2])), directory, entry.path))
                continue
            match = _PARTITION_DIRECTORY.fullmatch(entry.name)
            if match is None or match[1] == CLUSTER_METADATA_TOPIC:
                continue
            tp = TopicPartition(match[1], int(match[2]))
            if tp in self._logs:
                raise InconsistentDirectoryError(f"{tp} lies in {path} and in {self._logs[tp].log_directory.path}")
            self._logs[tp] = Log.open(
                tp,
                self._topic_id_of(directory, entry.path),
                self._config_of(tp.topic),
                directory,
                self.services,
                was_clean=was_clean,
                recovery_point=recovery_points.get(tp, 0),
                log_start_offset=start_offsets.get(tp, 0),
            )
        count = len(self._logs_in(directory))
        if count:
            logger.info("%s: %d logs after %s stop", path, count, "a clean" if was_clean else "an unclean")
        else:
            logger.info("%s: no logs yet", path)

    def _settle_future(self, tp: TopicPartition, directory: LogDirectory, path: str) -> None:
        """Throw an unfinished future away, or take a complete one for the partition's log. Raises OSError."""
        filesystem = directory.filesystem
        if tp in self._logs:
            target = f"{path.removesuffix(FUTURE_SUFFIX)}{DELETE_SUFFIX}"
            filesystem.rename(path, target)
            directory.remove_later(self.services.clock.time_ms(), _remover(filesystem, target))
            self._interrupted_moves[tp] = directory
        elif not any(one.is_offline for one in self.directories):  # else the present log may lie where nobody can look
            name = f"{directory.path}/{tp.topic}-{tp.partition}"
            filesystem.rename(path, name)
            self._logs[tp] = Log.open(
                tp,
                self._topic_id_of(directory, name),
                self._config_of(tp.topic),
                directory,
                self.services,
                was_clean=False,
                recovery_point=self._read_offsets(directory, checkpoint.RECOVERY_POINT_FILE).get(tp, 0),
                log_start_offset=self._read_offsets(directory, checkpoint.LOG_START_OFFSET_FILE).get(tp, 0),
            )

    def _topic_id_of(self, directory: LogDirectory, path: str) -> TopicId:
        try:
            topic_id = checkpoint.read_partition_metadata(directory.filesystem, path)
        except checkpoint.CorruptCheckpointError as error:
            logger.warning("no topic id: %s", error)  # torn by a crash of the machine; whoever knows the topic sets it
            topic_id = None
        return ZERO_TOPIC_ID if topic_id is None else topic_id

    def _read_offsets(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(directory.filesystem, f"{directory.path}/{name}")
        except checkpoint.CorruptCheckpointError as error:
            logger.warning("ignoring a checkpoint: %s", error)  # both only spare work: 0 is always right
            return {}

    def stop(self) -> None:
        """Make everything durable and say so in each directory; what waits for its removal is left for the next start. Blocks."""
        for directory in self.directories:
            try:
                self.close_directory(directory)
            except OSError as error:
                directory.fail(error)
            self.let_go(directory)

    def close_directory(self, directory: LogDirectory) -> None:
        """Make the directory's logs durable and say so with the marker of a clean stop, unless it is offline. Raises OSError.

        Blocks: may run in the directory's thread, when nobody uses its logs any more. `let_go` is to follow on the loop.
        """
        if directory.is_offline:
            return
        logs = self._logs_in(directory)
        # With many of their files on the way to the disk at a time; one by one, each would wait for it.
        with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="close") as threads:
            for done in [threads.submit(log.prepare_close()) for log in logs]:
                done.result()
        for log in logs:
            log.finish_close()
        if not directory.is_offline:
            self._write_checkpoints(directory, logs)()
            checkpoint.write_clean_shutdown(directory.filesystem, directory.path)

    def let_go(self, directory: LogDirectory) -> None:
        """Let go of the directory's files and its lock, after `close_directory` is over or has failed."""
        for log in self._logs_in(directory):
            log.release()
        directory.unlock()

    def abandon(self) -> None:
        """Let go of everything as a crash would, for tests: no flush, no checkpoint, no marker."""
        for log in self._logs.values():
            log.release()
        self._unlock()

    def _unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    # --- logs ---

    def get(self, tp: TopicPartition) -> Log | None:
        """The partition's log, or None."""
        return self._logs.get(tp)

    def all_logs(self) -> Iterable[Log]:
        """Every log, those on offline directories too."""
        return self._logs.values()

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self._logs.values() if log.log_directory is directory]

    def create(self, tp: TopicPartition, topic_id: TopicId, config: TopicConfig) -> Log:
        """The partition's log, made in the directory with the fewest logs if there is none.

        Raises KafkaError: KAFKA_STORAGE_ERROR when no directory works, INCONSISTENT_TOPIC_ID when the log is of another topic of
        that name.
        """
        log = self._logs.get(tp)
        if log is not None:
            return self._known(log, topic_id, config)
        usable = [directory for directory in self.directories if not directory.is_offline]
        if not usable:
            raise self.directories[0].error()
        directory = usable[0]
        if len(usable) > 1:
            directory = min(usable, key=lambda one: len(self._logs_in(one)))
        log = self._logs[tp] = Log.create(tp, topic_id, config, directory, self.services)
        return log

    def _known(self, log: Log, topic_id: TopicId, config: TopicConfig) -> Log:
        if log.topic_id == ZERO_TOPIC_ID:
            log.guarded(lambda: checkpoint.write_partition_metadata(log.filesystem, log.path, topic_id))
            log.topic_id = topic_id
        if log.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {log.topic_partition} belongs to an older topic of that name"
            )
        log.config = config
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Give up the partition's log, if there is one. Readers that have a slice may finish."""
        log = self._logs.pop(tp, None)
        target = None if log is None else self._rename_away(log, DELETE_SUFFIX)
        if log is not None and target is not None:
            due_ms = self.services.clock.time_ms() + log.config.file_delete_delay_ms
            log.log_directory.remove_later(due_ms, _remover(log.filesystem, target))

    def set_aside(self, tp: TopicPartition) -> None:
        """Give up a log that belongs to no topic, but keep its data, in a directory whose name ends in `-stray`."""
        log = self._logs.pop(tp, None)
        target = None if log is None else self._rename_away(log, STRAY_SUFFIX)
        if target is not None:
            logger.warning("the log of %s belongs to no topic that is known; its data is kept in %s", tp, target)

    # --- moves to another directory: see `directory_moves` ---

    def create_future(self, present: Log, directory: LogDirectory) -> Log:
        """An empty log to be filled with what `present` has. Raises KafkaError, also for a name too long to be marked."""
        tp = present.topic_partition
        name = f"{tp.topic}-{tp.partition}.{uuid.uuid4().hex}{FUTURE_SUFFIX}"
        if directory.is_offline:
            raise directory.error()
        if len(name) > NAME_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {tp} is too long for a move")
        return Log.create(tp, present.topic_id, present.config, directory, self.services, name=name)

    def drop_future(self, future: Log) -> None:
        """Give up a future. Raises KafkaError."""
        target = self._rename_away(future, DELETE_SUFFIX)
        if target is not None:
            future.log_directory.remove_later(self.services.clock.time_ms(), _remover(future.filesystem, target))

    def replace(self, present: Log, future: Log) -> Log:
        """Let `future`, which has all that `present` has, be the partition's log. Returns it, opened anew. Raises KafkaError.

        What begins where is durable before the present log goes, so that no deletion of records is undone by a crash.
        """
        tp, directory = present.topic_partition, future.log_directory
        future.log_start_offset = max(future.log_start_offset, present.log_start_offset)
        future.close()
        if directory.is_offline:
            raise directory.error()
        try:
            self._write_checkpoints(directory, [*self._logs_in(directory), future])()
        except OSError as error:
            raise directory.fail(error) from error
        target = self._rename_away(present, DELETE_SUFFIX)
        self._logs[tp] = future
        if target is not None:
            due_ms = self.services.clock.time_ms() + present.config.file_delete_delay_ms
            present.log_directory.remove_later(due_ms, _remover(present.filesystem, target))
        try:
            directory.filesystem.rename(future.path, f"{directory.path}/{tp.topic}-{tp.partition}")
            directory.filesystem.sync_directory(directory.path)
        except OSError as error:
            raise directory.fail(error) from error
        log = self._logs[tp] = Log.open(
            tp,
            present.topic_id,
            present.config,
            directory,
            self.services,
            was_clean=True,
            recovery_point=future.recovery_point,
            log_start_offset=future.log_start_offset,
        )
        return log

    def take_interrupted_moves(self) -> dict[TopicPartition, LogDirectory]:
        """Where logs were on the way to when the last run ended; told once."""
        moves, self._interrupted_moves = self._interrupted_moves, {}
        return moves

    def _rename_away(self, log: Log, suffix: str) -> str | None:
        """Free the name of the log's directory. Returns the new path; None when the disk is offline."""
        tp, directory = log.topic_partition, log.log_directory
        log.release()
        if directory.is_offline:
            return None
        suffix = f".{uuid.uuid4().hex}{suffix}"
        target = f"{directory.path}/" + f"{tp.topic}-{tp.partition}"[: NAME_BYTES_MAX - len(suffix)] + suffix
        try:
            log.filesystem.rename(log.path, target)
        except OSError as error:
            raise directory.fail(error) from error
        return target

    # --- passes ---

    def checkpoint(self) -> None:
        """Write recovery points and log start offsets, in a thread."""
        for directory in self.directories:
            if not directory.is_offline and not directory.is_busy_with("checkpoint"):
                directory.run_pass("checkpoint", [self._write_checkpoints(directory, self._logs_in(directory))])

    @staticmethod
    def _write_checkpoints(directory: LogDirectory, logs: list[Log]) -> Callable[[], None]:
        """What writes both; it raises OSError."""
        filesystem, path = directory.filesystem, directory.path
        recovery_points = {log.topic_partition: log.recovery_point for log in logs}
        start_offsets = {
            log.topic_partition: log.log_start_offset for log in logs if log.log_start_offset > log.segments[0].base_offset
        }

        def work() -> None:
            checkpoint.write_offsets(filesystem, f"{path}/{checkpoint.RECOVERY_POINT_FILE}", recovery_points)
            checkpoint.write_offsets(filesystem, f"{path}/{checkpoint.LOG_START_OFFSET_FILE}", start_offsets)

        return work

    def write_high_watermarks(self, high_watermarks: dict[TopicPartition, int], only: LogDirectory | None = None) -> None:
        """Write `replication-offset-checkpoint` of each directory, or of `only` one, in its thread."""
        for directory in self.directories if only is None else [only]:
            if not directory.is_offline and not directory.is_busy_with("high watermarks"):
                offsets = {
                    log.topic_partition: high_watermarks[log.topic_partition]
                    for log in self._logs_in(directory)
                    if log.topic_partition in high_watermarks
                }
                target = f"{directory.path}/{checkpoint.REPLICATION_OFFSET_FILE}"
                directory.run_pass("high watermarks", [_offset_writer(directory.filesystem, target, offsets)])

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """What `write_high_watermarks` wrote last."""
        offsets: dict[TopicPartition, int] = {}
        for directory in self.directories:
            if not directory.is_offline:
                offsets.update(self._read_offsets(directory, checkpoint.REPLICATION_OFFSET_FILE))
        return offsets

    def clean_up(self, now_ms: int) -> int:
        """The retention pass over every log. Returns the number of segments dropped."""
        deleted = 0
        for log in list(self._logs.values()):
            if not log.log_directory.is_offline:
                try:
                    deleted += log.delete_old_segments(now_ms)
                except KafkaError:
                    logger.exception("retention of %s", log.topic_partition)
        return deleted

    def flush_due(self, now_ms: int) -> None:
        """Flush the logs whose `flush.ms` has passed since their last flush, in threads."""
        for log in self._logs.values():
            if log.unflushed_messages and now_ms - log.last_flush_ms >= log.config.flush_ms and not log.log_directory.is_offline:
                log.guarded(log.flush)

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Forget producers that were silent for `expiration_ms` from now on."""
        self.services.producer_id_expiration_ms = expiration_ms
        for log in self._logs.values():
            log.producers.expiration_ms = expiration_ms

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`. Returns how many."""
        return sum(log.producers.remove_expired(now_ms) for log in self._logs.values())

    def release_sealed(self) -> None:
        """Let go of the descriptors and maps of complete segments; the next reader opens them again, for about 20 us.

        What is being sent keeps its own. So descriptors are bounded by active segments and recent readers.
        """
        for log in self._logs.values():
            for segment in log.segments:
                if segment is not log.segments.active:
                    segment.release()

    def remove_due(self, now_ms: int) -> None:
        """Remove files and directories whose `file.delete.delay.ms` has passed, in a thread."""
        for directory in self.directories:
            if not directory.is_offline and not directory.is_busy_with("removals"):
                directory.run_pass("removals", directory.take_due(now_ms))


def _remover(filesystem: Filesystem, path: str) -> Callable[[], None]:
    return lambda: filesystem.remove_tree(path)


def _offset_writer(filesystem: Filesystem, path: str, offsets: dict[TopicPartition, int]) -> Callable[[], None]:
    return lambda: checkpoint.write_offsets(filesystem, path, offsets)


def stored_cluster_id(log_dirs: Sequence[str], filesystem: Filesystem) -> str | None:
    """The cluster that the first log directory with a `meta.properties` belongs to; None when all are new."""
    for path in log_dirs:
        try:
            properties = checkpoint.read_meta_properties(filesystem, path)
        except (OSError, checkpoint.CorruptCheckpointError):
            continue  # `LogManager.start` looks again, and says what is wrong
        if properties is not None:
            return properties.cluster_id
    return None
