"""The steps of a cleaning: what a generator of `rewrite`, `replace` or `head` yields, and which thread does it.

int             bytes that were read and written on the loop
Work            the same with what else took time
Computation     work on bytes alone, for the cleaner's own thread
other callable  work that blocks on the disk, for the thread of the log's directory
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pybroker.log.checkpoints.checkpoint_pass import Collection

T = TypeVar("T")


class Work(NamedTuple):
    """The work that was done on the loop since the last step."""

    bytes: int
    records: int = 0
    batches: int = 1


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
