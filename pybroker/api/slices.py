"""Long work of one request, done in slices, between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

from pybroker.slicing import run_slice

Response = TypeVar("Response")


def in_slices(work: Generator[None, None, Response]) -> Response | asyncio.Future[Response]:
    """Run `work`, which yields wherever others may get their turn, and return its response or a Future of it.

    Work that ends within a slice makes no Future. What `work` reads may change wherever it yields. When the Future is
    cancelled, because the connection was closed, `work` is closed. An exception of `work` goes to the caller, or into the Future.
    """
    ended, response = run_slice(work)
    if ended:
        return response  # type: ignore[return-value]  # what `work` returned
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Response] = loop.create_future()

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
