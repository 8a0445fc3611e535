"""Waits until the records of a Produce are replicated and durable, as its `acks` want that, without the request itself.

A request that waits in the purgatory keeps none of its bytes: its records are let go, because they are views into these bytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pybroker.api.deferred import Deferred
from pybroker.api.produce_layout import forget_records
from pybroker.api.slices import LARGE_PARTITIONS, complete
from pybroker.slicing import run_through

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Generator

    from pybroker.api.context import Services
    from pybroker.api.produce_layout import ProduceLayout
    from pybroker.protocol.messages.produce import ProduceRequest
    from pybroker.replication.appends import Appends
    from pybroker.replication.delayed_produce import DelayedLargeProduce
    from pybroker.replication.produce_data import ProduceResults

Response = TypeVar("Response")


def settle(
    broker: Services,
    request: ProduceRequest,
    appends: Appends,
    build: Callable[[ProduceResults], Response],
    laid_out: ProduceLayout | None = None,
) -> Response | Future[Response]:
    """Return what `build` makes of the results, or a Future of it if the records are not settled yet.

    `laid_out` is the layout of the request, if it has one.
    """
    if not appends.unsettled:
        return build(appends.results)
    if len(appends.unsettled) > LARGE_PARTITIONS:
        run_through(_forget_records(request, appends, laid_out))  # before the memory of the request is used for something else
        return asyncio.ensure_future(_settled_in_steps(broker, request, appends, build))
    deferred: Deferred[ProduceResults, Response] = Deferred(build)
    broker.replica_manager.await_settled(
        timeout_ms=request.timeout_ms,
        acks=request.acks,
        results=appends.results,
        unsettled=appends.unsettled,
        on_complete=deferred.complete,
    )
    run_through(_forget_records(request, appends, laid_out))
    return deferred.response()


def settle_large(
    broker: Services, asked: list[ProduceRequest], appends: Appends, laid_out: ProduceLayout
) -> ProduceResults | Future[ProduceResults]:
    """Return the results of a request of many partitions, or a Future of them if the records are not settled yet.

    The request is the only element of `asked`, and nothing else may refer to it. If it has to wait, it is taken out.
    """
    if not appends.unsettled:
        return appends.results
    return asyncio.ensure_future(_settled_without(broker, asked, appends, laid_out))


async def _settled_without(
    broker: Services, asked: list[ProduceRequest], appends: Appends, laid_out: ProduceLayout
) -> ProduceResults:
    wait = await _Wait.begin(broker, asked[0], appends)
    await complete(_forget_records(asked.pop(), appends, laid_out))
    return await wait.results()


async def _settled_in_steps(
    broker: Services,
    request: ProduceRequest,
    appends: Appends,
    build: Callable[[ProduceResults], Response],
) -> Response:
    wait = await _Wait.begin(broker, request, appends)
    del request
    return build(await wait.results())


def _forget_records(request: ProduceRequest, appends: Appends, laid_out: ProduceLayout | None) -> Generator[None, None, None]:
    yield from appends.forget_records()
    yield from forget_records(request) if laid_out is None else laid_out.forget_records(request)


class _Wait:
    """The wait for many partitions, which begins and ends in steps."""

    __slots__ = ("_due", "_operation")

    _operation: DelayedLargeProduce

    def __init__(self) -> None:
        self._due: Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def begin(cls, broker: Services, request: ProduceRequest, appends: Appends) -> _Wait:
        """Begin to wait."""
        wait = cls()
        wait._operation = await complete(
            broker.replica_manager.await_settled_in_steps(
                timeout_ms=request.timeout_ms,
                acks=request.acks,
                results=appends.results,
                unsettled=appends.unsettled,
                on_due=wait._on_due,
            )
        )
        return wait

    def _on_due(self) -> None:
        if not self._due.done():  # otherwise the connection was closed
            self._due.set_result(None)

    async def results(self) -> ProduceResults:
        """Return the results when all is settled, or the time is over."""
        await self._due
        return await complete(self._operation.finish())
