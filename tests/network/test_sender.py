"""The sender on a transport that takes as many bytes as the test wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.network.context import Outgoing
from pybroker.network.counters import ListenerCounters
from pybroker.network.large_pieces import LargePieces
from pybroker.network.sender import (
    HIGH_WATER_BYTES,
    JOINED_BYTES,
    MADE_BYTES,
    PIECE_BYTES,
    QUICK_BYTES,
    QUICK_NS,
    SMALL_PIECE_BYTES,
    TURN_BYTES,
    Sender,
)
from pybroker.protocol.parts import Part, parts_size
from testing.scenes.fake_transport import FakeTransport
from testing.scenes.late_part import LatePart


class FakeOwner:
    """An owner that collects the work that the sender hands over."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.threads: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.errors: list[BaseException] = []
        self.ready = self.conversions = 0

    def run_in_thread(
        self, function: Callable[[], None], done: Callable[[BaseException | None], None], *, is_conversion: bool
    ) -> None:
        self.threads.append((function, done))
        self.conversions += is_conversion

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def output_ready(self) -> None:
        self.ready += 1

    def output_failed(self, error: BaseException) -> None:
        self.errors.append(error)


class Converted(LatePart):
    """Is converted in a thread before its first pull."""

    makes_bytes = True

    def cold(self) -> Callable[[], None] | None:
        return lambda: None


def test_a_conversion_has_threads_of_its_own_and_ends_with_its_connection() -> None:
    sender, _, owner, _ = setting()
    part, sent = Converted(b"x" * 10), Sent()
    sender.stream(outgoing([part], sent))
    ((_, done),) = owner.threads
    assert owner.conversions == 1
    sender.close()
    assert part.closed == 1, "its next piece ends it"
    done(None)
    assert sent.count == 1


class Made(LatePart):
    """Makes its bytes, a chunk at a time, whatever is asked for."""

    makes_bytes = True

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        return super().pull(self.piece_bytes)


class Sent:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


