"""The receiver fed whole, byte by byte and in random pieces, with and without memory; against a list of the requests sent."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.network.admission import Admission
from pybroker.network.context import ProtocolViolation
from pybroker.network.memory_pool import FIRST_BYTES, GROWTH, MemoryPool, PooledBuffer
from pybroker.network.receiver import PREFIX, Receiver, new_scratch

REQUEST_BYTES_MAX = 300
SCRATCH_BYTES = 64


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


class Peer:
    """A connection's reading side as the protocol drives it: reads while not muted, takes requests until there is none."""

    def __init__(self, admission: Admission, scratch: memoryview, request_bytes_max: int = REQUEST_BYTES_MAX) -> None:
        self.receiver = Receiver(scratch, admission, request_bytes_max, self)
        self.requests: list[bytes] = []
        self.is_granted = False
        self.failures: list[MemoryError] = []

    def memory_granted(self) -> None:
        self.is_granted = True

    def memory_failed(self, error: MemoryError) -> None:
        self.failures.append(error)

    def feed(self, data: bytes) -> bytes:
        """Receive once, at most `data`, and return the bytes that did not fit."""
        assert not self.receiver.is_waiting, "muted"
        into = self.receiver.get_buffer(False)
        assert len(into) > 0
        count = min(len(into), len(data))
        into[:count] = data[:count]
        self.receiver.received(count)
        self.take()
        return data[count:]

    def take(self) -> None:
        while (frame := self.receiver.next_frame()) is not None:
            self.requests.append(bytes(frame))
        assert not self.receiver.has_more()


def taken(peer: Peer) -> bytes:
    frame = peer.receiver.next_frame()
    assert frame is not None
    return bytes(frame)


def setting(pool_bytes: int = -1, queued_max: int = 500, scratch_bytes: int = SCRATCH_BYTES) -> tuple[Admission, memoryview]:
    pool = MemoryPool(pool_bytes, ManualClock())
    return Admission(pool, queued_max, random.Random(1)), new_scratch(scratch_bytes)


requests_strategy = st.lists(st.binary(min_size=1, max_size=REQUEST_BYTES_MAX), max_size=12)


@given(requests_strategy, st.lists(st.integers(1, 150), min_size=1))
def test_any_split_of_the_stream_yields_the_same_requests(requests: list[bytes], pieces: list[int]) -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    stream = b"".join(map(framed, requests))
    turn = 0
    while stream:
        piece, stream = stream[: pieces[turn % len(pieces)]], stream[pieces[turn % len(pieces)] :]
        while piece:
            piece = peer.feed(piece)
        turn += 1
    assert peer.requests == requests
    assert admission.pool.used == 0


@pytest.mark.parametrize("sizes", [[1], [SCRATCH_BYTES - 4], [SCRATCH_BYTES - 3], [REQUEST_BYTES_MAX], [5, 200, 1, 64, 60, 3]])
def test_whole_and_byte_by_byte(sizes: list[int]) -> None:
    requests = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    stream = b"".join(map(framed, requests))
    for step in (len(stream), 1):
        admission, scratch = setting()
        peer = Peer(admission, scratch)
        for start in range(0, len(stream), step):
            rest = stream[start : start + step]
            while rest:
                rest = peer.feed(rest)
        assert peer.requests == requests
        assert admission.pool.used == 0


def test_a_half_read_request_holds_exactly_its_size_and_a_half_read_size_nothing() -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    stream = framed(bytes(200))
    peer.feed(stream[:3])
    assert admission.pool.used == 0
    peer.feed(stream[3:4])
    assert admission.pool.used == 200
    peer.feed(stream[4:24])
    into = peer.receiver.get_buffer(True)
    assert len(into) == 180, "the rest comes straight into the pool's buffer, whatever else is in work"
    assert into.obj is not scratch.obj
    peer.receiver.close()
    assert admission.pool.used == 0, "a disconnect in mid-request gives the memory back"


def test_behind_a_large_request_the_next_one_comes_straight_into_the_pools_buffer() -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    large, small = framed(b"l" * 200), framed(b"s" * 10)
    rest = large
    while rest:
        rest = peer.feed(rest)
    for _ in range(2):
        assert len(peer.receiver.get_buffer(False)) == PREFIX.size, "the beginning would be copied out of the scratch"
        rest = peer.feed(large)
        into = peer.receiver.get_buffer(False)
        assert (len(into), len(rest)) == (200, 200)
        assert into.obj is not scratch.obj
        assert peer.feed(rest) == b""
    rest = small
    while rest:
        rest = peer.feed(rest)
    assert len(peer.receiver.get_buffer(False)) == len(scratch), "small requests come many at a time again"
    assert peer.requests == [b"l" * 200] * 3 + [b"s" * 10]
    assert admission.pool.used == 0


