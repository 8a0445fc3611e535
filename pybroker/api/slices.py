"""Long work of one request, done in slices, between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeVar

from pybroker import slicing
from pybroker.slicing import ThreadedWork, run_threaded_slice
from pybroker.turns.watchdog import watchdog_of

Response = TypeVar("Response")

LARGE_PARTITIONS: Final = 1_000
"""A request of more partitions is handled in steps."""


class Pauses:
    """The pauses of a coroutine that does long work: `between` its steps it gives the loop back once a slice is over."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + slicing.SLICE_S

    async def before(self) -> None:
        """Wait for a later round of the loop if this one has no time left for the first step."""
        if watchdog_of(asyncio.get_running_loop()).rounds.is_over:
            await later_round()
        self._end = perf_counter() + slicing.SLICE_S

    async def between(self) -> None:
        """Give others their turn if the slice is over."""
        if perf_counter() >= self._end:
            await later_round()
            self._end = perf_counter() + slicing.SLICE_S


async def later_round() -> None:
    """Wait for a later round of the loop, behind all that was put off before (see turns/rounds.py)."""
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()

    def come() -> bool:
        if not turn.done():
            turn.set_result(None)
        return True

    watchdog_of(loop).rounds.later(come)
    await turn


class SlicedResponse(asyncio.Future[Response]):
    """A Future of what is made in slices, which waits for nothing but that."""


def in_slices(work: ThreadedWork[Response]) -> Response | asyncio.Future[Response]:
    """Run `work`, which yields wherever others may get their turn, and return its response or a Future of it.

    Work that ends within a slice makes no Future. What `work` reads may change wherever it yields. When the Future is
    cancelled, because the connection was closed, `work` is closed. An exception of `work` goes to the caller, or into the Future.
    """
    ended, step, response = run_threaded_slice(work)
    if ended:
        return response  # type: ignore[return-value]  # what `work` returned
    loop = asyncio.get_running_loop()
    future: SlicedResponse[Response] = SlicedResponse(loop=loop)

    def continue_(done: asyncio.Future[None] | None = None) -> None:
        bug = None if done is None else done.exception()
        if bug is not None or future.done():
            work.close()
            if bug is not None and not future.done():
                future.set_exception(bug)
            return
        try:
            ended, step, response = run_threaded_slice(work)
        except Exception as error:
            future.set_exception(error)
            return
        if ended:
            future.set_result(response)  # type: ignore[arg-type]  # what `work` returned
        else:
            continue_later(step)

    def continue_later(step: Callable[[], None] | None) -> None:
        if step is None:
            watchdog_of(loop).rounds.later(continue_)
        else:
            loop.run_in_executor(None, step).add_done_callback(continue_)

    continue_later(step)
    return future


async def complete(work: ThreadedWork[Response]) -> Response:
    """Run `work` as `in_slices` does, and return its response."""
    response = in_slices(work)
    return await response if isinstance(response, asyncio.Future) else response
