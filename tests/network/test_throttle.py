"""A connection whose client is above its quota: its response is sent at once, and nothing is read until the time is over."""

from __future__ import annotations

import asyncio
from typing import cast

from pybroker.network.connection import Connection
from pybroker.network.context import ConnectionContext, EncodedResponse
from pybroker.network.mute import MuteReason
from tests.network.test_connection import FakeServer, connect, framed, turns


class Throttling(FakeServer):
    """A server whose handler throttles a client with each request that begins with t."""

    def handler(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        if bytes(frame[:1]) == b"t":
            cast("Connection", context.holder).throttle(20)
        return super().handler(context, frame)


async def throttled(server: FakeServer, connection: Connection) -> None:
    """Wait until the throttle time is over."""
    (over, _timer) = cast("tuple[asyncio.Future[None], object]", connection._throttle)
    await over
    await turns(2)


async def test_the_response_is_sent_and_then_nothing_is_read() -> None:
    server = Throttling()
    connection, transport = connect(server)
    transport.deliver(framed(b"t1"))
    assert transport.written == framed(framed(b"t1")[4:])
    await turns()
    assert (connection.mute_reasons, transport.is_reading_) == ({MuteReason.QUOTA}, False)
    assert connection.is_waiting_for_broker, "it is not idle"
    assert connection.partial_bytes() == -1, "its peer owes nothing"
    await throttled(server, connection)
    assert (connection.mute_reasons, server.watched) == (set(), [])
    transport.deliver(framed(b"2"))
    assert server.handled == [b"t1", b"2"]


async def test_requests_that_came_before_are_handled_afterwards() -> None:
    server = Throttling()
    connection, transport = connect(server)
    transport.deliver(framed(b"t1") + b"".join(framed(b"%d" % number) for number in range(10)))
    await turns()
    assert len(server.handled) < 11
    await throttled(server, connection)
    await turns(4)
    assert len(server.handled) == 11


async def test_a_peer_that_ends_meanwhile_is_let_go() -> None:
    server = Throttling()
    connection, transport = connect(server)
    transport.deliver(framed(b"t1"))
    await turns()
    server.end_peer()
    await turns(4)
    assert transport.is_closing()
    assert connection.mute_reasons == {MuteReason.CLOSED}