class Clock:
    """Time in ns that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def setting(
    high: float = float("inf"), *, is_forgetful: bool = False, clock: Clock | None = None, pieces: LargePieces | None = None
) -> tuple[Sender, FakeTransport, FakeOwner, ListenerCounters]:
    transport, owner, counters = FakeTransport(high, is_forgetful=is_forgetful), FakeOwner(), ListenerCounters("L")
    sender = Sender(transport, owner, counters, pieces or LargePieces(1), now_ns=clock or Clock())
    transport.on_full, transport.on_drained = sender.pause, sender.resume
    return sender, transport, owner, counters


def outgoing(parts: list[Part], on_sent: Callable[[], None] | None = None) -> Outgoing:
    return Outgoing(parts, parts_size(parts), on_sent)


def test_small_responses_are_one_write() -> None:
    sender, transport, _, counters = setting()
    for response in (b"one", b"two", b"three"):
        sender.queue(response)
    assert transport.writes == []
    sender.flush()
    sender.flush()
    assert transport.writes == [b"onetwothree"]
    assert counters.bytes_out == 11
    assert not sender.is_blocked


def test_header_and_first_views_are_one_write_behind_what_was_added() -> None:
    sender, transport, _, _ = setting()
    sent = Sent()
    part = LatePart(b"records")
    sender.queue(b"before ")
    sender.stream(outgoing([b"header ", part, b" trailer"], sent))
    assert transport.writes == [b"before header records trailer"]
    assert (sent.count, part.closed, sender.is_blocked) == (1, 1, False)


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_the_next_piece_is_pulled_only_when_the_transport_can_take_it(is_forgetful: bool) -> None:
    sender, transport, owner, counters = setting(high=64 * 1024, is_forgetful=is_forgetful)
    sent = Sent()
    size = 5 * SMALL_PIECE_BYTES // 2
    part = LatePart(b"x" * size)
    sender.stream(outgoing([b"h" * 10, part], sent))
    for write in (1, 2):
        assert len(transport.writes) == write
        assert transport.unsent == SMALL_PIECE_BYTES, "what a peer that never reads can make us hold"
        assert (sender.is_blocked, part.closed, sent.count, owner.ready) == (True, 0, 0, 0)
        transport.drain()
    assert (part.closed, sent.count, sender.is_blocked) == (1, 0, True), "the last bytes are not out"
    transport.drain()
    assert (sent.count, sender.is_blocked, owner.ready) == (1, False, 1)
    assert b"".join(transport.writes) == b"h" * 10 + b"x" * size
    assert counters.bytes_out == size + 10


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_bytes_that_are_made_are_made_only_when_none_made_before_are_left(is_forgetful: bool) -> None:
    sender, transport, owner, _ = setting(high=HIGH_WATER_BYTES, is_forgetful=is_forgetful)
    sent, chunk = Sent(), MADE_BYTES
    part = Made(b"x" * (3 * chunk - 5), chunk)
    sender.stream(outgoing([b"header", part, LatePart(b"view")], sent))
    assert transport.writes == [b"header" + bytes(b"x" * chunk)]
    transport.unsent = 1  # below every mark but the one that counts
    sender._continue()
    assert len(transport.writes) == 1
    transport.drain()
    assert len(transport.writes) == 2
    transport.drain()
    assert b"".join(transport.writes) == b"header" + part.content + b"view"
    transport.drain()
    assert transport.limits[-1] == HIGH_WATER_BYTES, "small responses behind it do not wait for each other"
    assert (sent.count, part.closed, owner.ready, sender.is_blocked) == (1, 1, 1, False)


def pieces_of(sender: Sender, transport: FakeTransport, size: int) -> list[int]:
    """Return the sizes of the pieces in which a response is sent to a peer that reads at once."""
    first = len(transport.writes)
    sender.stream(outgoing([LatePart(bytes(size))]))
    while sender.is_blocked:
        transport.drain()
    return [len(piece) for piece in transport.writes[first:]]


def test_a_peer_that_has_read_much_quickly_gets_large_pieces_until_it_is_slow_once() -> None:
    clock, pieces = Clock(), LargePieces(1)
    sender, transport, _, _ = setting(high=HIGH_WATER_BYTES, clock=clock, pieces=pieces)
    small = -(-QUICK_BYTES // SMALL_PIECE_BYTES)
    assert pieces_of(sender, transport, small * SMALL_PIECE_BYTES + PIECE_BYTES) == [SMALL_PIECE_BYTES] * small + [PIECE_BYTES]
    assert pieces_of(sender, transport, PIECE_BYTES) == [PIECE_BYTES], "also of the next response"
    assert pieces.left == 1, "between responses it keeps no other connection from large pieces"
    sender.stream(outgoing([LatePart(bytes(2 * PIECE_BYTES))]))
    assert (transport.unsent, pieces.left) == (PIECE_BYTES, 0)
    clock.now_ns += QUICK_NS + 1
    transport.drain()
    assert (transport.unsent, pieces.left) == (SMALL_PIECE_BYTES, 1)


def test_the_last_large_piece_counts_until_it_is_out() -> None:
    pieces = LargePieces(1)
    sender, transport, _, _ = setting(high=HIGH_WATER_BYTES, pieces=pieces)
    pieces_of(sender, transport, QUICK_BYTES)
    sender.stream(outgoing([LatePart(bytes(PIECE_BYTES))]))
    transport.unsent = 1  # a transport that keeps references keeps all of it
    assert (sender.is_blocked, pieces.left) == (True, 0)
    transport.drain()
    assert (sender.is_blocked, pieces.left, transport.limits[-1]) == (False, 1, HIGH_WATER_BYTES)


def test_a_connection_that_is_lost_leaves_its_large_pieces_to_others() -> None:
    pieces = LargePieces(1)
    sender, transport, _, _ = setting(high=HIGH_WATER_BYTES, pieces=pieces)
    other, other_transport, _, _ = setting(high=HIGH_WATER_BYTES, pieces=pieces)
    for one, its_transport in ((sender, transport), (other, other_transport)):
        pieces_of(one, its_transport, QUICK_BYTES)
        its_transport.drain()
        one.stream(outgoing([LatePart(bytes(3 * PIECE_BYTES))]))
    assert (transport.unsent, other_transport.unsent) == (PIECE_BYTES, SMALL_PIECE_BYTES)
    sender.close()
    other_transport.drain()
    assert other_transport.unsent == PIECE_BYTES


def test_small_responses_to_a_peer_that_never_reads_are_joined_up_to_a_bound() -> None:
    sender, transport, _, _ = setting(high=HIGH_WATER_BYTES)
    response = bytes(1000)
    while not sender.is_blocked:
        sender.queue(response)
    assert transport.unsent <= HIGH_WATER_BYTES + JOINED_BYTES + len(response) <= 128 * 1024


def test_small_parts_that_make_their_bytes_are_one_write_as_long_as_they_are_one_chunk() -> None:
    sender, transport, _, _ = setting(high=HIGH_WATER_BYTES)
    third = MADE_BYTES // 3
    sender.stream(outgoing([Made(b"x" * third) for _ in range(7)]))
    sizes = []
    while sender.is_blocked:
        sizes.append(transport.unsent)
        transport.drain()
    assert sizes == [3 * third, 3 * third, third]


def test_a_peer_that_takes_everything_lets_others_have_their_turn() -> None:
    sender, transport, owner, _ = setting()
    size = TURN_BYTES + 2 * PIECE_BYTES
    sender.stream(outgoing([LatePart(bytes(size))]))
    assert TURN_BYTES <= sum(map(len, transport.writes)) < TURN_BYTES + PIECE_BYTES
    assert sender.is_blocked
    (go_on,) = owner.soon
    go_on()
    assert sum(map(len, transport.writes)) == size
    assert (sender.is_blocked, owner.ready) == (False, 1)


def test_a_cold_part_is_read_in_a_thread_first_and_what_comes_before_it_is_not_held_up() -> None:
    sender, transport, owner, _ = setting()
    sender.stream(outgoing([b"header", LatePart(b"warm"), LatePart(b"cold", colds=1), b"end"]))
    assert transport.writes == [b"headerwarm"]
    assert sender.is_blocked
    ((function, done),) = owner.threads
    function()
    done(None)
    assert transport.writes == [b"headerwarm", b"coldend"]
    assert (sender.is_blocked, owner.ready) == (False, 1)


def test_a_lost_connection_closes_the_parts_that_are_left_and_reports_once() -> None:
    sender, transport, _, _ = setting(high=0)
    sent = Sent()
    done, half, untouched = LatePart(b"a" * PIECE_BYTES), LatePart(b"b" * PIECE_BYTES * 2), LatePart(b"c")
    sender.stream(outgoing([done, half, untouched], sent))
    transport.drain()
    sender.close()
    sender.close()
    assert [part.closed for part in (done, half, untouched)] == [1, 1, 1]
    assert sent.count == 1
    assert sender.is_blocked


def test_a_part_in_a_thread_is_closed_when_the_thread_is_done_with_it() -> None:
    sender, _, owner, _ = setting()
    part, sent = LatePart(b"cold", colds=1), Sent()
    sender.stream(outgoing([part], sent))
    sender.close()
    assert part.closed == 0
    ((_, done),) = owner.threads
    done(None)
    assert (part.closed, sent.count, owner.ready) == (1, 1, 0)


@pytest.mark.parametrize("late", [LatePart(b"abc", lack=1), LatePart(b"abc", lack=-1)], ids=["less", "more"])
def test_a_part_that_does_not_keep_to_its_size_ends_the_connection(late: LatePart) -> None:
    sender, _, owner, _ = setting()
    sender.stream(outgoing([late]))
    (error,) = owner.errors
    assert "LatePart gave" in str(error)


def test_an_error_of_the_reading_thread_ends_the_connection() -> None:
    sender, _, owner, _ = setting()
    sender.stream(outgoing([LatePart(b"cold", colds=1)]))
    ((_, done),) = owner.threads
    error = OSError("disk")
    done(error)
    assert owner.errors == [error]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=50),
            *(st.builds(kind, st.binary(max_size=200), st.integers(1, 70), st.integers(0, 1)) for kind in (LatePart, Made)),
        ),
        max_size=10,
    ),
    st.sampled_from([0, 20, 10_000]),
)
def test_whatever_the_parts_all_bytes_go_out_in_order(parts: list[Part], high: int) -> None:
    expected = b"".join(part.content if isinstance(part, LatePart) else bytes(part) for part in parts)  # type: ignore[arg-type]  # no other kind
    sender, transport, owner, counters = setting(high)
    sent = Sent()
    sender.stream(outgoing(parts, sent))
    while sender.is_blocked:
        if owner.threads:
            function, done = owner.threads.pop()
            function()
            done(None)
        transport.drain()
    assert b"".join(transport.writes) == expected
    assert (sent.count, counters.bytes_out) == (1, len(expected))
    assert all(part.closed == 1 for part in parts if isinstance(part, LatePart))
