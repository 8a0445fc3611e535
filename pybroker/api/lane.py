"""The requests by which members join, stay in and leave their groups have a lane: a share of each round of the loop.

Why
    The loop handles all requests that are there before it looks for more. When the 500 members of a group join, these are 500
    short turns in one round, and a producer's request that comes meanwhile waits for all of them. No single turn is long.

How
    In each round of the loop, the lane handles requests at once until they took BURST_S. Requests beyond that wait in the order
    in which they came, and the loop handles them for BURST_S in each round after it. So members make progress in every round,
    whatever else there is, and the requests of other clients wait for one share of it at most. A request that waits is not
    decoded yet: its bytes are kept, and counted by the memory pool. The request is handled even if its connection is closed
    meanwhile.

    Beside other work that makes the rounds long, BURST_S would be a small share of the loop. So while requests wait, the lane
    has at least SHARE of the loop's CPU time over the last rounds, up to BURST_MAX_S in a round, because it is one turn. The
    loop gets no CPU time while it waits for a core. The round in which the requests come does not count: the loop receives them
    in it.

What others see in between
    Each request is of the time when it is handled. A connection has one request in work, so those of one member stay in order.

The responses of a new generation are paced by `coordinator/runtime/runtime.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.api.long_messages import HeldRequest
from pybroker.network.context import Outgoing
from pybroker.protocol.api_keys import ApiKey
from pybroker.turns.jobs import job

if TYPE_CHECKING:
    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler

IN_LANE: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP})
"""The APIs of members of classic groups."""

BURST_S: Final = 0.002

SHARE: Final = 0.2
"""The least share of the loop's CPU time that requests in the lane have while some of them wait."""

BURST_MAX_S: Final = 0.01
"""The longest time in one round: with SHARE, for rounds in which others take up to 40 ms."""

ROUNDS: Final = 8
"""The number of rounds, about, over which the time of others is averaged: one long round gives the lane no long burst."""


class _Waiting(NamedTuple):
    connection: ConnectionContext
    request: HeldRequest
    response: asyncio.Future[EncodedResponse]


class Lane:
    """The lane of one loop.

    Args:
        handle: handles a request from its first byte to its encoded response.
        now_s: a time in seconds that passes steadily.
        used_s: the CPU time that the loop's thread has used, in seconds.

    Attributes:
        is_open: whether `handle` runs for the lane, so that the request that it gets has had its turn.
    """

    __slots__ = ("_ended_s", "_handle", "_is_counting", "_left_s", "_now_s", "_others_s", "_queue", "_used_s", "is_open")

    def __init__(
        self, handle: RequestHandler, now_s: Callable[[], float] = perf_counter, used_s: Callable[[], float] = thread_time
    ) -> None:
        self._handle = handle
        self._now_s = now_s
        self._queue: deque[_Waiting] = deque()
        self._left_s = BURST_S  # of this round
        self._used_s = used_s
        self._ended_s: float | None = None  # `used_s` when the lane gave the loop back in the round before, if requests waited
        self._others_s = 0.0  # what others take of a round in which requests wait, on average
        self._is_counting = False  # whether `_round` is called in the next round
        self.is_open = False

    def __len__(self) -> int:
        """Return the number of requests that wait."""
        return len(self._queue)

    def take(self, connection: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle a request at once, or when its turn comes. The frame is borrowed until the return. Raises ProtocolViolation."""
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._round)
        if self._queue or self._left_s <= 0:
            return self._wait(connection, frame)
        begun_s = self._now_s()
        self.is_open = True
        try:
            return self._handle(connection, frame)
        finally:
            self.is_open = False
            self._left_s -= self._now_s() - begun_s

    def _wait(self, connection: ConnectionContext, frame: memoryview) -> asyncio.Future[EncodedResponse]:
        response: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(connection, HeldRequest(connection, frame), response))
        return response

    @job("members of groups")
    def _round(self) -> None:
        """Handle requests that wait for BURST_S; one that has begun is finished."""
        queue = self._queue
        end_s = self._now_s() + self._burst_s()
        self.is_open = True
        try:
            while queue:
                self._settle(queue[0])
                queue.popleft()  # only now, so that requests that come meanwhile wait, too
                if self._now_s() >= end_s:
                    break
        finally:
            self.is_open = False
        self._is_counting = len(queue) > 0
        if queue:
            asyncio.get_running_loop().call_soon(self._round)
            self._ended_s = self._used_s()
        else:
            self._ended_s, self._others_s = None, 0.0
        self._left_s = BURST_S

    def _burst_s(self) -> float:
        """Return for how long the lane may handle requests in this round."""
        if self._ended_s is not None:
            self._others_s += (self._used_s() - self._ended_s - self._others_s) / ROUNDS
        return min(max(BURST_S, self._others_s * SHARE / (1 - SHARE)), BURST_MAX_S)

    def _settle(self, waiting: _Waiting) -> None:
        connection, request, response = waiting
        try:
            result = request.during(lambda: self._handle(connection, request.frame))
        except Exception as error:
            if not response.done():  # done: the loop ends
                response.set_exception(error)
        else:
            if isinstance(result, asyncio.Future):
                result.add_done_callback(lambda done: _pass_on(done, response))
            else:
                _respond(response, result)


def _pass_on(done: asyncio.Future[EncodedResponse], response: asyncio.Future[EncodedResponse]) -> None:
    if done.cancelled():
        response.cancel()
    elif (error := done.exception()) is None:
        _respond(response, done.result())
    elif not response.done():
        response.set_exception(error)


def _respond(response: asyncio.Future[EncodedResponse], result: EncodedResponse) -> None:
    if not response.done():
        response.set_result(result)
    elif isinstance(result, Outgoing):
        result.discard()
