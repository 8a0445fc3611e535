"""Makes pages of metrics in a thread, one at a time, and leaves the interpreter to the event loop in between.

All scrapes that wait get the same page. It is made after the last of them has come, so no scrape sees old numbers. After a page,
the next one waits for as long as the page took. However many scrapers there are, pages take at most half of the thread's time.

A page of many topics is long work in Python. Every half millisecond the thread sleeps, so that the loop's thread never waits
long for the interpreter.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, sleep
from typing import Final, NamedTuple

RUN_S: Final = 0.000_5
PAUSE_S: Final = 0.000_2
GZIP_LEVEL: Final = 1  # a twentieth of the size; the next levels save little more and take several times as long


class Page(NamedTuple):
    """A page, as it is and compressed."""

    plain: bytes
    gzip: bytes


class StoppedError(Exception):
    """The broker stops, and no client gets the page any more."""


class Breaks:
    """The pauses of a thread that makes a page."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._since_s = 0.0

    def take(self) -> None:
        """Sleep if the thread has run for long enough. Raises StoppedError after a stop."""
        if perf_counter() - self._since_s < RUN_S:
            return
        if self.is_stopped:
            raise StoppedError
        sleep(PAUSE_S)
        self._since_s = perf_counter()


class Pages:
    """The pages of one server. It is used from one event loop, which is not the broker's."""

    def __init__(self, make: Callable[[], bytes], breaks: Breaks) -> None:
        """`make` runs in the thread, and takes `breaks`."""
        self._make_plain = make
        self._breaks = breaks
        self._executor = ThreadPoolExecutor(1, "metrics-page")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Page] | None = None
        self._rest_until_s = 0.0

    async def page(self) -> Page:
        """Return a page that is made from now on."""
        if self._next is None:
            self._next = asyncio.create_task(self._make())
        return await asyncio.shield(self._next)

    def stop(self) -> None:
        """End the page in work, without waiting for its end."""
        self._breaks.is_stopped = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _make(self) -> Page:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(self._rest_until_s - loop.time())
            self._next = None  # scrapes that come from here on wait for another page
            began_s = loop.time()
            try:
                return await loop.run_in_executor(self._executor, self._make_both)
            finally:
                self._rest_until_s = 2 * loop.time() - began_s

    def _make_both(self) -> Page:
        plain = self._make_plain()
        return Page(plain, gzip.compress(plain, GZIP_LEVEL))
