"""When the broker gives free memory back to the system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from pybroker.broker import free_memory
from pybroker.broker.free_memory import GROWN_BYTES, LOOK_MS, WAIT_MS_MAX, FreeMemory
from pybroker.clock import ManualClock
from testing.waiting import turned_until


class Process:
    """A process that has as much memory as the test wants, some of which is free."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.resident_bytes = 100 << 20
        self.free_bytes = 0
        self.trims = 0
        self.memory = FreeMemory(self.clock, self.trim, lambda: self.resident_bytes)

    def trim(self) -> None:
        self.trims += 1
        self.resident_bytes -= self.free_bytes
        self.free_bytes = 0

    async def look(self) -> int:
        """Return whether the look began a trim, when that is done and the next regular look is due."""
        before = self.trims
        self.memory.look()
        await turned_until(lambda: not self.memory._is_trimming, "the end of the trim")
        self.clock.advance(LOOK_MS)
        return self.trims - before


def run(scenario: Callable[[Process], Coroutine[None, None, None]]) -> None:
    asyncio.run(scenario(Process()))


def test_memory_that_was_freed_after_a_peak_is_given_back() -> None:
    async def scenario(process: Process) -> None:
        assert await process.look() == 0
        process.resident_bytes += GROWN_BYTES - 1
        assert await process.look() == 0, "it has not grown enough"
        process.resident_bytes += 1 + 5 * GROWN_BYTES
        process.free_bytes = 6 * GROWN_BYTES
        assert await process.look() == 1
        assert process.memory.given_back_bytes == 6 * GROWN_BYTES
        assert await process.look() == 0, "there was nothing more"

    run(scenario)


def test_memory_that_is_in_use_at_first_and_freed_later_is_given_back() -> None:
    async def scenario(process: Process) -> None:
        process.resident_bytes += 10 * GROWN_BYTES
        assert await process.look() == 1
        process.free_bytes = 10 * GROWN_BYTES
        assert await process.look() + await process.look() == 1
        assert process.memory.given_back_bytes == 10 * GROWN_BYTES

    run(scenario)


def test_a_process_that_needs_its_memory_is_tried_less_and_less_often() -> None:
    async def scenario(process: Process) -> None:
        process.resident_bytes += 10 * GROWN_BYTES
        looks = 4 * WAIT_MS_MAX // LOOK_MS
        trims = [await process.look() for _ in range(looks)]
        assert sum(trims) <= 12
        assert sum(trims[-looks // 4 :]) == 1
        process.resident_bytes += GROWN_BYTES
        process.free_bytes = GROWN_BYTES
        assert await process.look() == 1, "a new peak is looked at once"

    run(scenario)


def test_the_c_library_gives_memory_back_where_it_can() -> None:
    trim = free_memory.trim_function()
    if trim is None:
        return
    blocks = [b"x" * 100_000 for _ in range(400)]
    kept = blocks[::20]
    before = free_memory.anonymous_bytes()
    del blocks
    trim()
    assert before - free_memory.anonymous_bytes() > 30_000_000
    assert len(kept) == 20
