"""Long work of one request, or of one change of the cluster, done in slices, between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from pybroker.sharing import work as sharing
from pybroker.sharing.work import Wait, Work, run_slice
from pybroker.turns.watchdog import watchdog_of

Response = TypeVar("Response")


class Pauses:
    """The pauses of a coroutine that does long work: `between` gives the loop back once a slice is over."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + sharing.SLICE_S

    async def before(self) -> None:
        """Wait for a later round of the loop if this one has no time left."""
        if watchdog_of(asyncio.get_running_loop()).rounds.is_over:
            await later_round()
        self._end = perf_counter() + sharing.SLICE_S

    async def between(self) -> None:
        """Give others their turn if the slice is over."""
        if perf_counter() >= self._end:
            await later_round()
            self._end = perf_counter() + sharing.SLICE_S


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
    """A Future of the response that `work` makes, beginning with `step`, which it has yielded.

    When it is cancelled, `work` is closed where it continues; `give_up` closes it at once. `ends_with_connection`: it is given up
    when the connection is closed.
    """

    __slots__ = ("_work", "ends_with_connection")

    def __init__(self, work: Work[Response], step: Callable[[], None] | Wait | None, *, ends_with_connection: bool) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._work = work
        self.ends_with_connection = ends_with_connection
        self._continue_after(step)

    def give_up(self) -> None:
        """End the work, because no client wants its response. It is not responded to then."""
        self._work.close()

    def _continue_after(self, step: Callable[[], None] | Wait | None) -> None:
        if step is None:
            watchdog_of(self.get_loop()).rounds.later(self._continue)
        elif callable(step):
            self.get_loop().run_in_executor(None, step).add_done_callback(self._continue_after_thread)
        else:
            step.add_done_callback(self._continue)

    def _continue_after_thread(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            self._work.close()
            self.cancel()
        elif (bug := done.exception()) is not None:
            self._work.close()
            if not self.done():
                self.set_exception(bug)
        else:
            self._continue()

    def _continue(self, _: object = None) -> None:
        if self.done():
            self._work.close()
            return
        try:
            ended, step, response = run_slice(self._work)
        except asyncio.CancelledError:  # of what the work has waited for
            self.cancel()
        except Exception as error:
            self.set_exception(error)
        else:
            if ended:
                self.set_result(response)  # type: ignore[arg-type]  # what the work returned
            else:
                self._continue_after(step)


def in_slices(work: Work[Response], *, ends_with_connection: bool = False) -> Response | SlicedResponse[Response]:
    """Run `work`, which yields wherever others may get their turn, and return its response or a Future of it.

    Work that ends within a slice makes no Future. The state that `work` reads may change wherever it yields. When the Future is
    cancelled, `work` is closed, and so it is with its connection if `ends_with_connection`. An exception of `work` goes to the
    caller, or into the Future.
    """
    ended, step, response = run_slice(work)
    if ended:
        return response  # type: ignore[return-value]  # what `work` returned
    return SlicedResponse(work, step, ends_with_connection=ends_with_connection)


async def complete(work: Work[Response]) -> Response:
    """Run `work` as `in_slices` does, and return its response."""
    response = in_slices(work)
    return await response if isinstance(response, asyncio.Future) else response
