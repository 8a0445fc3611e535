"""A few threads for work that takes long, which is begun in the order in which it came.

Work may name its size. One of the threads takes only work up to a size, the smallest first, so that such work does not wait for
the end of long work; the other threads take the oldest, so that all work has its turn.

A thread lives as long as one piece of work: to start it costs far less than such work. So none is kept, and work that was given
up is never begun.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

CONVERSIONS: Final = 2
"""The threads in which records are converted for old clients."""


class LongWork:
    """Belongs to the loop.

    Args:
        name: of the threads.
        threads: how many run work of any size.
        short_max: the greatest size of the work that one more thread takes; 0 if there is none.
    """

    __slots__ = ("_free", "_is_short_free", "_name", "_running", "_short_max", "_waiting")

    def __init__(self, name: str, threads: int, *, short_max: int = 0) -> None:
        self._name = name
        self._free = threads
        self._short_max = short_max
        self._is_short_free = short_max > 0
        self._running: dict[asyncio.Future[Any], threading.Thread] = {}
        self._waiting: dict[asyncio.Future[Any], tuple[Callable[[], Any], int]] = {}  # the oldest first

    @property
    def running(self) -> int:
        """How much work is in threads."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How much work waits for a thread."""
        return len(self._waiting)

    def run(self, function: Callable[[], Result], size: int = 0) -> asyncio.Future[Result]:
        """Run `function` in a thread, unless the returned Future is cancelled before its turn."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[future] = function, size
        self._begin()
        return future

    def close(self) -> None:
        """Drop what waits, and wait for what runs. Nothing may be given to `run` afterwards."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            future.cancel()
        for thread in self._running.values():
            thread.join()

    def _begin(self) -> None:
        """Begin what waits, as far as there are threads."""
        while self._waiting and (self._free or self._is_short_free):
            is_short = not self._free
            future = min(self._waiting, key=lambda one: self._waiting[one][1]) if is_short else next(iter(self._waiting))
            if is_short and self._waiting[future][1] > self._short_max:
                return
            function, _ = self._waiting.pop(future)
            if future.cancelled():
                continue
            thread = threading.Thread(target=self._work, args=(function, future, is_short), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # there are too many threads
                future.set_exception(error)
                continue
            self._running[future] = thread
            self._take(is_short, -1)

    def _take(self, is_short: bool, change: int) -> None:
        if is_short:
            self._is_short_free = change > 0
        else:
            self._free += change

    def _work(self, function: Callable[[], Any], future: asyncio.Future[Any], is_short: bool) -> None:
        """Run one piece of work: the body of its thread."""
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:  # reported on the loop
            error = raised
        del function
        try:
            future.get_loop().call_soon_threadsafe(self._ended, future, is_short, result, error)
        except RuntimeError:  # the loop is closed: nothing is left to report to
            return
        finally:
            del result, error  # else this frame and the exception keep each other

    def _ended(self, future: asyncio.Future[Any], is_short: bool, result: Any, error: BaseException | None) -> None:
        del self._running[future]
        self._take(is_short, 1)
        if future.done():  # it was given up meanwhile
            pass
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
        self._begin()
