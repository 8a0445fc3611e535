"""Carries the cleaning of one log through its steps, in turns of the loop and in threads, and gives up where it cannot continue.

A worker stands for a cleaner thread of Kafka: `log.cleaner.threads` of them work on as many logs. Their work on the loop runs in
`turns`, which they share; each has a thread for codecs, and work that blocks on a disk runs in the thread of the log's directory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log.cleaner.cleaning import CleanerStats
from pybroker.log.cleaner.head import NoRoomForCopyError
from pybroker.log.cleaner.replace import SegmentsChangedError, discard
from pybroker.log.cleaner.steps import Work
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.results import Computation
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.protocol.error_codes import KafkaError
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.log.cleaner.steps import Step
    from pybroker.log.cleaner.turns import Turns
    from pybroker.log.log import Log
    from pybroker.log.segments.segment import LogSegment
    from pybroker.sharing.work import ThreadRunner

logger = logging.getLogger(__name__)


class CleanerWorker:
    """One worker; idle while `log` is None.

    `run_codec` runs work in the worker's thread. `is_current(log)` returns whether the log is still to be worked on. `on_turn`
    is called when a turn is over, `on_end(worker, is_cleaned)` when the worker is idle again, `on_uncleanable(log, error)` when
    a log must be left alone, and `on_bug(worker)` when the worker itself has failed, which makes it idle.
    """

    def __init__(
        self,
        number: int,
        turns: Turns,
        *,
        run_codec: ThreadRunner,
        is_current: Callable[[Log], bool],
        on_turn: Callable[[], None],
        on_end: Callable[[CleanerWorker, bool], None],
        on_uncleanable: Callable[[Log, Exception], None],
        on_bug: Callable[[CleanerWorker], None],
    ) -> None:
        self.number = number
        self._turns = turns
        self._run_codec = run_codec
        self._is_current = is_current
        self._on_turn = on_turn
        self._on_end = on_end
        self._on_uncleanable = on_uncleanable
        self._on_bug = on_bug
        self._steps: Iterator[Step] = iter(())
        self._target: tuple[Log, LogSegment] | None = None  # what is being written, until it takes its place
        self._is_stopped = self._is_within = self._has_returned = False
        self._error: OSError | None = None
        self.log: Log | None = None
        self.stats = CleanerStats()

    def begin(self, log: Log, steps: Iterator[Step]) -> None:
        """Work on a log until `steps` end."""
        assert self.log is None
        self.log, self._steps = log, steps
        self._turns.request(self._turn)

    def stop(self) -> None:
        """Run no step after this. The next start removes what was not finished."""
        self._is_stopped = True

    def note_target(self, log: Log, target: LogSegment | None) -> None:
        """Note what is being written; None if it has taken its place."""
        self._target = None if target is None else (log, target)

    def _turn(self) -> None:
        """Do steps until the turn is over or a thread has to do the next step."""
        if self._is_stopped or self.log is None:
            return
        try:
            self._run(self.log)
        except Exception:
            logger.exception("The cleaner of %s ends because of a bug, and begins again later", self.log.topic_partition)
            self._forget()
            self._on_bug(self)

    def _run(self, log: Log) -> None:
        while not self._turns.is_over:
            if not self._is_current(log):
                self._end(is_cleaned=False)  # deleted, or moved to another directory
                return
            try:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error  # as if the step had been done here
                if log.is_moving:
                    raise SegmentsChangedError(f"{log.topic_partition} moves to another directory first")
                step = next(self._steps, None)
            except Exception as error:  # whatever the error is, other logs must still be compacted
                self._give_up(log, error)
                return
            if step is None:
                self._end(is_cleaned=True)
                return
            if isinstance(step, int | Work):
                self._turns.spend(step)
            elif not self._run_in_thread(log, step):
                return
        self._turns.request(self._turn)
        self._on_turn()

    def _run_in_thread(self, log: Log, step: Callable[[], None]) -> bool:
        """Give a step to its thread. Returns whether it is done already."""
        run = self._run_codec if isinstance(step, Computation) else log.log_directory.run_in_thread
        self._has_returned, self._is_within = False, True
        run(step, self._after_thread)
        self._is_within = False
        return self._has_returned

    def _after_thread(self, error: OSError | None) -> None:
        self._has_returned, self._error = True, error
        if not self._is_within:
            self._turns.request(self._turn)

    def _give_up(self, log: Log, error: Exception) -> None:
        if isinstance(error, SegmentsChangedError):
            logger.info("Compaction begins again: %s", error)
        elif isinstance(error, NoRoomForCopyError):
            logger.warning("The space below the log start offset stays used for now: %s", error)
        elif isinstance(error, OSError):
            if self._is_current(log):
                log.log_directory.fail(error)
        elif isinstance(error, CorruptRecordError | CorruptDataError | CorruptIndexError) or not isinstance(error, KafkaError):
            self._on_uncleanable(log, error)
        self._steps = iter(())
        self._discard_target()

    def _discard_target(self) -> None:
        """Remove what was written, unless the log uses it by now. A broken disk is left as it is: the next start settles it."""
        (log, target), self._target = self._target or (None, None), None
        if log is None or target is None or not is_usable(log) or not self._is_current(log):
            self._end(is_cleaned=False)
            return
        if log.replacement is not None and log.replacement.is_serving:
            self._end(is_cleaned=False)  # the next look continues with it
            return
        log.replacement = None

        def done(error: OSError | None) -> None:
            if error is not None and self._is_current(log):
                log.log_directory.fail(error)
            self._end(is_cleaned=False)

        log.log_directory.run_in_thread(lambda: discard(log, target), done)

    def _end(self, *, is_cleaned: bool) -> None:
        self._forget()
        self._on_end(self, is_cleaned)

    def _forget(self) -> None:
        """Keep nothing of the log, not even the error of a step that was in a thread when the log was deleted."""
        self.log, self._steps, self._target, self._error = None, iter(()), None, None


def is_usable(log: Log) -> bool:
    """Return whether a log can be read and written."""
    return not log.is_closed and not log.log_directory.is_offline
