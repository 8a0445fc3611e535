"""Decides which logs are cleaned next: as many at once as `log.cleaner.threads` allows, and never one log twice.

The dirtiest log that is due comes first. The cost is bounded by `log.cleaner.dedupe.buffer.size` (memory for keys, which the
cleaner threads share; a log with more keys is cleaned in several passes), by `throttle`, and by the share of the loop that all
work in the background has. A log that holds damaged batches, or whose cleaning has met a bug, waits for the next start.

Source: LogCleaner, LogCleanerManager of Kafka.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.log.cleaner import head
from pybroker.log.cleaner.cleanable import Cleanable, cleanable
from pybroker.log.cleaner.cleaning import clean
from pybroker.log.cleaner.head import NoRoomForCopyError
from pybroker.log.cleaner.progress import Progress
from pybroker.log.cleaner.replace import SegmentsChangedError, discard
from pybroker.log.cleaner.throttle import Later, Throttle
from pybroker.log.cleaner.worker import CleanerWorker
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.recovery.leftovers import drop_unfinished
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.model import Offset
from pybroker.protocol.error_codes import KafkaError
from pybroker.records.errors import CorruptRecordError
from pybroker.sharing.work import ThreadRunner, WorkRunner, in_thread, run_inline, run_unshared, while_wanted

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.log import Log
    from pybroker.log.manager.manager import LogManager
    from pybroker.model import TopicPartition
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)

BACKOFF_S_MIN: Final = 0.05
_DAMAGE: Final = (CorruptRecordError, CorruptDataError, CorruptIndexError)


class LogCleaner:
    """All cleaning of a broker. Belongs to the loop.

    `later(delay_s, work)` runs work on the loop after a delay, `run(name, work)` long work in slices; `thread_of(name)` returns a
    cleaner thread's own thread, for codecs; `on_bug` is called for each unexpected exception.

    Attributes for metrics, as of the last look: `max_dirty_percent` of the compacted logs; `max_compaction_delay_s`, how long ago
    `max.compaction.lag.ms` required a cleaning; `last_run_ms`, when that was (monotonic); `dead_thread_count`, the number of
    cleaner threads that a bug has ended since then.
    """

    def __init__(
        self,
        logs: LogManager,
        *,
        config: Callable[[], BrokerConfig],
        high_watermark: Callable[[TopicPartition], int],
        later: Later,
        run: WorkRunner = run_unshared,
        thread_of: Callable[[str], ThreadRunner] = lambda _name: run_inline,
        on_bug: Callable[[], None] = lambda: None,
    ) -> None:
        self._logs = logs
        self._config = config
        self._high_watermark = high_watermark
        self._later = later
        self._run = run
        self._thread_of = thread_of
        self._on_bug = on_bug
        self._clock = logs.services.clock
        self._throttle = Throttle(self._clock, lambda: config().log_cleaner_io_max_bytes_per_second, later)
        self._workers: list[CleanerWorker] = []
        self._threads: dict[int, ThreadRunner] = {}  # by the number of the worker; they stay
        self._progress = Progress(logs)
        self._uncleanable: set[Log] = set()
        self._looks_pending = 0
        self._is_looking = False
        self._is_stopped = False
        self.max_dirty_percent = 0
        self.max_compaction_delay_s = 0
        self.dead_thread_count = 0
        self.last_run_ms = self._clock.monotonic_ms()

    @property
    def uncleanable_count(self) -> int:
        """The number of logs that are not cleaned because of damage or a bug."""
        return len(self._uncleanable)

    @property
    def recopy_percent(self) -> int:
        """The share of the bytes that stayed in the last cleaning of each cleaner thread, in percent."""
        stats = [one.stats for one in self._workers]
        return round(100 * sum(one.bytes_written for one in stats) / max(sum(one.bytes_read for one in stats), 1))

    @property
    def max_clean_time_s(self) -> int:
        """The time of the longest among the last cleanings of the cleaner threads."""
        return max((one.stats.elapsed_s for one in self._workers), default=0)

    @property
    def max_buffer_utilization_percent(self) -> int:
        """How full the memory for keys was in the last cleanings, at most."""
        return round(100 * max((one.stats.buffer_utilization for one in self._workers), default=0.0))

    def start(self) -> None:
        """Read how far the last run came, and begin to look for work."""
        self._is_looking = True
        self._run("log cleaner", self._looked(self._progress.load()))

    def stop(self) -> None:
        """Do nothing after this. The next start removes what was not finished."""
        self._is_stopped = True

    @property
    def _backoff_s(self) -> float:
        return max(self._config().log_cleaner_backoff_ms / 1000, BACKOFF_S_MIN)

    def _look_later(self, delay_s: float) -> None:
        self._looks_pending += 1
        self._later(delay_s, self.look)

    def look(self) -> None:
        """Begin with the dirtiest logs that are due, and look again after `log.cleaner.backoff.ms`."""
        self._looks_pending = max(self._looks_pending - 1, 0)
        if self._is_stopped:
            return
        if self._is_looking:
            self._look_later(BACKOFF_S_MIN)
            return
        self.last_run_ms = self._clock.monotonic_ms()
        self.dead_thread_count = 0  # they begin again
        self._is_looking = True
        self._run("log cleaner", self._looked(self._give_work()))

    def _looked(self, work: Work[None]) -> Work[None]:
        """Do a look, or what comes before the first, and see to it that another follows."""
        try:
            yield from while_wanted(lambda: not self._is_stopped, work)
        except Exception:
            logger.exception("The cleaner's look for work has met a bug, and is tried again after log.cleaner.backoff.ms")
            self._die()
        self._is_looking = False
        if not self._looks_pending:
            self._look_later(self._backoff_s)

    # --- which log ---

    def _thread_count(self) -> int:
        """Return how many workers there may be. With `log.cleaner.threads=0` one gives space back, and compacts nothing."""
        return max(self._config().log_cleaner_threads, 1)

    def _busy(self) -> list[CleanerWorker]:
        return [worker for worker in self._workers if worker.log is not None]

    def _has_idle(self) -> bool:
        """Return whether another log may be cleaned now. One is always allowed, because space must be given back in any case."""
        return len(self._busy()) + self.dead_thread_count < self._thread_count()

    def _give_work(self) -> Work[None]:
        """Look at all logs, and give workers those that need it most."""
        if not self._has_idle():
            return
        self._uncleanable = {log for log in self._uncleanable if self._logs.get(log.topic_partition) is log}
        yield from self._progress.forget_changed()
        logs = list(self._logs.all_logs())
        cuttable: list[Log] = []
        found: list[Cleanable] = []
        for log in logs:
            if not cuttable and self._is_cuttable(log):
                cuttable.append(log)
            elif (one := self._cleanable(log)) is not None:
                found.append(one)
            yield None
        self.max_dirty_percent = round(100 * max((one.ratio for one in found), default=0))
        self.max_compaction_delay_s = max((one.delay_ms for one in found), default=0) // 1000
        for log, work in self._jobs(logs, cuttable, found):
            worker = self._idle_worker()
            worker.log = log
            self._run(f"compaction of {log.topic_partition}", self._work_on(log, worker, work(worker)))
            if not self._has_idle():
                return

    def _idle_worker(self) -> CleanerWorker:
        """Return a worker without work, after those are dropped that a smaller `log.cleaner.threads` leaves without any."""
        idle = [worker for worker in self._workers if worker.log is None]
        while len(self._workers) > self._thread_count() and len(idle) > 1:
            self._workers.remove(idle.pop())
        if idle:
            return idle[0]
        number = next(number for number in itertools.count() if all(worker.number != number for worker in self._workers))
        if number not in self._threads:
            self._threads[number] = self._thread_of(f"log-cleaner-{number}")
        worker = CleanerWorker(number, self._threads[number], self._throttle)
        self._workers.append(worker)
        return worker

    def _jobs(
        self, logs: Sequence[Log], cuttable: Sequence[Log], found: Sequence[Cleanable]
    ) -> Iterator[tuple[Log, Callable[[CleanerWorker], Work[None]]]]:
        """Yield the logs to work on, the most urgent first. A log that a worker has is left out.

        Time may have passed since the logs were looked at, so each is looked at again.
        """
        for log in logs:
            if log.replacement is not None and log.replacement.is_serving and self._is_free(log):
                yield log, lambda _, replacement=log.replacement: replacement.finish()  # type: ignore[misc]
        for log in cuttable:
            if self._is_cuttable(log):
                yield log, partial(self._cut, log)
        config = self._config()
        if config.log_cleaner_enable and config.log_cleaner_threads:
            for one in sorted((one for one in found if one.is_due), key=lambda one: one.ratio, reverse=True):
                now = self._cleanable(one.log)
                if now is not None and now.is_due:
                    yield one.log, partial(self._clean, now)

    def _is_free(self, log: Log) -> bool:
        is_usable = self._is_current(log) and not log.is_closed and not log.log_directory.is_offline
        return is_usable and not log.is_moving and all(worker.log is not log for worker in self._workers)

    def _is_current(self, log: Log) -> bool:
        return self._logs.get(log.topic_partition) is log

    def _is_cuttable(self, log: Log) -> bool:
        """Return whether a log's first segment has enough below the log start offset to give the space back."""
        if not self._is_free(log) or log in self._uncleanable:
            return False
        try:
            return head.is_due(log)
        except OSError as error:
            log.log_directory.fail(error)
            return False

    def _cut(self, log: Log, worker: CleanerWorker) -> Work[None]:
        """Give back the space below a log's start."""
        yield from in_thread(log.log_directory.run_in_thread, lambda: drop_unfinished(log))
        yield from head.cut(log, self._logs.all_logs, worker, self._clock.time_ms())

    def _clean(self, one: Cleanable, worker: CleanerWorker) -> Work[None]:
        key_bytes_max = self._config().log_cleaner_dedupe_buffer_size // self._thread_count()
        return clean(one, self._logs, self._progress, worker, key_bytes_max=key_bytes_max)

    def _cleanable(self, log: Log) -> Cleanable | None:
        if "compact" not in log.config.cleanup_policy or not self._is_free(log) or log in self._uncleanable:
            return None
        try:
            log.flush(upto=log.segments.active.base_offset)  # what a killed process wrote is not durable yet
            first_dirty_offset = self._progress.first_dirty_offset(log)
            high_watermark = Offset(self._high_watermark(log.topic_partition))
            return cleanable(log, first_dirty_offset, high_watermark=high_watermark, now_ms=self._clock.time_ms())
        except OSError as error:
            log.log_directory.fail(error)
        except (CorruptDataError, CorruptIndexError) as error:
            self._leave_alone(log, error)
        return None

    # --- one log ---

    def _work_on(self, log: Log, worker: CleanerWorker, work: Work[None]) -> Work[None]:
        """Do a worker's work on a log, and look for more."""
        is_done = has_bug = False
        try:
            is_done = yield from self._do(log, worker, work)
        except Exception:
            logger.exception("The cleaner of %s ends because of a bug, and begins again later", log.topic_partition)
            has_bug = True
        finally:
            worker.log = worker.target = None
        if has_bug:
            self._workers.remove(worker)
            self._die()
        if not self._is_stopped:
            self._look_later(0 if is_done else self._backoff_s)

    def _do(self, log: Log, worker: CleanerWorker, work: Work[None]) -> Work[bool]:
        """Do `work`; end it when the log is deleted, or moves. Returns whether it is done."""

        def is_wanted() -> bool:
            return not self._is_stopped and self._is_current(log) and not log.is_moving

        try:
            yield from while_wanted(is_wanted, work)
            if log.is_moving:
                raise SegmentsChangedError(f"{log.topic_partition} moves to another directory first")
        except Exception as error:  # whatever the error is, other logs must still be compacted
            if self._is_stopped or not self._is_current(log):
                return False
            self._note_failure(log, error)
        else:
            return is_wanted()
        yield from self._discard(log, worker)
        return False

    def _note_failure(self, log: Log, error: Exception) -> None:
        if isinstance(error, SegmentsChangedError):
            logger.info("Compaction begins again: %s", error)
        elif isinstance(error, NoRoomForCopyError):
            logger.warning("The space below the log start offset stays used for now: %s", error)
        elif isinstance(error, OSError):
            log.log_directory.fail(error)
        elif isinstance(error, _DAMAGE) or not isinstance(error, KafkaError):
            self._leave_alone(log, error)

    def _discard(self, log: Log, worker: CleanerWorker) -> Work[None]:
        """Remove what was written, unless the log uses it by now. A broken disk is left as it is: the next start settles it."""
        target, is_serving = worker.target, log.replacement is not None and log.replacement.is_serving
        if target is None or is_serving or log.is_closed or log.log_directory.is_offline:
            return  # the next look continues with a replacement that serves
        log.replacement = None
        try:
            yield from in_thread(log.log_directory.run_in_thread, lambda: discard(log, target))
        except OSError as error:
            if self._is_current(log):
                log.log_directory.fail(error)

    def _leave_alone(self, log: Log, error: Exception) -> None:
        is_damage = isinstance(error, _DAMAGE)
        logger.warning("%s is not compacted any more: %s", log.topic_partition, error, exc_info=None if is_damage else error)
        self._uncleanable.add(log)
        if not is_damage:
            self._on_bug()

    def _die(self) -> None:
        self.dead_thread_count += 1
        self._on_bug()
