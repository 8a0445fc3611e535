"""Appends the records of a produce request without holding the loop: in slices, and with long batches checked in a thread.

The usual request is done within its first slice. One that takes longer is parked, and the connection keeps its memory, which
stays counted, until its records are in the logs; a request that then waits for replicas keeps none. The connection works on one
request at a time, so the order of a producer's requests remains.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pybroker import slicing
from pybroker.api.slices import later_round
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pybroker.api.validations import Validations
    from pybroker.model import TopicPartition
    from pybroker.network.context import ConnectionContext, RequestHolder
    from pybroker.records.work import Work
    from pybroker.replication.appends import Appends

Response = TypeVar("Response")
Ready = TypeVar("Ready")


def append_in_turns(
    validations: Validations,
    connection: ConnectionContext,
    appends: Appends,
    work: Work,
    respond: Callable[[], Response | asyncio.Future[Response]],
) -> Response | asyncio.Future[Response] | Coroutine[None, None, Response]:
    """Run `appends`, and return the response that `respond` gives when they are done, or an awaitable of it.

    `work` is that of `appends`. Call it before the handler of the request on `connection` returns.
    """
    if appends.check is None and appends.run(slicing.SLICE_S):
        return respond()
    holder = connection.holder
    if holder is None or not holder.hold_request(appends.bytes_left):
        appends.own()
    return _rest(validations, holder, appends, work, respond)


def hold(connection: ConnectionContext, entries: dict[TopicPartition, memoryview]) -> RequestHolder | None:
    """Keep the memory of a request that has to wait before its first append, or copy the records in `entries`. Return what keeps
    it. Call it before the handler of the request returns.
    """
    holder = connection.holder
    if holder is None or not holder.hold_request(sum(map(len, entries.values()))):
        for topic_partition, records in entries.items():
            entries[topic_partition] = memoryview(bytearray(records))
    return holder


async def append_after(  # noqa: PLR0917  (each is of another kind)
    validations: Validations,
    holder: RequestHolder | None,
    ready: asyncio.Future[Ready],
    prepare: Callable[[Ready], Appends],
    work: Work,
    respond: Callable[[Appends], Response | asyncio.Future[Response]],
) -> Response:
    """Run what `prepare` makes of the result of `ready`, as `append_in_turns` does; `holder` is that of `hold`."""
    try:
        appends = prepare(await ready)
    except BaseException:
        if holder is not None:
            holder.release_request()
        raise
    return await _rest(validations, holder, appends, work, lambda: respond(appends))


async def _rest(
    validations: Validations,
    holder: RequestHolder | None,
    appends: Appends,
    work: Work,
    respond: Callable[[], Response | asyncio.Future[Response]],
) -> Response:
    try:
        while True:
            if appends.check is None:
                await later_round()
            else:
                try:
                    checked = await validations.run(appends.check, appends.records, work)
                except Exception as error:
                    appends.checked(error)
                else:
                    appends.checked(checked)
                    del checked
            if validations.is_closed:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops")
            if appends.run(slicing.SLICE_S):
                break
    finally:
        if holder is not None:
            holder.release_request()
    response = respond()
    return await response if isinstance(response, asyncio.Future) else response
