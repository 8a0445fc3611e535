"""The requests by which members join, stay in and leave their groups have a lane: a share of each round of the loop.

Why
    The loop handles all requests that are there before it looks for more. When the 500 members of a group join, these are 500
    short turns in one round, and a producer's request that comes meanwhile waits for all of them. No single turn is long.

How
    The lane handles requests at once while they take less than a quarter of the time, with BURST_S in advance. Requests
    beyond that wait in the order in which they came, and the loop handles them for BURST_S in each of its rounds. So members make
    progress in every round, whatever else there is, and the requests of other clients wait for one share of it at most. A
    request that waits is decoded, its bytes stay counted by the memory pool, and it is handled even if its connection is closed
    meanwhile.

What others see in between
    Each request is of the time when it is handled. A connection has one request in work, so those of one member stay in order.

The responses of a new generation are paced by `coordinator/runtime/runtime.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.api.deferred import Deferred
from pybroker.protocol.api_keys import ApiKey
from pybroker.turns.jobs import job

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.network.context import RequestHolder

IN_LANE: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP})
"""The APIs of members of classic groups."""

BURST_S: Final = 0.002
SHARE: Final = 1 / 3  # of the time in which the loop does other things: a quarter of all
_COUNTED_BYTES: Final = 1024  # of a small request, whose bytes are not kept

Handle = Callable[["Services", "RequestContext", Any], Any]


class _Waiting(NamedTuple):
    handle: Handle
    broker: Services
    context: RequestContext
    request: Any
    holder: RequestHolder | None
    response: asyncio.Future[Any]


class Lane:
    """The lane of one loop."""

    __slots__ = ("_left_s", "_now_s", "_queue", "_seen_s")

    def __init__(self, now_s: Callable[[], float] = perf_counter) -> None:
        self._now_s = now_s
        self._queue: deque[_Waiting] = deque()
        self._left_s = BURST_S
        self._seen_s = now_s()  # when `_left_s` was that

    def __len__(self) -> int:
        """Return the number of requests that wait."""
        return len(self._queue)

    def handler(self, handle: Handle) -> Handle:
        """Return a handler that does what `handle` does, at once or when its turn comes."""

        def in_lane(broker: Services, context: RequestContext, request: Any) -> Any:
            begun_s = self._now_s()
            self._left_s = min(BURST_S, self._left_s + (begun_s - self._seen_s) * SHARE)
            self._seen_s = begun_s
            if self._queue or self._left_s <= 0:
                return self._wait(handle, broker, context, request)
            try:
                return handle(broker, context, request)
            finally:
                self._seen_s = self._now_s()
                self._left_s -= self._seen_s - begun_s

        return in_lane

    def _wait(self, handle: Handle, broker: Services, context: RequestContext, request: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Any] = loop.create_future()
        holder = context.connection.holder
        if holder is not None:
            holder.hold_request(_COUNTED_BYTES)
        if not self._queue:
            loop.call_soon(self._round)
        self._queue.append(_Waiting(handle, broker, context, request, holder, response))
        return response

    @job("members of groups")
    def _round(self) -> None:
        """Handle requests that wait for BURST_S; one that has begun is finished."""
        queue = self._queue
        end_s = self._now_s() + BURST_S
        while queue:
            _handle(queue[0])
            queue.popleft()  # only now, so that requests that come meanwhile wait, too
            if self._now_s() >= end_s:
                break
        if queue:
            asyncio.get_running_loop().call_soon(self._round)
        self._left_s, self._seen_s = 0.0, self._now_s()


def _handle(waiting: _Waiting) -> None:
    response = waiting.response
    try:
        result = waiting.handle(waiting.broker, waiting.context, waiting.request)
    except Exception as error:
        if not response.done():  # done: the loop ends
            response.set_exception(error)
    else:
        if isinstance(result, Deferred):
            result = result.future()
        if isinstance(result, asyncio.Future):
            result.add_done_callback(lambda done: _pass_on(done, response))
        elif not response.done():
            response.set_result(result)
    if waiting.holder is not None:
        waiting.holder.release_request()


def _pass_on(done: asyncio.Future[Any], response: asyncio.Future[Any]) -> None:
    if response.done() or done.cancelled():
        response.cancel()
    elif (error := done.exception()) is not None:
        response.set_exception(error)
    else:
        response.set_result(done.result())
