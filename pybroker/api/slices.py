"""Long work of one request, done in slices, between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar

from pybroker import slicing
from pybroker.slicing import run_slice

Response = TypeVar("Response")


class Pauses:
    """The pauses of a coroutine that does long work: `between` its steps it gives the loop back once a slice is over."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + slicing.SLICE_S

    async def between(self) -> None:
        """Give others their turn if the slice is over."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + slicing.SLICE_S


class SlicedResponse(asyncio.Future[Response]):
    """A Future of what is made in slices, which waits for nothing else."""


def in_slices(work: Generator[None, None, Response]) -> Response | asyncio.Future[Response]:
    """Run `work`, which yields wherever others may get their turn, and return its response or a Future of it.

    Work that ends within a slice makes no Future. What `work` reads may change wherever it yields. When the Future is
    cancelled, because the connection was closed, `work` is closed. An exception of `work` goes to the caller, or into the Future.
    """
    ended, response = run_slice(work)
    if ended:
        return response  # type: ignore[return-value]  # what `work` returned
    loop = asyncio.get_running_loop()
    future: SlicedResponse[Response] = SlicedResponse(loop=loop)

    def continue_() -> None:
        if future.done():
            work.close()
            return
        try:
            ended, response = run_slice(work)
        except Exception as error:
            future.set_exception(error)
            return
        if ended:
            future.set_result(response)  # type: ignore[arg-type]
        else:
            loop.call_soon(continue_)

    loop.call_soon(continue_)
    return future


async def complete(work: Generator[None, None, Response]) -> Response:
    """Run `work` as `in_slices` does, and return its response."""
    response = in_slices(work)
    return await response if isinstance(response, asyncio.Future) else response


async def in_threads(steps: Generator[Callable[[], None], None, Response]) -> Response:
    """Run `steps`, which yields what takes too long for the loop: that is run in a thread, and what it raises is raised where it
    was yielded. Return what `steps` returns.
    """
    error: BaseException | None = None
    while True:
        try:
            step = next(steps) if error is None else steps.throw(error)
        except StopIteration as stopped:
            response: Response = stopped.value
            return response
        error = None
        try:
            await asyncio.get_running_loop().run_in_executor(None, step)
        except Exception as raised:
            error = raised
