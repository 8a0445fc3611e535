"""Objects that take long to make and serve one use at a time: each thread keeps one for its next use.

A stream of zstd lives in its compressor or decompressor, so two streams of one thread that are under way at the same time must
not share it: the second would continue from the state of the first. So a use takes the thread's object away, and another use
meanwhile makes an object of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Spare(Generic[T]):
    """Keeps at most one object for each thread. All methods may be called in any thread."""

    __slots__ = ("_make", "_of_thread")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._of_thread = threading.local()

    def take(self) -> T:
        """Return the object that this thread has kept, which is the caller's from now on, or a new one."""
        kept: T | None = self._of_thread.__dict__.pop("kept", None)
        return self._make() if kept is None else kept

    def keep(self, used: T) -> None:
        """Keep an object that nothing uses any more, for the next `take` of this thread."""
        self._of_thread.kept = used