def test_a_size_behind_a_large_request_takes_no_more_than_if_the_scratch_had_been_full() -> None:
    size = 20 * GROWTH * SCRATCH_BYTES
    admission, scratch = setting()
    peer = Peer(admission, scratch, request_bytes_max=2 * FIRST_BYTES + size)
    rest = framed(bytes(2 * FIRST_BYTES + size))
    while rest:
        rest = peer.feed(rest)
    peer.feed(PREFIX.pack(2 * FIRST_BYTES + size))
    assert len(peer.receiver.get_buffer(False)) == max(FIRST_BYTES, GROWTH * SCRATCH_BYTES)


def test_a_size_takes_little_memory_before_its_bytes_come() -> None:
    size = 3_000_000
    admission, scratch = setting()
    peer = Peer(admission, scratch, request_bytes_max=size)
    request = random.Random(1).randbytes(size)
    stream = framed(request)
    come = len(stream)
    peer.feed(stream[:4])
    assert admission.pool.used == size, "the bound counts what was announced"
    stream = stream[4:]
    while stream:
        into = peer.receiver.get_buffer(True)
        assert len(into) <= max(FIRST_BYTES, GROWTH * (come - len(stream)))
        count = min(len(into), 20_000, len(stream))
        into[:count] = stream[:count]
        into = None  # type: ignore[assignment]  # as a transport lets go of it before it asks for the next
        peer.receiver.received(count)
        stream = stream[count:]
        peer.take()
    assert peer.requests == [request]
    assert admission.pool.used == 0


def test_a_request_for_which_the_system_has_no_more_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(buffer: PooledBuffer) -> None:
        raise MemoryError

    monkeypatch.setattr(PooledBuffer, "grow", fail)
    admission, scratch = setting()
    peer = Peer(admission, scratch, request_bytes_max=10 * FIRST_BYTES)
    peer.feed(framed(bytes(10 * FIRST_BYTES))[:SCRATCH_BYTES])
    while not peer.failures:
        into = peer.receiver.get_buffer(False)
        assert len(into) > 0
        peer.receiver.received(len(into))
    assert (len(peer.failures), admission.pool.used) == (1, 0)
    assert into.obj is scratch.obj, "the transport gets a buffer also now"


def test_a_complete_small_request_is_handled_where_it_was_received() -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    peer.receiver.get_buffer(False)[:7] = framed(b"abc")
    peer.receiver.received(7)
    frame = peer.receiver.next_frame()
    assert frame is not None
    assert (bytes(frame), frame.obj is scratch.obj, frame.readonly) == (b"abc", True, False)
    assert admission.pool.used == 0


def test_a_request_that_is_complete_is_a_writable_view_of_the_scratch() -> None:
    admission, scratch = setting()
    receiver = Peer(admission, scratch).receiver
    for request in (b"a", b"abc", bytes(SCRATCH_BYTES - 4)):
        data = framed(request)
        receiver.get_buffer(False)[: len(data)] = data
        receiver.received(len(data))
        frame = taken_view(receiver)
        assert (bytes(frame), frame.obj is scratch.obj, frame.readonly) == (request, True, False)
        assert receiver.next_frame() is None
        assert not receiver.has_more()
    assert admission.pool.used == 0


def taken_view(receiver: Receiver) -> memoryview:
    frame = receiver.next_frame()
    assert frame is not None
    return frame


@pytest.mark.parametrize("size", [0, -1, -(2**31), REQUEST_BYTES_MAX + 1, 2**31 - 1, 0x47455420])
def test_a_size_that_no_request_may_have_is_a_violation(size: int) -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    with pytest.raises(ProtocolViolation, match=str(size)):
        peer.feed(framed(b"good") + struct.pack(">i", size) + b"rest")
    assert peer.requests == [b"good"]
    peer.receiver.close()
    assert admission.pool.used == 0


