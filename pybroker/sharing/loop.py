"""Long work of one request, or of one change of the cluster, done in slices, between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pybroker.sharing.turns.watchdog import watchdog_of
from pybroker.sharing.work import Wait, Work, run_slice

Response = TypeVar("Response")


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


def in_slices(
    work: Work[Response], *, ends_with_connection: bool = False, may_begin_later: bool = False
) -> Response | SlicedResponse[Response]:
    """Run `work`, which yields wherever others may get their turn, and return its response or a Future of it.

    Work that ends within a slice makes no Future, unless it `may_begin_later` and this round of the loop has no time left. The
    state that `work` reads may change wherever it yields. When the Future is cancelled, `work` is closed, and so it is with its
    connection if `ends_with_connection`. An exception of `work` goes to the caller, or into the Future.
    """
    if may_begin_later and watchdog_of(asyncio.get_running_loop()).rounds.is_over:
        return SlicedResponse(work, None, ends_with_connection=ends_with_connection)
    ended, step, response = run_slice(work)
    if ended:
        return response  # type: ignore[return-value]  # what `work` returned
    return SlicedResponse(work, step, ends_with_connection=ends_with_connection)


async def complete(work: Work[Response]) -> Response:
    """Run `work` as `in_slices` does, and return its response."""
    response = in_slices(work)
    return await response if isinstance(response, asyncio.Future) else response
