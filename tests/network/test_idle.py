"""Idle connections are closed a few at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pybroker.clock import ManualClock
from pybroker.network.limits import NetworkLimits
from pybroker.network.memory_pool import MemoryPool
from pybroker.network.server import IDLE_PER_TURN, SocketServer

if TYPE_CHECKING:
    import asyncio

    from pybroker.network._connection_python import ConnectionCore

IDLE_MS = 10_000
NS_PER_MS = 1_000_000


class FakeConnection:
    context = "a connection"

    def __init__(self, server: SocketServer, *, is_waiting_for_broker: bool = False) -> None:
        self.active_ns = 0
        self.counters = SimpleNamespace(connections_expired=0)
        self.is_waiting_for_broker = is_waiting_for_broker
        self.is_open = True
        server._connections[cast("ConnectionCore", self)] = None

    def abort(self) -> None:
        self.is_open = False


class FakeLoop:
    """A loop that keeps when it was asked for the next check."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def call_later(self, delay: float, *_: Any) -> None:
        self.delays.append(delay)


def test_very_many_idle_connections_are_closed_in_several_turns() -> None:
    now_ns = IDLE_MS * NS_PER_MS
    limits = NetworkLimits(connections_max_idle_ms=IDLE_MS)
    unused: Any = None
    server = SocketServer([], unused, MemoryPool(-1, ManualClock()), limits, now_ns=lambda: now_ns)
    waits = FakeConnection(server, is_waiting_for_broker=True)
    idle = [FakeConnection(server) for _ in range(2 * IDLE_PER_TURN + 1)]
    active = FakeConnection(server)
    active.active_ns = now_ns - 4_000 * NS_PER_MS
    loop = FakeLoop()

    def closed_by_a_check() -> int:
        before = sum(not one.is_open for one in idle)
        server._check_idle(cast("asyncio.AbstractEventLoop", loop))
        return sum(not one.is_open for one in idle) - before

    assert closed_by_a_check() == IDLE_PER_TURN - 1
    assert closed_by_a_check() == IDLE_PER_TURN
    assert closed_by_a_check() == 2
    assert loop.delays == [0.001, 0.001, (IDLE_MS - 4_000) / 1_000], "the next turns come at once"
    assert waits.is_open
    assert active.is_open
