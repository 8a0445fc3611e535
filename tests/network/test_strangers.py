"""Which connections are closed because they only hold what clients need."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pybroker.network import strangers as module
from pybroker.network.context import ConnectionContext
from pybroker.network.limits import NetworkLimits
from pybroker.network.strangers import GRACE_MS, PRESSED_MS, PROGRESS_BYTES, SLICE, SPARED_MAX, Strangers

if TYPE_CHECKING:
    from pybroker.network._connection_python import ConnectionCore

BYTES_MAX = 8 << 20
LIMITS = NetworkLimits(first_request_timeout_ms=60_000, request_progress_timeout_ms=30_000)


class FakeConnection:
    """A connection as the test describes it."""

    context = ConnectionContext(connection_id=1)

    def __init__(self) -> None:
        self.is_open = True
        self.is_sending = False
        self.is_waiting_for_broker = False
        self.active_ns = 0
        self.requests = 0
        self.come = -1
        self.unsent = 0

    def unsent_bytes(self) -> int:
        return self.unsent

    def partial_bytes(self) -> int:
        return self.come

    def abort(self) -> None:
        self.is_open = False


class Scene:
    def __init__(self, count: int = 1) -> None:
        self.ns = 0
        self.strangers = Strangers(lambda: self.ns)
        self.connections = [FakeConnection() for _ in range(count)]
        for connection in self.connections:
            self.strangers.opened(cast("ConnectionCore", connection))

    def request(self, connection: FakeConnection) -> None:
        connection.requests += 1
        self.strangers.requested(cast("ConnectionCore", connection))

    def unread(self, connection: FakeConnection, size: int) -> None:
        """Let a response of this size wait for the peer."""
        connection.unsent = size
        self.strangers.unread(cast("ConnectionCore", connection), BYTES_MAX)

    def taken(self, connection: FakeConnection) -> None:
        self.strangers.taken(cast("ConnectionCore", connection))

    def open(self) -> list[bool]:
        return [connection.is_open for connection in self.connections]

    def look(self, after_ms: int = 0, *, is_pressed: bool = False) -> list[bool]:
        """Look at all connections, `after_ms` later. Returns which are open."""
        self.ns += after_ms * 1_000_000
        for _ in self.strangers.look(cast("list[ConnectionCore]", self.connections), LIMITS, is_pressed=is_pressed):
            pass
        return [connection.is_open for connection in self.connections]


def test_a_connection_without_a_first_request_is_closed_in_time() -> None:
    scene = Scene(3)
    scene.request(scene.connections[1])
    assert scene.look(59_999) == [True, True, True]
    assert scene.look(1) == [False, True, False]
    assert scene.strangers.closed == 2


def test_a_connection_whose_first_request_waits_for_memory_is_not_late() -> None:
    scene = Scene()
    (connection,) = scene.connections
    connection.is_waiting_for_broker = True
    assert scene.look(60_000) == [True]
    assert scene.strangers.give_up(1) == 0
    connection.is_waiting_for_broker = False
    assert scene.look(59_999) == [True]
    assert scene.look(1) == [False]


def test_a_request_that_trickles_is_closed_and_one_that_progresses_is_not() -> None:
    scene = Scene(3)
    trickles, progresses, complete = scene.connections
    for connection in scene.connections:
        scene.request(connection)
        connection.come = 1
    for _ in range(10):
        assert scene.look(3_000) == [True, True, True]
        trickles.come += PROGRESS_BYTES // 20
        progresses.come += PROGRESS_BYTES // 2
        complete.requests += 1
    assert scene.look(3_000) == [False, True, True]


def test_a_request_that_the_broker_does_not_read_is_not_late() -> None:
    scene = Scene()
    (connection,) = scene.connections
    scene.request(connection)
    connection.come = 4
    scene.look()
    connection.come = -1
    scene.look(29_000)
    connection.come = 4
    scene.look(29_000)
    assert scene.look(29_999) == [True]
    assert scene.look(1) == [False]


def test_a_request_without_progress_is_closed_early_while_others_wait_for_memory() -> None:
    scene = Scene()
    scene.request(scene.connections[0])
    scene.connections[0].come = 100
    scene.look(is_pressed=True)
    assert scene.look(PRESSED_MS - 1, is_pressed=True) == [True]
    assert scene.look(1) == [True]
    assert scene.look(is_pressed=True) == [False]


def test_a_request_that_progresses_too_slowly_is_closed_while_others_wait_for_memory() -> None:
    scene = Scene(2)
    slow, many = scene.connections
    for connection in scene.connections:
        scene.request(connection)
        connection.come = 10
    scene.look()
    for _ in range(3):
        slow.come += PROGRESS_BYTES
        many.requests += 1
        assert scene.look(4_999, is_pressed=True) == [True, True]
    slow.come += PROGRESS_BYTES
    assert scene.look(3) == [True, True], "no request waits for memory now"
    slow.come += PROGRESS_BYTES
    many.requests += 1
    assert scene.look(is_pressed=True) == [False, True]


def test_for_clients_that_wait_strangers_are_given_up_first_and_then_those_that_are_stalled() -> None:
    scene = Scene(5)
    stranger, unread, partial, idle, young = scene.connections
    for connection in (unread, partial, idle, young):
        scene.request(connection)
    unread.is_sending = True
    partial.come = 10
    scene.look()
    scene.strangers.opened(cast("ConnectionCore", stranger))
    assert scene.strangers.give_up(10) == 0, "all are younger than the grace"
    scene.look(PRESSED_MS)
    scene.strangers.opened(cast("ConnectionCore", young))
    assert scene.strangers.give_up(1) == 1
    assert not stranger.is_open
    assert scene.strangers.give_up(10) == 2
    assert [one.is_open for one in (unread, partial, idle, young)] == [False, False, True, True]
    scene.ns += GRACE_MS * 1_000_000
    assert scene.strangers.give_up(10) == 1
    assert [one.is_open for one in (idle, young)] == [True, False]


def test_a_peer_that_reads_again_is_not_stalled() -> None:
    scene = Scene()
    (connection,) = scene.connections
    scene.request(connection)
    connection.is_sending = True
    scene.look(PRESSED_MS)
    connection.active_ns = scene.ns
    scene.look()
    assert scene.strangers.give_up(10) == 0


def test_responses_that_wait_are_bounded_by_sum_when_they_are_queued() -> None:
    scene = Scene(6)
    for connection in scene.connections[:4]:
        scene.unread(connection, BYTES_MAX // 4)
    assert scene.open() == [True] * 6, "four have no more than the bound"
    scene.unread(scene.connections[4], 4)
    assert scene.open() == [False, True, True, True, True, True], "the first one has waited longest"
    scene.taken(scene.connections[1])
    scene.unread(scene.connections[5], BYTES_MAX // 4)
    assert scene.open() == [False, True, True, True, True, True], "what was taken does not count"
    scene.unread(scene.connections[1], BYTES_MAX * 2)
    assert scene.open() == [False, True, False, False, False, False], "one alone may have more"
    assert scene.strangers.unsent_bytes == BYTES_MAX * 2
    scene.strangers.lost(cast("ConnectionCore", scene.connections[1]))
    assert scene.strangers.unsent_bytes == 0


def test_many_small_responses_have_the_bound_of_a_large_one() -> None:
    scene = Scene(2_000)
    most = 0
    for connection in scene.connections:
        scene.unread(connection, 900_000)
        most = max(most, scene.strangers.unsent_bytes)
    assert most <= BYTES_MAX
    assert sum(scene.open()) == BYTES_MAX // 900_000


def test_a_peer_that_reads_slowly_stays_beside_peers_that_read_nothing() -> None:
    scene = Scene(1_000)
    slow = scene.connections[0]
    scene.unread(slow, BYTES_MAX // 4)
    for connection in scene.connections[1:]:
        slow.unsent -= 1
        scene.unread(connection, BYTES_MAX // 4)
    assert scene.open() == [True] + [False] * 996 + [True] * 3


def test_peers_that_all_read_by_the_byte_have_the_bound_too() -> None:
    scene = Scene(4 * SPARED_MAX)
    for connection in scene.connections:
        for other in scene.connections:
            other.unsent = max(other.unsent - 1, 0)
        scene.unread(connection, BYTES_MAX // 8)
        assert scene.strangers.unsent_bytes <= BYTES_MAX


def test_a_look_at_many_connections_gives_the_loop_back() -> None:
    scene = Scene(3 * SLICE)
    slices = list(scene.strangers.look(cast("list[ConnectionCore]", scene.connections), LIMITS, is_pressed=False))
    assert len(slices) == 3


def test_a_connection_that_is_lost_is_forgotten() -> None:
    scene = Scene()
    (connection,) = scene.connections
    connection.come = 1
    scene.look()
    scene.strangers.lost(cast("ConnectionCore", connection))
    assert scene.strangers.give_up(10) == 0
    assert not any(getattr(scene.strangers, name) for name in ("_fresh", "_partial", "_stalled", "_unread"))
    assert module.LOOK_MS <= GRACE_MS