def test_requests_behind_one_in_work_wait_in_memory_of_their_own() -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    stream = framed(b"one") + framed(b"two") + framed(b"three") + framed(b"half")[:6]
    peer.receiver.get_buffer(False)[: len(stream)] = stream
    peer.receiver.received(len(stream))
    assert taken(peer) == b"one"
    peer.receiver.leave_scratch()  # the first is parked
    scratch[:] = b"\xff" * len(scratch)  # another connection receives
    assert peer.receiver.has_more()
    assert admission.pool.used == len(stream) - 7
    assert admission.queued_requests == 0, "what stands behind a request in work is not in the queue"
    assert taken(peer) == b"two"
    peer.receiver.leave_scratch(is_turn_over=True)
    assert admission.queued_requests == 1, "what only waits for its turn is"
    peer.take()
    assert (peer.requests, admission.queued_requests, admission.pool.used) == ([b"three"], 0, 4)
    peer.feed(b"lf")
    assert (peer.requests, admission.pool.used) == ([b"three", b"half"], 0)


def test_a_held_request_keeps_its_buffer_while_those_behind_it_come_and_go() -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    stream = framed(b"one") + framed(b"two") + framed(b"three")
    peer.receiver.get_buffer(False)[: len(stream)] = stream
    peer.receiver.received(len(stream))
    assert taken(peer) == b"one"
    peer.receiver.leave_scratch()
    two = taken_view(peer.receiver)
    assert peer.receiver.hold(3)
    peer.receiver.leave_scratch()  # it is parked
    assert admission.pool.used == len(stream) - 7
    peer.receiver.let_go()
    assert admission.pool.used == len(stream) - 7, "the third request is in the same buffer"
    three = taken_view(peer.receiver)
    assert peer.receiver.hold(5)
    peer.receiver.leave_scratch()
    peer.feed(framed(b"four"))
    peer.receiver.close()
    assert (bytes(two), bytes(three), peer.requests) == (b"two", b"three", [b"four"])
    assert admission.pool.used == len(stream) - 7
    peer.receiver.let_go()
    assert admission.pool.used == 0


def test_while_a_request_is_in_work_only_the_size_of_the_next_is_received() -> None:
    admission, scratch = setting()
    peer = Peer(admission, scratch)
    stream = framed(b"later")
    received = 0
    for count in (1, 3):
        into = peer.receiver.get_buffer(True)
        assert len(into) == PREFIX.size - received
        into[:count] = stream[received : received + count]
        peer.receiver.received(count)
        peer.receiver.leave_scratch()
        received += count
        assert peer.receiver.has_more() == (received == PREFIX.size)
        assert admission.pool.used == 0
    peer.take()
    assert admission.pool.used == 5
    peer.feed(stream[4:])
    assert peer.requests == [b"later"]


def test_without_memory_four_bytes_are_received_and_then_the_connection_waits() -> None:
    admission, scratch = setting(pool_bytes=REQUEST_BYTES_MAX)
    holder = admission.try_allocate(REQUEST_BYTES_MAX)
    assert holder is not None
    small, gone = Peer(admission, scratch), Peer(admission, scratch)
    rest = small.feed(framed(b"small"))
    assert rest == b"small"
    assert small.receiver.is_waiting
    gone.feed(framed(b"is gone"))
    assert admission.waiting == 2
    gone.receiver.close()
    assert admission.waiting == 1
    admission.pool.release(holder)
    assert small.is_granted
    assert not gone.is_granted
    assert admission.pool.used == 5
    assert small.feed(rest) == b""
    assert (small.requests, admission.pool.used) == ([b"small"], 0)


def test_without_memory_a_small_request_is_received_into_the_reserve() -> None:
    admission, scratch = setting(pool_bytes=16 * SCRATCH_BYTES)
    holder = admission.try_allocate(16 * SCRATCH_BYTES)
    assert holder is not None
    peer = Peer(admission, scratch)
    rest = peer.feed(framed(b"small"))
    assert (rest, admission.waiting, admission.pool.used) == (b"small", 0, 16 * SCRATCH_BYTES + 5)
    peer.feed(rest)
    assert (peer.requests, admission.pool.used) == ([b"small"], 16 * SCRATCH_BYTES)
    admission.pool.release(holder)


def test_complete_requests_in_the_scratch_move_to_the_reserve_when_the_memory_is_given_away() -> None:
    admission, scratch = setting(pool_bytes=16 * SCRATCH_BYTES)
    peer = Peer(admission, scratch)
    stream = framed(b"one") + framed(b"two")
    peer.receiver.get_buffer(False)[: len(stream)] = stream
    peer.receiver.received(len(stream))
    assert taken(peer) == b"one"
    holder = admission.try_allocate(16 * SCRATCH_BYTES)
    assert holder is not None
    two = taken_view(peer.receiver)
    assert (bytes(two), two.obj is scratch.obj, admission.pool.used) == (b"two", False, 16 * SCRATCH_BYTES + 3)
    assert peer.receiver.hold(3)
    assert peer.receiver.next_frame() is None
    peer.receiver.let_go()
    assert admission.pool.used == 16 * SCRATCH_BYTES
    admission.pool.release(holder)


