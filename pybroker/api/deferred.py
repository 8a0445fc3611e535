"""A response whose result comes from an operation's callback: at once, in most cases, or later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

Result = TypeVar("Result")
Response = TypeVar("Response")

_NOTHING: Final = object()


class Deferred(Generic[Result, Response]):
    """Turns a completion callback into what a handler returns.

    Give `complete` to the operation, then return `response()`. That is the response itself if the operation has completed by
    then, so the common case makes no Future and no task. Otherwise it is a Future of the response.
    """

    __slots__ = ("_build", "_finish", "_future", "_response")

    def __init__(self, build: Callable[[Result], Response]) -> None:
        self._build = build
        self._response: object = _NOTHING
        self._future: asyncio.Future[Response] | None = None
        self._finish: Callable[[Any, Exception | None], None] | None = None

    def complete(self, result: Result) -> None:
        """Take the operation's only call, on the loop's thread. An exception of `build` goes to the caller that waits for the
        response.
        """
        finish = self._finish
        if finish is not None:
            try:
                response = self._build(result)
            except Exception as error:
                finish(None, error)
            else:
                finish(response, None)
        elif self._future is None:
            self._response = self._build(result)
        elif not self._future.done():  # done: the connection was closed and cancelled it
            try:
                self._future.set_result(self._build(result))
            except Exception as error:
                self._future.set_exception(error)

    def later(self) -> Response | Deferred[Result, Response]:
        """Return the response, or this object, for which the dispatcher then waits: cheaper than a Future, where many wait.

        Call it instead of `response`.
        """
        return self if self._response is _NOTHING else self._response  # type: ignore[return-value]  # what `build` returned

    def future(self) -> asyncio.Future[Response]:
        """Return a Future of the response of an operation that has not completed."""
        self._future = asyncio.get_running_loop().create_future()
        return self._future

    def when_complete(self, finish: Callable[[Any, Exception | None], None]) -> None:
        """Call `finish` when the operation completes, with the response, or with None and the error of `build`."""
        self._finish = finish

    def response(self) -> Response | asyncio.Future[Response]:
        """Return the response, or a Future of it. Call it once, after the operation was started."""
        if self._response is _NOTHING:
            return self.future()
        return self._response  # type: ignore[return-value]  # what `build` returned


def when_all(parts: list[Any], build: Callable[[list[Any]], Response]) -> Response | asyncio.Future[Response]:
    """Return what `build` makes of all parts, or a Future of that if some of them are Futures."""
    if any(isinstance(part, asyncio.Future) for part in parts):
        return asyncio.ensure_future(_built(parts, build))
    return build(parts)


async def _built(parts: list[Any], build: Callable[[list[Any]], Response]) -> Response:
    return build([await part if isinstance(part, asyncio.Future) else part for part in parts])
