"""The steps of a cleaning: what a generator of `rewrite`, `replace` or `head` yields, and which thread does it.

int             bytes that were read and written on the loop
Work            the same with what else took time
Computation     work on bytes alone, for the cleaner's own thread
other callable  work that blocks on the disk, for the thread of the log's directory
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pybroker.log.manager.checkpoint_pass import Collection


class Work(NamedTuple):
    """The work that was done on the loop since the last step."""

    bytes: int
    records: int = 0
    batches: int = 1


Step = int | Work | Callable[[], None]

_COLLECTED: Final = Work(bytes=0, records=200)


def collected(collection: Collection) -> Generator[Step, None, Callable[[], None]]:
    """Yield steps of the cleaner for those of a collection, and return its result: what writes a checkpoint."""
    while True:
        try:
            next(collection)
        except StopIteration as end:
            write: Callable[[], None] = end.value
            return write
        yield _COLLECTED
