"""Waits until the records of a Produce are replicated and durable, as its `acks` want that, without the request itself.

A request that waits in the purgatory keeps none of its bytes: its records are let go, because they are views into these bytes.
A request that was decoded in a thread is let go as a whole.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pybroker.api.deferred import Deferred
from pybroker.api.element_budget import parked
from pybroker.api.produce_layout import forget_records
from pybroker.api.slices import complete
from pybroker.slicing import run_through

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from pybroker.api.context import Services
    from pybroker.api.produce_layout import ProduceLayout
    from pybroker.protocol.messages.produce import ProduceRequest
    from pybroker.replication.appends import Appends
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
    deferred = _unsettled(broker, request, appends, build)
    run_through(appends.forget_records())
    run_through(forget_records(request) if laid_out is None else laid_out.forget_records(request))
    return deferred.response()


def settle_large(
    broker: Services, asked: list[ProduceRequest], appends: Appends, laid_out: ProduceLayout
) -> ProduceResults | Future[ProduceResults]:
    """Return the results of a request of many partitions, or a Future of them if the records are not settled yet.

    The request is the only element of `asked`, and nothing else may refer to it. If it has to wait, it is taken out.
    """
    if not appends.unsettled:
        return appends.results
    deferred = _unsettled(broker, asked[0], appends, lambda results: results)
    return asyncio.ensure_future(_settled_without(asked, appends, laid_out, deferred.response()))


async def _settled_without(
    asked: list[ProduceRequest],
    appends: Appends,
    laid_out: ProduceLayout,
    results: ProduceResults | Future[ProduceResults],
) -> ProduceResults:
    await complete(appends.forget_records())
    await complete(laid_out.forget_records(asked.pop()))
    parked()
    return await results if isinstance(results, asyncio.Future) else results


def _unsettled(
    broker: Services, request: ProduceRequest, appends: Appends, build: Callable[[ProduceResults], Response]
) -> Deferred[ProduceResults, Response]:
    """Begin to wait."""
    deferred: Deferred[ProduceResults, Response] = Deferred(build)
    broker.replica_manager.await_settled(
        timeout_ms=request.timeout_ms,
        acks=request.acks,
        results=appends.results,
        unsettled=appends.unsettled,
        on_complete=deferred.complete,
    )
    return deferred
