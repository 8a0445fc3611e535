"""Appends a batch of records and replays it into the shard, in slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.runtime.countdown import Countdown
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.active import Shard
    from pybroker.coordinator.runtime.result import CoordinatorRecord

_OVER: Final = object()

STEP_RECORDS: Final = 100
"""The number of records that are replayed between two yields."""

STEP_BYTES: Final = 128 * 1024
"""A step also ends with records of this size together: those of groups with many topics are large."""

Append = Callable[[Callable[[], None], Callable[[ErrorCode], None]], None]
"""Appends a batch: calls the first function if the batch is in the log, and passes the outcome to the second."""


def append_and_replay(
    append: Append,
    replay: Callable[[], Iterator[None]],
    done: Callable[[ErrorCode], None],
) -> Generator[None, None, None]:
    """Append a batch, and replay it in slices once it is in the log. `done` gets NONE when the batch is durable
    and replayed, or the error.

    A batch that is replayed without a yield is replayed before anything that waits for records of the partition looks at it.
    """
    complete = Countdown(2, done)
    rest: Iterator[None] | None = None

    def begin() -> None:
        nonlocal rest
        steps = replay()
        if next(steps, _OVER) is not _OVER:
            rest = steps

    append(begin, complete.note)
    if rest is not None:
        yield
        yield from rest
    complete.note(ErrorCode.NONE)


def replay_records(shard: Shard, records: Sequence[CoordinatorRecord], ends: Sequence[bytes]) -> Iterator[None]:
    """Replay records, some at a time. `ends` has the bytes of each."""
    size = 0
    for count, (record, end) in enumerate(zip(records, ends, strict=True), 1):
        shard.replay(record)
        size += len(end)
        if not count % STEP_RECORDS or size >= STEP_BYTES:
            size = 0
            yield
