"""The types of the log's arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pybroker.model import FIRST_OFFSET, NO_OFFSET, Offset
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.model import LeaderEpoch
    from pybroker.sharing.work import ThreadRunner, Work

T = TypeVar("T")


class AppendOrigin(IntEnum):
    """Where records come from: only records of clients are checked in full."""

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2
    CHECKED = 3  # a client's, checked already


class LogAppendInfo(NamedTuple):
    """The result of an append. For a duplicate: the result of the first append of the same batch; nothing was written.

    Attributes:
        log_append_time: in ms; -1 if the records keep the producer's timestamps.
        size: the bytes written.
        records_converted: the number of records that came in magic 0 or 1.
        conversion_ns: the time that the conversion took.
    """

    first_offset: Offset = NO_OFFSET
    last_offset: Offset = NO_OFFSET
    max_timestamp: int = -1
    log_append_time: int = -1
    log_start_offset: Offset = NO_OFFSET
    record_count: int = 0
    size: int = 0
    records_converted: int = 0
    conversion_ns: int = 0
    is_duplicate: bool = False


class LogOffsetMetadata(NamedTuple):
    """An offset and its position, so that a waiting fetch can count the bytes between two of them."""

    offset: Offset
    segment_base_offset: Offset = NO_OFFSET
    position: int = -1


class TimestampedOffset(NamedTuple):
    """A record found by its timestamp; `leader_epoch` is -1 if it is not known."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


AbortedTransactions = list["AbortedTransaction"]


@dataclass(slots=True, frozen=True, kw_only=True)
class LostRange:
    """Offsets that the log had, as far as is known, and does not have any more.

    Attributes:
        first_offset: the first of them.
        end_offset: the offset after the last; -1 if it is not known.
        path: the file, or the directory, that keeps the bytes; None if there are none, or none of them are intact.
        reason: a text for people.
    """

    first_offset: Offset
    end_offset: Offset
    path: str | None
    reason: str

    def __str__(self) -> str:
        offsets = f"from {self.first_offset} on" if self.end_offset < 0 else f"{self.first_offset} to {self.end_offset - 1}"
        kept = "nothing of them is left to keep" if self.path is None else f"their bytes are kept in {self.path}"
        return f"the offsets {offsets} are given up ({self.reason}); {kept}"


@dataclass(slots=True, frozen=True, kw_only=True)
class LastRun:
    """The facts about a log that its last run has left, for a start.

    Attributes:
        was_clean: the stop was clean, so the log needs no recovery.
        recovery_point: that of this log's last checkpoint, 0 if there is none; so with `log_start_offset`.
        is_start_offset_certain: otherwise a log start offset beyond the log's end is ignored.
        known_end_offset: an offset that this log reached once, by its checkpoints: a log that ends before it has lost its end.
        perhaps_durable_below: below it, it is unknown what was durable. A gap above it and the recovery point ends the log.
        may_be_compacted: a gap above the recovery point may be one that compaction has left, and ends nothing.
        aborted_counts: how many transactions each segment's index had at a clean stop, where it had any; None if that is not
            known.
    """

    was_clean: bool
    recovery_point: Offset = FIRST_OFFSET
    log_start_offset: Offset = FIRST_OFFSET
    is_start_offset_certain: bool = True
    known_end_offset: Offset = FIRST_OFFSET
    perhaps_durable_below: Offset = FIRST_OFFSET
    may_be_compacted: bool = False
    aborted_counts: Mapping[Offset, int] | None = None


class Computation(Generic[T]):
    """A function that needs nothing of the loop's: a codec takes milliseconds, and releases the interpreter meanwhile.

    It keeps what the function raised, for `result`: a thread must not take damaged data for a failure of the disk.
    """

    __slots__ = ("_error", "_function", "_result")

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._result: list[T] = []
        self._error: Exception | None = None

    def __call__(self) -> None:
        """Call the function, in any thread."""
        try:
            self._result.append(self._function())
        except Exception as error:  # raised by `result`, on the loop
            self._error = error

    def result(self) -> T:
        """Return what the function returned, or raise what it raised, after the call."""
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # else it lives as long as its traceback, and that as long as it, with all that the function had
        return self._result.pop()


def computed(run: ThreadRunner, function: Callable[[], T]) -> Work[T]:
    """Wait for what `function` returns in a thread. Raises what it raises."""
    computation = Computation(function)
    yield from in_thread(run, computation)
    return computation.result()
