"""A connection between a transport and a handler that the test plays, with a clock and a loop of its own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.long_work import LongWork
from pybroker.network._connection_python import ConnectionCore
from pybroker.network.admission import Admission
from pybroker.network.connection import TURN_NS, TURN_REQUESTS, WAITING_MAX, WRITE_REQUESTS, Connection
from pybroker.network.context import ConnectionContext, EncodedResponse, Outgoing, RequestHolder
from pybroker.network.counters import ListenerCounters
from pybroker.network.large_pieces import LargePieces
from pybroker.network.memory_pool import MemoryPool
from pybroker.network.mute import MuteCounters, MuteReason
from pybroker.network.receiver import PREFIX, new_scratch
from pybroker.sharing.turns.rounds import BUDGET_NS
from pybroker.sharing.turns.watchdog import Watchdog
from testing.scenes.fake_transport import FakeTransport


def framed(body: bytes) -> bytes:
    return PREFIX.pack(len(body)) + body


class FakeServer:
    """The owner of connections. By the first byte, its handler responds with the request, parks or holds it, or sends none.

    A request that begins with w is parked and only waits.
    """

    def __init__(self) -> None:
        self.admission = Admission(MemoryPool(-1, ManualClock()), 500, random.Random(1))
        self.scratch = new_scratch(1 << 20)
        self.request_bytes_max = 1 << 20
        self.mute_counters = MuteCounters()
        self.large_pieces = LargePieces()
        self.watchdog = Watchdog(1 << 62)
        self.turns, self.rounds = self.watchdog.watch, self.watchdog.rounds
        self.rounds.now_ns = self.now_ns
        self.turn_later = self.rounds.turn_later
        self.conversions = LongWork("convert", 1)
        self.ns = 1
        self.ns_per_request = 0
        self.handled: list[bytes] = []
        self.parked: list[tuple[bytes, asyncio.Future[EncodedResponse]]] = []
        self.held: list[tuple[RequestHolder, bool, memoryview]] = []
        self.lost_count = 0
        self.first_requests: list[ConnectionCore] = []
        self.watched: list[ConnectionCore] = []
        self.sent = 0
        self.unsent: list[int] = []  # what was counted, one after the other

    def now_ns(self) -> int:
        return self.ns

    def handler(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        self.ns += self.ns_per_request
        request = bytes(frame)
        self.handled.append(request)
        if request[:1] in {b"p", b"h", b"w"}:
            context.is_in_order = request[:1] == b"w"
            if request[:1] == b"h":
                assert context.holder is not None
                self.held.append((context.holder, context.holder.hold_request(len(frame)), frame))
            future: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
            self.parked.append((request, future))
            return future
        if request[:1] == b"o":
            return Outgoing([framed(request)], len(request) + 4, self.on_sent)
        return None if request[:1] == b"n" else framed(request)

    def on_sent(self) -> None:
        self.sent += 1

    def opened(self, connection: ConnectionCore) -> bool:
        return True

    def active(self, connection: ConnectionCore) -> int:
        return 0

    def requested(self, connection: ConnectionCore) -> None:
        self.first_requests.append(connection)

    def unread(self, connection: ConnectionCore) -> None:
        self.unsent.append(connection.unsent_bytes())

    def taken(self, connection: ConnectionCore) -> None:
        self.unsent.append(0)

    def lost(self, connection: ConnectionCore) -> None:
        self.lost_count += 1

    def guard(self, connection: Connection) -> None:
        raise NotImplementedError

    def watch(self, connection: ConnectionCore) -> None:
        assert connection not in self.watched
        self.watched.append(connection)

    def unwatch(self, connection: ConnectionCore) -> None:
        self.watched.remove(connection)

    def end_peer(self, *, is_lost: bool = False) -> None:
        self.watched.pop().peer_ended(is_lost=is_lost)


def connect(server: FakeServer) -> tuple[Connection, FakeTransport]:
    server.rounds.call_soon = asyncio.get_running_loop().call_soon
    connection = Connection(asyncio.get_running_loop(), server, ConnectionContext(connection_id=1), ListenerCounters("L"))
    transport = FakeTransport(takes_all=True)
    transport.connection = connection
    connection.connection_made(transport)
    return connection, transport


async def turns(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_turn_ends_after_its_number_of_requests_and_the_rest_is_not_read_meanwhile() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    assert transport.deliver(framed(b"x") * (TURN_REQUESTS * 2 + 3)) == b""
    assert len(server.handled) == TURN_REQUESTS
    assert (connection.mute_reasons, transport.is_reading_) == ({MuteReason.REQUEST_IN_WORK}, False)
    assert server.admission.queued_requests == 1
    await turns()
    assert len(server.handled) == TURN_REQUESTS * 2
    await turns()
    assert len(server.handled) == TURN_REQUESTS * 2 + 3
    assert (connection.mute_reasons, transport.is_reading_, len(transport.writes)) == (set(), True, 1)
    assert (server.admission.queued_requests, server.admission.pool.used) == (0, 0)


async def test_a_response_is_counted_while_its_peer_does_not_take_it() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"x"))
    assert server.unsent == [], "what the socket takes costs nothing"
    transport.takes_all, transport.high = False, 3
    transport.on_full, transport.on_drained = connection.pause_writing, connection.resume_writing
    transport.deliver(framed(b"xy"))
    assert server.unsent == [len(framed(b"xy"))]
    transport.drain()
    assert server.unsent == [len(framed(b"xy")), 0]


async def test_a_round_with_many_due_connections_is_split_and_small_requests_do_not_wait_for_all() -> None:
    server = FakeServer()
    _, small = connect(server)
    for _ in range(2):
        small.deliver(framed(b"s"))
    server.ns_per_request = BUDGET_NS // 3 + 1  # with the third, the budget of a round is used up
    transports = [connect(server)[1] for _ in range(12)]
    for number, transport in enumerate(transports):
        assert transport.deliver(framed(b"%02d" % number)) == b""
    small.deliver(framed(b"s"))
    assert server.handled[2:] == [b"00", b"01", b"02"]
    reads = [transport.is_reading_ for transport in transports]
    assert reads == [True] * 3 + [False] * 9, "the end of a peer that sends and closes is not seen before its requests"
    server.handled.clear()
    await turns(2)
    assert server.handled == [b"s", b"03", b"04"], "the connection whose turns were short is first"
    await turns(3)
    assert server.handled[3:] == [b"%02d" % number for number in range(5, 12)], "the others in the order in which they came"
    assert all(transport.written == framed(b"%02d" % number) for number, transport in enumerate(transports))
    assert all(transport.is_reading_ for transport in transports)


async def test_the_responses_of_several_turns_leave_together() -> None:
    server = FakeServer()
    _, transport = connect(server)
    count = WRITE_REQUESTS * 2 + TURN_REQUESTS + 1
    assert transport.deliver(framed(b"x") * count) == b""
    await turns(count // TURN_REQUESTS)
    assert [len(write) // len(framed(b"x")) for write in transport.writes] == [WRITE_REQUESTS, WRITE_REQUESTS, TURN_REQUESTS + 1]


async def test_responses_that_wait_for_the_next_turn_are_sent_before_the_connection_closes() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    assert transport.deliver(framed(b"x") * (TURN_REQUESTS + 1)) == b""
    connection.end()
    await turns()
    assert (b"".join(transport.writes), len(server.handled)) == (framed(b"x") * TURN_REQUESTS, TURN_REQUESTS)


async def test_responses_do_not_wait_for_a_parked_request_behind_them() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"x") * (TURN_REQUESTS + 1) + framed(b"p"))
    assert transport.writes == []
    await turns(1)
    assert b"".join(transport.writes) == framed(b"x") * (TURN_REQUESTS + 1)
    connection.memory_granted()  # schedules a turn, which finds the connection busy
    await turns(1)
    ((_, future),) = server.parked
    future.set_result(framed(b"p"))
    await turns(2)
    assert b"".join(transport.writes) == framed(b"x") * (TURN_REQUESTS + 1) + framed(b"p")


async def test_a_handler_learns_whether_there_is_more_behind_its_request() -> None:
    found: list[bool] = []

    class Asking(FakeServer):
        def handler(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
            found.append(context.has_next_request)
            return super().handler(context, frame)

    connection, transport = connect(Asking())
    transport.deliver(framed(b"x") * 3)
    transport.deliver(framed(b"x") * 2 + framed(b"x")[:2])
    transport.deliver(framed(b"x")[2:])
    assert found == [True, True, False, True, True, False]
    connection.connection_lost(None)
    assert not connection.context.has_next_request


async def test_a_turn_of_slow_requests_ends_earlier() -> None:
    server = FakeServer()
    server.ns_per_request = TURN_NS // 2
    _, transport = connect(server)
    transport.deliver(framed(b"x") * 60)
    assert 2 <= len(server.handled) < TURN_REQUESTS
    await turns(40)
    assert len(server.handled) == 60


async def test_a_parked_request_mutes_only_when_more_data_comes() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"p1"))
    assert transport.is_reading_
    rest = transport.deliver(framed(b"two"))
    assert rest == b"two"
    assert (connection.mute_reasons, transport.is_reading_) == ({MuteReason.REQUEST_IN_WORK}, False)
    server.parked[0][1].set_result(framed(b"one"))
    await turns(2)
    assert transport.is_reading_
    transport.deliver(rest)
    assert transport.written == framed(b"one") + framed(b"two")
    assert server.mute_counters.transitions == 1


async def test_what_was_received_behind_a_parked_request_is_dropped_at_the_peers_end() -> None:
    server = FakeServer()
    _, transport = connect(server)
    transport.deliver(framed(b"x") + framed(b"p1") + framed(b"never") + framed(bytes(100_000))[:5000])
    assert server.admission.pool.used == 5009
    server.end_peer()
    await turns()
    assert (server.admission.pool.used, transport.is_open) == (0, True)
    server.parked[0][1].set_result(framed(b"one"))
    await turns(3)
    assert (transport.written, server.handled) == (framed(b"x") + framed(b"one"), [b"x", b"p1"])
    assert not transport.is_open


async def test_work_that_ends_with_its_connection_ends_when_the_peer_has_closed() -> None:
    connection, transport = connect(FakeServer())
    transport.deliver(framed(b"p1"))
    ended: list[str] = []
    connection.context.on_lost = lambda: ended.append("conversion")
    assert not connection.eof_received(), "the transport closes"
    connection.connection_lost(None)
    assert ended == ["conversion"]


async def test_what_stands_behind_a_held_request_is_handled_although_the_peer_has_closed() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"h1") + framed(b"nothing") + framed(b"h2") + framed(b"x"))
    assert server.watched == []
    assert connection.eof_received()
    for number in (0, 1):
        server.held[number][0].release_request()
        server.parked[number][1].set_result(None)
        await turns(2)
    await turns(3)
    assert server.handled == [b"h1", b"nothing", b"h2", b"x"]
    assert (transport.written, transport.is_open, server.admission.pool.used) == (framed(b"x"), False, 0)


async def test_a_request_that_waits_after_it_was_held_is_watched() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"h1") + framed(b"two"))
    assert server.watched == []
    await turns()
    assert (server.watched, transport.is_reading_) == ([], False)
    server.held[0][0].release_request()
    await turns()
    assert server.watched == [connection]
    server.end_peer()
    server.parked[0][1].set_result(framed(b"one"))
    await turns(3)
    assert (transport.written, server.handled) == (framed(b"one"), [b"h1"])


@pytest.mark.parametrize("size", [100, 200_000])
async def test_the_memory_of_a_held_request_is_counted_until_it_is_released_also_when_the_peer_is_gone(size: int) -> None:
    server = FakeServer()
    connection, transport = connect(server)
    rest, request = framed(b"h" + bytes(size - 1)), b"h" + bytes(size - 1)
    while rest:
        rest = transport.deliver(rest)
    ((holder, is_stable, frame),) = server.held
    assert is_stable == (size > 100_000)
    assert server.admission.pool.used == size
    connection.connection_lost(None)
    assert server.admission.pool.used == size
    assert not is_stable or frame == request
    holder.release_request()
    assert server.admission.pool.used == 0


async def test_a_turn_ends_with_a_request_that_took_long() -> None:
    server = FakeServer()
    server.ns_per_request = TURN_NS + 1
    _, transport = connect(server)
    transport.deliver(framed(b"x") * 5)
    for number in range(1, 6):
        assert len(server.handled) == number
        server.turns.end_round()
        await turns()


async def test_a_peer_that_is_lost_behind_a_parked_request_is_forgotten_at_once() -> None:
    server = FakeServer()
    _, transport = connect(server)
    transport.deliver(framed(b"p") + framed(b"never"))
    server.end_peer(is_lost=True)
    assert server.admission.pool.used == 0
    await turns()
    assert (transport.is_open, server.lost_count) == (False, 1)


async def test_a_peer_is_watched_only_while_it_is_not_read_for_a_parked_request() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"p1"))
    assert server.watched == []
    rest = transport.deliver(framed(b"p2"))
    assert server.watched == [connection]
    server.parked.pop()[1].set_result(framed(b"1"))
    await turns(2)
    assert server.watched == []
    transport.deliver(rest + framed(b"x"))
    assert len(server.parked) == 1
    transport.deliver(framed(b"x"))
    assert server.watched == [connection]
    transport.close()
    assert server.watched == []


async def test_only_a_connection_without_memory_is_not_idle() -> None:
    server = FakeServer()
    server.admission = Admission(MemoryPool(10, ManualClock()), 500, random.Random(1))
    connection, transport = connect(server)
    transport.deliver(framed(b"p"))
    transport.deliver(b"p")
    assert len(server.parked) == 1
    assert not connection.is_waiting_for_broker
    holder = server.admission.try_allocate(10)
    assert holder is not None
    other, transport = connect(server)
    transport.deliver(framed(b"x"))
    assert other.is_waiting_for_broker
    server.admission.pool.release(holder)
    transport.deliver(b"x")
    assert not other.is_waiting_for_broker


async def test_a_blocked_output_stops_the_pipeline_and_mutes() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    connection.pause_writing()
    rest = transport.deliver(framed(b"x"))
    assert (connection.mute_reasons, server.handled, rest) == ({MuteReason.OUTPUT_FULL}, [], b"x")
    connection.resume_writing()
    assert transport.is_reading_
    assert transport.deliver(rest) == b""
    assert transport.written == framed(b"x")


async def test_a_response_for_a_connection_that_is_gone_is_discarded() -> None:
    server = FakeServer()
    _, transport = connect(server)
    transport.deliver(framed(b"p"))
    transport.close()
    server.parked[0][1].set_result(Outgoing([b"x"], 1, server.on_sent))
    await turns(2)
    assert (transport.written, server.sent, server.lost_count) == (b"", 1, 1)


@pytest.mark.parametrize("is_parked", [True, False])
async def test_ending_responds_to_what_is_in_work_and_nothing_more(is_parked: bool) -> None:
    server = FakeServer()
    connection, transport = connect(server)
    if is_parked:
        transport.deliver(framed(b"p1") + framed(b"never"))
    connection.end()
    await turns(2)
    assert transport.is_open == is_parked
    if is_parked:
        server.parked[0][1].set_result(framed(b"1"))
        await turns(3)
        assert (transport.written, server.handled) == (framed(b"1"), [b"p1"])
    assert not transport.is_open
    assert server.admission.pool.used == 0


@given(
    st.lists(
        st.builds(
            lambda kind, size: kind + bytes(size), st.sampled_from([b"x", b"p", b"n", b"o", b"w", b"w"]), st.integers(0, 400)
        ),
        max_size=150,
    ),
    st.randoms(use_true_random=False),
)
def test_whatever_is_sent_and_parked_the_responses_come_in_order(requests: list[bytes], rng: random.Random) -> None:
    async def scenario() -> None:
        server = FakeServer()
        connection, transport = connect(server)
        left = b"".join(map(framed, requests))

        def events() -> Iterator[Callable[[], None]]:
            if left and transport.is_reading_:
                yield deliver
            if server.parked:
                yield respond

        def deliver() -> None:
            nonlocal left
            count = rng.randint(1, len(left))
            left = transport.deliver(left[:count]) + left[count:]

        def respond() -> None:
            request, future = server.parked.pop(rng.randrange(len(server.parked)))
            future.set_result(framed(request))

        while len(server.handled) < len(requests) or server.parked:
            if possible := list(events()):
                rng.choice(possible)()
            await turns(rng.randint(0, 2))
            assert sum(request[:1] == b"p" for request, _ in server.parked) <= 1, "one request in work"
            assert len(server.parked) <= WAITING_MAX
        await turns(3)
        assert server.watched == []
        assert server.handled == requests
        assert transport.written == b"".join(framed(request) for request in requests if request[:1] != b"n")
        assert (connection.mute_reasons, server.admission.pool.used) == (set(), 0)
        assert server.sent == sum(request[:1] == b"o" for request in requests)

    asyncio.run(scenario())


async def test_requests_that_only_wait_let_others_begin_and_all_responses_leave_in_one_write() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"w1") + framed(b"w2") + framed(b"x3") + framed(b"o4"))
    assert (server.handled, transport.writes) == ([b"w1", b"w2", b"x3", b"o4"], [])
    assert (connection.mute_reasons, transport.is_reading_) == (set(), True)
    (_, first), (_, second) = server.parked
    second.set_result(framed(b"two"))
    await turns(2)
    assert (transport.writes, server.sent) == ([], 0)
    first.set_result(framed(b"one"))
    await turns(2)
    assert transport.writes == [framed(b"one") + framed(b"two") + framed(b"x3") + framed(b"o4")]
    assert server.sent == 1


async def test_a_connection_has_a_bound_on_requests_that_wait() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    for _ in range(WAITING_MAX):
        transport.deliver(framed(b"w"))
    assert transport.deliver(framed(b"x")) == b"x"
    assert (len(server.handled), connection.mute_reasons, server.watched) == (
        WAITING_MAX,
        {MuteReason.REQUEST_IN_WORK},
        [connection],
    )
    for _, future in server.parked:
        future.set_result(framed(b"w"))
    await turns(2)
    assert (transport.is_reading_, server.watched) == (True, [])
    assert transport.deliver(b"x") == b""
    assert transport.written == framed(b"w") * WAITING_MAX + framed(b"x")


async def test_the_end_of_a_peer_does_not_cost_the_requests_that_wait_their_responses() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"w1") + framed(b"x2") + framed(b"w3"))
    assert connection.eof_received()
    server.parked[1][1].set_result(framed(b"w3"))
    server.parked[0][1].set_result(framed(b"w1"))
    await turns(3)
    assert (transport.written, transport.is_open) == (framed(b"w1") + framed(b"x2") + framed(b"w3"), False)


async def test_responses_behind_one_that_never_comes_are_closed_with_the_connection() -> None:
    server = FakeServer()
    connection, transport = connect(server)
    transport.deliver(framed(b"w1") + framed(b"o2") + framed(b"w3"))
    connection.connection_lost(None)
    assert server.sent == 1
    server.parked[1][1].set_result(Outgoing([b"x"], 1, server.on_sent))
    server.parked[0][1].set_exception(ValueError("late"))
    await turns(2)
    assert (server.sent, server.lost_count, transport.writes) == (2, 1, [])


@pytest.mark.parametrize("is_parked", [False, True])
async def test_a_request_without_memory_costs_its_connection_and_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_parked: bool
) -> None:
    def fail(_: object, size: int, *, come: int = 0) -> None:
        raise MemoryError

    server = FakeServer()
    connection, transport = connect(server)
    monkeypatch.setattr(MemoryPool, "try_allocate", fail)
    with caplog.at_level(logging.INFO):
        if is_parked:
            transport.deliver(framed(b"p") + framed(b"half")[:6])
        else:
            transport.deliver(framed(b"half")[:6])
        await turns()
    assert not connection.is_open
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "the system has no memory, thread or descriptor for its request (MemoryError())"
    ]
    assert (server.lost_count, server.admission.pool.used, server.watched) == (1, 0, [])
