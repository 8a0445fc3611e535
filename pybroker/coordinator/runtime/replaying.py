"""Appends a batch of records and replays it into the shard, in slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pybroker.coordinator.runtime.countdown import Countdown
from pybroker.protocol.error_codes import ErrorCode
from pybroker.sharing.work import run_slice

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.active import Shard
    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.sharing.work import Pausing

Append = Callable[[Callable[[], None], Callable[[ErrorCode], None]], None]
"""Appends a batch: calls the first function if the batch is in the log, and passes the outcome to the second."""


def append_and_replay(append: Append, replay: Callable[[], Pausing[None]], done: Callable[[ErrorCode], None]) -> Pausing[None]:
    """Append a batch, and replay it once it is in the log. `done` gets NONE when the batch is durable and replayed, or the error.

    Records that fit into a slice are replayed before any operation that waits for the partition's records sees the shard.
    """
    complete = Countdown(2, done)
    rest: Pausing[None] | None = None

    def begin() -> None:
        nonlocal rest
        work = replay()
        if not run_slice(work)[0]:
            rest = work

    append(begin, complete.note)
    if rest is not None:
        yield
        yield from rest
    complete.note(ErrorCode.NONE)


def replay_records(shard: Shard, records: Sequence[CoordinatorRecord]) -> Pausing[None]:
    """Replay records."""
    for record in records:
        shard.replay(record)
        yield