def test_a_request_that_is_half_read_is_finished_although_memory_is_out() -> None:
    admission, scratch = setting(pool_bytes=REQUEST_BYTES_MAX)
    peer = Peer(admission, scratch)
    stream = framed(b"x" * 250)
    peer.feed(stream[:10])
    holder = admission.try_allocate(REQUEST_BYTES_MAX)
    assert holder is not None
    assert admission.pool.available < 0
    peer.feed(stream[10:])
    assert peer.requests == [b"x" * 250]
    admission.pool.release(holder)


@pytest.mark.parametrize(
    ("pool_bytes", "used_max"), [(10 * SCRATCH_BYTES, 4 * SCRATCH_BYTES), (2 * SCRATCH_BYTES, 0), (-1, 2**40)]
)
def test_more_than_a_request_is_received_only_while_the_pool_has_plenty(pool_bytes: int, used_max: int) -> None:
    admission, scratch = setting(pool_bytes=pool_bytes)
    peer = Peer(admission, scratch)
    admission.pool.used = used_max
    assert len(peer.receiver.get_buffer(False)) == SCRATCH_BYTES
    admission.pool.used += 1
    expected = SCRATCH_BYTES if pool_bytes < 0 else PREFIX.size
    assert len(peer.receiver.get_buffer(False)) == expected
    admission.pool.used = 0


@pytest.mark.parametrize("pool_bytes", [2 * SCRATCH_BYTES - 2, SCRATCH_BYTES, 1])
def test_a_small_pool_is_never_received_ahead_of(pool_bytes: int) -> None:
    admission, scratch = setting(pool_bytes=pool_bytes)
    peer = Peer(admission, scratch)
    stream = framed(b"one") + framed(b"two")
    while stream:
        into = peer.receiver.get_buffer(False)
        assert len(into) <= PREFIX.size
        stream = peer.feed(stream)
        assert admission.pool.used in (0, 3)
    assert peer.requests == [b"one", b"two"]


def test_half_of_the_pool_is_out_of_reach_for_what_stands_behind_requests_in_work() -> None:
    admission, scratch = setting(pool_bytes=10 * SCRATCH_BYTES)
    peers = [Peer(admission, scratch) for _ in range(20)]
    stream = framed(b"p") + framed(b"x" * (SCRATCH_BYTES - 9))
    for peer in peers:
        rest = stream
        while (frame := peer.receiver.next_frame()) is None:
            into = peer.receiver.get_buffer(False)
            count = min(len(into), len(rest))
            into[:count], rest = rest[:count], rest[count:]
            peer.receiver.received(count)
        assert bytes(frame) == b"p"
        peer.receiver.leave_scratch()
    assert 4 * SCRATCH_BYTES < admission.pool.used <= 5 * SCRATCH_BYTES
    for peer in peers:
        peer.receiver.close()
    assert admission.pool.used == 0


@given(
    st.lists(requests_strategy, min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.integers(1, 500),
    st.booleans(),
)
def test_many_connections_share_a_tiny_pool_within_its_bound_and_all_get_responses(
    streams: list[list[bytes]], rng: random.Random, pool_bytes: int, parks: bool
) -> None:
    admission, scratch = setting(pool_bytes=pool_bytes, queued_max=2)
    peers = [Peer(admission, scratch) for _ in streams]
    left = [b"".join(map(framed, requests)) for requests in streams]
    while any(left) or any(peer.receiver.has_more() for peer in peers):
        readable = [i for i, peer in enumerate(peers) if not peer.receiver.is_waiting and (left[i] or peer.receiver.has_more())]
        assert readable, "one connection can always continue"
        i = rng.choice(readable)
        peer = peers[i]
        if not peer.receiver.has_more():
            into = peer.receiver.get_buffer(False)
            count = rng.randint(1, min(len(into), len(left[i])))
            into[:count] = left[i][:count]
            left[i] = left[i][count:]
            peer.receiver.received(count)
        while (frame := peer.receiver.next_frame()) is not None:
            peer.requests.append(bytes(frame))
            if rng.random() < 0.3:
                peer.receiver.leave_scratch(is_turn_over=not parks)
                break
        scratch[:] = bytes(len(scratch))
        assert admission.pool.used <= pool_bytes + REQUEST_BYTES_MAX - 1
    assert [peer.requests for peer in peers] == streams
    assert (admission.pool.used, admission.queued_requests, admission.waiting) == (0, 0, 0)
