"""The types of the log's arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pybroker.model import NO_OFFSET, Offset

if TYPE_CHECKING:
    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.log.segments.file_records import FileRecords
    from pybroker.model import LeaderEpoch


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


EMPTY: Final = b""


class FetchedRecords(NamedTuple):
    """The result of a read.

    Attributes:
        records: a slice of a segment, or `EMPTY`.
        size: its bytes.
        first_batch_size: bytes of the batch that holds the offset; 0 if there is none.
        is_first_incomplete: the slice ends within that batch.
    """

    records: FileRecords | bytes
    size: int
    offset_metadata: LogOffsetMetadata
    first_batch_size: int = 0
    is_first_incomplete: bool = False


class TimestampedOffset(NamedTuple):
    """A record found by its timestamp; `leader_epoch` is -1 if it is not known."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


AbortedTransactions = list["AbortedTransaction"]


class ThreadRunner(Protocol):
    """Runs blocking work outside of the loop."""

    def __call__(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `work` in a thread; then call `done` on the loop with the OSError that it raised, or None.

        `done` is always called: any other exception of `work` is a bug, which is logged and passed to `done` as an OSError.
        """


def run_inline(work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
    """Run `work` as a `ThreadRunner` without threads, for tests, start and stop."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)


class InThread(NamedTuple):
    """A step that blocks, with the thread that does it."""

    run: ThreadRunner
    work: Callable[[], None]


Steps = Generator[InThread | None, None, None]
"""Long work in steps. It yields None wherever others may get their turn: after at most about half a millisecond. It yields
InThread for what blocks, and continues when that is done; the OSError that it raised is raised from the `yield`.
"""


class StepsRunner(Protocol):
    """Runs long work of the broker itself on the loop, with the work of others between its steps."""

    def __call__(self, name: str, steps: Steps, /) -> None:
        """Run `steps` some time after the return, or close them when the broker stops. `name` shows a person what they are."""


def run_unsliced(_name: str, steps: Steps) -> None:
    """Run steps as a `StepsRunner` that gives no others their turn, for tests, start and stop."""

    def proceed(error: OSError | None = None) -> None:
        try:
            while True:
                step = next(steps) if error is None else steps.throw(error)
                error = None
                if step is not None:
                    step.run(step.work, proceed)
                    return
        except StopIteration:
            return

    proceed()
