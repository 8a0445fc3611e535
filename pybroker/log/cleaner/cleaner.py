"""Decides which log is cleaned next, and how fast: one at a time, on the loop, in small pieces with pauses.

The dirtiest log that is due comes first. The cost is bounded by `log.cleaner.dedupe.buffer.size` (memory for keys; a
log with more keys is cleaned in several passes) and `log.cleaner.io.max.bytes.per.second`.
`cleaner-offset-checkpoint` keeps how far each log is cleaned, which only saves work. A log that holds damaged batches
is not cleaned until the next start.

Source: LogCleaner, LogCleanerManager of Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.log import checkpoint
from pybroker.log.batch_scan import CorruptDataError
from pybroker.log.cleaner import head
from pybroker.log.cleaner.cleanable import Cleanable, cleanable
from pybroker.log.cleaner.head import NoRoomForCopyError
from pybroker.log.cleaner.replace import SegmentsChangedError, discard, replace
from pybroker.log.entry_file import CorruptIndexError
from pybroker.log.leftovers import drop_unfinished
from pybroker.log.offset_checkpoint import StoredOffset
from pybroker.model import Offset
from pybroker.protocol.error_codes import KafkaError
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.cleaner.rewrite import Step
    from pybroker.log.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.log.manager import LogManager
    from pybroker.log.segment import LogSegment
    from pybroker.model import TopicId, TopicPartition

logger = logging.getLogger(__name__)

TURN_COST: Final = 1 << 18
STEP_COST: Final = 1024
"""The cost of a batch in addition to its bytes, in bytes that could be copied in that time."""
PAUSE_S: Final = 0.002
BACKOFF_S_MIN: Final = 0.05


class LogCleaner:
    """The broker's only cleaner. Belongs to the loop.

    `later(delay_s, work)` runs work on the loop after a delay. Attributes for metrics: `max_dirty_percent` of the
    compacted logs, as of the last look; of the last cleaning `recopy_percent` (bytes that stayed), `clean_time_s` and
    `buffer_utilization_percent`; `last_run_ms`, when the cleaner last looked (monotonic).
    """

    def __init__(
        self,
        logs: LogManager,
        *,
        config: Callable[[], BrokerConfig],
        high_watermark: Callable[[TopicPartition], int],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._logs = logs
        self._config = config
        self._high_watermark = high_watermark
        self._later = later
        self._clock = logs.services.clock
        self._first_dirty: dict[TopicPartition, tuple[TopicId, int]] = {}
        self._uncleanable: set[Log] = set()
        self._under_way: Log | None = None
        self._target: tuple[Log, LogSegment] | None = None  # what is being written, until it takes its place
        self._steps: Iterator[Step] = iter(())
        self._is_stopped = False
        self.max_dirty_percent = 0
        self.recopy_percent = 0
        self.clean_time_s = 0
        self.buffer_utilization_percent = 0
        self.last_run_ms = self._clock.monotonic_ms()

    @property
    def uncleanable_count(self) -> int:
        """The number of logs that hold damaged batches."""
        return len(self._uncleanable)

    def start(self) -> None:
        """Read how far the last run came, and begin to look for work."""
        for tp, log in ((log.topic_partition, log) for log in self._logs.all_logs()):
            directory = log.log_directory
            if directory.is_offline:
                continue
            try:
                found = directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).offset_for(tp, log.topic_id)
            except OSError as error:
                directory.fail(error)
                continue
            # A crash has cut off what was beyond the log's end; records that are written there from now on were never
            # cleaned. The entry stays for as long as the log: by it a recovery knows that offsets may be missing.
            if found is not None and found.offset <= log.log_end_offset:
                self._first_dirty[tp] = (log.topic_id, found.offset)
            elif found is not None:
                self._first_dirty[tp] = (log.topic_id, log.log_end_offset if found.is_certain else log.log_start_offset)
        for directory in self._logs.directories:
            directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).forget()
        self._later(self._backoff_s, self.look)

    def stop(self) -> None:
        """Run no step after this. The next start removes what was not finished."""
        self._is_stopped = True

    @property
    def _backoff_s(self) -> float:
        return max(self._config().log_cleaner_backoff_ms / 1000, BACKOFF_S_MIN)

    def look(self) -> None:
        """Begin with the dirtiest log that is due, or look again after `log.cleaner.backoff.ms`."""
        if self._is_stopped:
            return
        self.last_run_ms = self._clock.monotonic_ms()
        for log in self._logs.all_logs():
            if log.replacement is not None and log.replacement.is_serving and _is_usable(log):
                self._begin(log, log.replacement.finish())
                return
        if (cuttable := self._log_to_cut()) is not None:
            self._begin(cuttable, self._cut(cuttable))
            return
        config = self._config()
        chosen = self._dirtiest() if config.log_cleaner_enable and config.log_cleaner_threads else None
        if chosen is None:
            self._later(self._backoff_s, self.look)
            return
        self._begin(chosen.log, self._clean(chosen))

    def _log_to_cut(self) -> Log | None:
        """Return a log whose first segment has enough below the log start offset to give the space back."""
        for log in list(self._logs.all_logs()):
            if _is_usable(log) and log not in self._uncleanable:
                try:
                    if head.is_due(log):
                        return log
                except OSError as error:
                    log.log_directory.fail(error)
        return None

    def _cut(self, log: Log) -> Iterator[Step]:
        """Yield the steps of giving back the space below a log's start."""
        yield lambda: drop_unfinished(log)
        work = partial(self._logs.checkpoint_work, log.log_directory)
        yield from head.cut(log, work, lambda target: self._note_target(log, target), self._clock.time_ms())
        self._target = None
        logger.info("The first segment of %s begins at %d now", log.topic_partition, log.segments[0].base_offset)

    def _note_target(self, log: Log, target: LogSegment) -> None:
        self._target = log, target

    def _begin(self, log: Log, steps: Iterator[Step]) -> None:
        self._under_way, self._steps = log, steps
        self._turn()

    def _dirtiest(self) -> Cleanable | None:
        now_ms, get = self._clock.time_ms(), self._logs.get
        self._uncleanable = {log for log in self._uncleanable if get(log.topic_partition) is log}
        standing = {tp: one for tp, one in self._first_dirty.items() if (log := get(tp)) is not None and log.topic_id == one[0]}
        if len(standing) < len(self._first_dirty):
            self._first_dirty = standing
            self._checkpoint_all()
        candidates = [self._cleanable(log, now_ms) for log in list(self._logs.all_logs())]
        found = [one for one in candidates if one is not None]
        self.max_dirty_percent = round(100 * max((one.ratio for one in found), default=0))
        return max((one for one in found if one.is_due), key=lambda one: one.ratio, default=None)

    def _cleanable(self, log: Log, now_ms: int) -> Cleanable | None:
        if "compact" not in log.config.cleanup_policy or not _is_usable(log) or log in self._uncleanable:
            return None
        tp = log.topic_partition
        topic_id, first_dirty_offset = self._first_dirty.get(tp, (log.topic_id, 0))
        if topic_id != log.topic_id:
            first_dirty_offset = 0
        try:
            log.flush(upto=log.segments.active.base_offset)  # what a killed process wrote is not durable yet
            return cleanable(log, Offset(first_dirty_offset), high_watermark=Offset(self._high_watermark(tp)), now_ms=now_ms)
        except OSError as error:
            log.log_directory.fail(error)
        except (CorruptDataError, CorruptIndexError) as error:
            self._leave_alone(log, error)
        return None

    # --- the pieces ---

    def _turn(self) -> None:
        """Do some steps, and leave the rest for later."""
        log = self._under_way
        if log is None or self._is_stopped:
            return
        bytes_done = cost = 0
        while cost < TURN_COST:
            if self._logs.get(log.topic_partition) is not log:
                self._finish(is_cleaned=False)  # deleted, or moved to another directory
                return
            try:
                step = next(self._steps, None)
            except Exception as error:  # whatever the error is, other logs must still be compacted
                self._give_up(log, error)
                return
            if step is None:
                self._finish(is_cleaned=True)
                return
            if not isinstance(step, int):
                log.log_directory.run_in_thread(step, self._after_thread)
                return
            bytes_done += step
            cost += step + STEP_COST
        self._later(max(PAUSE_S, bytes_done / max(self._config().log_cleaner_io_max_bytes_per_second, 1.0)), self._turn)

    def _after_thread(self, error: OSError | None) -> None:
        log = self._under_way
        if error is not None and log is not None:
            self._give_up(log, error)
        else:
            self._turn()

    def _give_up(self, log: Log, error: Exception) -> None:
        if isinstance(error, SegmentsChangedError):
            logger.info("Compaction begins again: %s", error)
        elif isinstance(error, NoRoomForCopyError):
            logger.warning("The space below the log start offset stays used for now: %s", error)
        elif isinstance(error, OSError):
            if self._logs.get(log.topic_partition) is log:
                log.log_directory.fail(error)
        elif isinstance(error, CorruptRecordError) or not isinstance(error, KafkaError):
            self._leave_alone(log, error)
        self._under_way, self._steps = None, iter(())
        self._discard_target()

    def _discard_target(self) -> None:
        """Remove what was written, unless the log uses it by now. A broken disk is left as it is: the next start settles it."""
        (log, target), self._target = self._target or (None, None), None
        if log is None or target is None or not _is_usable(log) or self._logs.get(log.topic_partition) is not log:
            self._finish(is_cleaned=False)
            return
        if log.replacement is not None and log.replacement.is_serving:
            self._finish(is_cleaned=False)  # the next look continues with it
            return
        log.replacement = None

        def done(error: OSError | None) -> None:
            if error is not None and self._logs.get(log.topic_partition) is log:
                log.log_directory.fail(error)
            self._finish(is_cleaned=False)

        log.log_directory.run_in_thread(lambda: discard(log, target), done)

    def _leave_alone(self, log: Log, error: Exception) -> None:
        is_damage = isinstance(error, CorruptRecordError | CorruptDataError | CorruptIndexError)
        logger.warning("%s is not compacted any more: %s", log.topic_partition, error, exc_info=None if is_damage else error)
        self._uncleanable.add(log)

    def _finish(self, *, is_cleaned: bool) -> None:
        self._under_way, self._steps, self._target = None, iter(()), None
        self._later(0 if is_cleaned else self._backoff_s, self.look)

    def _clean(self, one: Cleanable) -> Iterator[Step]:
        """Yield the steps of cleaning one log."""
        # Import these only when there is something to clean: a start does without them.
        from pybroker.log.cleaner.key_offsets import KeyOffsets  # noqa: PLC0415
        from pybroker.log.cleaner.rewrite import Totals, groups, new_target, note_keys, rewrite  # noqa: PLC0415
        from pybroker.log.cleaner.transactions import CleanedTransactions  # noqa: PLC0415

        log, now_ms, began_ms = one.log, self._clock.time_ms(), self._clock.monotonic_ms()
        truncations = log.truncations
        keys, totals = KeyOffsets(self._config().log_cleaner_dedupe_buffer_size), Totals()
        yield lambda: drop_unfinished(log)  # beside an unfinished segment, a start would take a complete one for unfinished too
        # No recovery must read what was cleaned: it would take a gap for a loss, and miss producers that have no
        # batch left.
        yield self._logs.checkpoint_work(log.log_directory)
        if log.topic_partition not in self._first_dirty:  # so that a start knows of gaps even if a person removed that checkpoint
            self._first_dirty[log.topic_partition] = (log.topic_id, log.log_start_offset)
            yield self._checkpoint_work(log.log_directory)
        yield from note_keys(one, keys, CleanedTransactions())
        end_offset = keys.latest_offset + 1
        transactions = CleanedTransactions()
        for group in list(groups(log, end_offset)):
            target = new_target(log, group[0][0].base_offset, now_ms)
            self._target = log, target
            yield from rewrite(log, group, target, keys, transactions, totals=totals, now_ms=now_ms)
            yield from replace(log, [segment for segment, _ in group], target, truncations=truncations, now_ms=now_ms)
            self._target = None
        self._first_dirty[log.topic_partition] = (log.topic_id, end_offset)
        yield self._checkpoint_work(log.log_directory)
        self.recopy_percent = round(100 * totals.bytes_written / max(totals.bytes_read, 1))
        self.buffer_utilization_percent = round(100 * keys.utilization)
        self.clean_time_s = (self._clock.monotonic_ms() - began_ms) // 1000
        logger.info(
            "Compacted %s up to offset %d: %d of %d records stayed, %d of %d bytes",
            log.topic_partition,
            end_offset,
            totals.records_written,
            totals.records_read,
            totals.bytes_written,
            totals.bytes_read,
        )

    def _checkpoint_all(self) -> None:
        """Write the checkpoints without the logs that were deleted or moved."""
        for directory in self._logs.directories:
            if not directory.is_offline:
                directory.run_in_thread(self._checkpoint_work(directory), directory.note_failure)

    def _checkpoint_work(self, directory: LogDirectory) -> Callable[[], None]:
        """Return the function that writes how far the logs of a directory are cleaned."""
        offsets = {
            tp: StoredOffset(topic_id, Offset(offset))
            for tp, (topic_id, offset) in self._first_dirty.items()
            if (known := self._logs.get(tp)) is not None and known.log_directory is directory and known.topic_id == topic_id
        }
        return directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).writer(offsets)


def _is_usable(log: Log) -> bool:
    return not log.is_closed and not log.log_directory.is_offline
