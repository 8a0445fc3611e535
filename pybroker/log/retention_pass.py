"""One pass of retention over the logs of a directory, in turns: what it reads of one log must not hold the loop.

The new log start offsets become durable in the directory's thread, and then the segments below them are deleted, some in a turn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.log import retention
from pybroker.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.log.directory import LogDirectory
    from pybroker.log.log import Log

    Later = Callable[[Callable[[], None]], object]

logger = logging.getLogger(__name__)

TURN_COST: Final = 500
STEP_COST: Final = 50
"""The cost of a step that reads a file, when looking at a log that needs none costs 1."""
DELETED_PER_TURN: Final = 20
"""Segments, each of which has the names of several files changed."""


class RetentionPass:
    """A pass over `logs`, all of one directory. `turn` is called until it returns that the pass has ended."""

    __slots__ = ("_deletions", "_done", "_due", "_later", "_logs", "_now_ms", "_start_offsets_work", "_steps", "directory")

    def __init__(
        self,
        directory: LogDirectory,
        logs: list[Log],
        now_ms: int,
        *,
        start_offsets_work: Callable[[], Callable[[], None]],
        done: Callable[[], None],
    ) -> None:
        """Prepare a pass; `start_offsets_work` makes the work that writes the start offsets, `done` is called at the end."""
        self.directory = directory
        self._logs = logs
        self._now_ms = now_ms
        self._start_offsets_work = start_offsets_work
        self._done = done
        self._due: list[Log] = []
        self._steps = self._all_steps()
        self._deletions: Iterator[None] = iter(())
        self._later: Later | None = None

    def turn(self, cost_max: int, later: Later | None) -> bool:
        """Do steps until they have cost `cost_max`. Returns whether all logs were looked at. `later` is that of `run`."""
        cost, self._later = 0, later
        for step in self._steps:
            cost += step
            if cost >= cost_max:
                return False
        if not self._due or self.directory.is_offline:
            self._done()
        else:
            self.directory.run_in_thread(self._start_offsets_work(), self._delete)
        return True

    def _all_steps(self) -> Iterator[int]:
        for log in self._logs:
            yield 1
            if log.is_closed or self.directory.is_offline:
                continue
            try:
                yield from self._steps_of(log)
            except KafkaError as error:
                logger.warning("Retention of %s fails and is tried again: %s", log.topic_partition, error)

    def _steps_of(self, log: Log) -> Iterator[int]:
        removals = log.segments.removals
        steps = retention.advance_steps(log, self._now_ms, log.settled_end_offset)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                if end.value:
                    self._due.append(log)
                return
            yield STEP_COST
            if log.is_closed or self.directory.is_offline or log.segments.removals != removals:
                return  # a file that the search reads may be gone; the next pass looks again

    def _delete(self, error: OSError | None) -> None:
        if error is not None:
            self._done()
            self.directory.fail(error)  # if only descriptors were missing, the next pass deletes the segments
            return
        self._deletions = self._all_deletions()
        self._delete_some()

    def _delete_some(self) -> None:
        for _ in self._deletions:
            if self._later is not None:
                self._later(self._delete_some)
                return
        self._done()

    def _all_deletions(self) -> Iterator[None]:
        for log in self._due:
            try:
                while not log.is_closed and not self.directory.is_offline:
                    if log.delete_below_start(now_ms=self._now_ms, count_max=DELETED_PER_TURN) < DELETED_PER_TURN:
                        break
                    yield
            except KafkaError as refusal:
                logger.warning("Retention of %s fails and is tried again: %s", log.topic_partition, refusal)


def run(passes: list[RetentionPass], later: Later | None) -> None:
    """Run the passes: with `later`, which calls its argument soon, in turns; without it to their end."""
    while passes:
        if passes[0].turn(TURN_COST if later is not None else 1 << 62, later):
            del passes[0]
        elif later is not None:
            later(lambda: run(passes, later))
            return
