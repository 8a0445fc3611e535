"""The sender against a transport that takes as much as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.network.context import Outgoing
from pybroker.network.counters import ListenerCounters
from pybroker.network.sender import HIGH_WATER_BYTES, MADE_BYTES, PIECE_BYTES, TURN_BYTES, Sender
from pybroker.protocol.parts import Part, SendPart, parts_size


class FakeTransport:
    """Pauses its writer when more than `high` bytes are unsent, as asyncio's do; the test drains it."""

    def __init__(self, high: float = float("inf"), *, is_forgetful: bool = False) -> None:
        self.high = high
        self.is_forgetful = is_forgetful
        self.unsent = 0
        self.limits: list[int] = []
        self.is_paused = False
        self.writes: list[bytes] = []
        self.sender: Sender | None = None

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        data = b"".join(list_of_data)
        self.writes.append(data)
        self.unsent += len(data)
        if not self.is_forgetful:
            self.pause_if_full()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int) -> None:
        self.limits.append(high)
        if self.high != float("inf"):
            self.high = high
        self.pause_if_full()

    def pause_if_full(self) -> None:
        if not self.is_paused and self.unsent > self.high:
            self.is_paused = True
            assert self.sender is not None
            self.sender.pause()

    def drain(self) -> None:
        self.unsent = 0
        if self.is_paused:
            self.is_paused = False
            assert self.sender is not None
            self.sender.resume()


class FakeOwner:
    """Collects what the sender wants done."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.threads: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.errors: list[BaseException] = []
        self.ready = 0

    def run_in_thread(self, function: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.threads.append((function, done))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def output_ready(self) -> None:
        self.ready += 1

    def output_failed(self, error: BaseException) -> None:
        self.errors.append(error)


class Late(SendPart):
    """`size` bytes, made in pieces; may be cold, may lie about its size."""

    def __init__(self, content: bytes, piece_bytes: int = PIECE_BYTES, colds: int = 0, lack: int = 0) -> None:
        self.size = len(content) + lack
        self.content = content
        self.piece_bytes = piece_bytes
        self.colds = colds
        self.position = 0
        self.closed = 0

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        assert not self.closed
        start, self.position = self.position, min(self.position + min(self.piece_bytes, bytes_max), len(self.content))
        return [memoryview(self.content)[start : self.position]] if self.position > start else []

    def cold(self) -> Callable[[], None] | None:
        return self.warm if self.colds else None

    def warm(self) -> None:
        self.colds -= 1

    def close(self) -> None:
        self.closed += 1


class Made(Late):
    """Makes its bytes, a chunk at a time, whatever is asked for."""

    makes_bytes = True

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        return super().pull(self.piece_bytes)


class Sent:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def setting(
    high: float = float("inf"), *, is_forgetful: bool = False
) -> tuple[Sender, FakeTransport, FakeOwner, ListenerCounters]:
    transport, owner, counters = FakeTransport(high, is_forgetful=is_forgetful), FakeOwner(), ListenerCounters("L")
    sender = transport.sender = Sender(transport, owner, counters)
    return sender, transport, owner, counters


def outgoing(parts: list[Part], on_sent: Callable[[], None] | None = None) -> Outgoing:
    return Outgoing(parts, parts_size(parts), on_sent)


def test_small_answers_are_one_write() -> None:
    sender, transport, _, counters = setting()
    for answer in (b"one", b"two", b"three"):
        sender.queue(answer)
    assert transport.writes == []
    sender.flush()
    sender.flush()
    assert transport.writes == [b"onetwothree"]
    assert counters.bytes_out == 11
    assert not sender.is_blocked


def test_header_and_first_views_are_one_write_behind_what_was_added() -> None:
    sender, transport, _, _ = setting()
    sent = Sent()
    part = Late(b"records")
    sender.queue(b"before ")
    sender.stream(outgoing([b"header ", part, b" trailer"], sent))
    assert transport.writes == [b"before header records trailer"]
    assert (sent.count, part.closed, sender.is_blocked) == (1, 1, False)


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_the_next_piece_is_pulled_only_when_the_transport_can_take_it(is_forgetful: bool) -> None:
    sender, transport, owner, counters = setting(high=64 * 1024, is_forgetful=is_forgetful)
    sent = Sent()
    size = 5 * PIECE_BYTES // 2
    part = Late(b"x" * size)
    sender.stream(outgoing([b"h" * 10, part], sent))
    for write in (1, 2):
        assert len(transport.writes) == write
        assert transport.unsent == PIECE_BYTES, "what a peer that never reads can make us hold"
        assert (sender.is_blocked, part.closed, sent.count, owner.ready) == (True, 0, 0, 0)
        transport.drain()
    assert (part.closed, sent.count, sender.is_blocked) == (1, 0, True), "the last bytes are above the high water mark"
    transport.drain()
    assert (sent.count, sender.is_blocked, owner.ready) == (1, False, 1)
    assert b"".join(transport.writes) == b"h" * 10 + b"x" * size
    assert counters.bytes_out == size + 10


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_bytes_that_are_made_are_made_only_when_none_made_before_are_left(is_forgetful: bool) -> None:
    sender, transport, owner, _ = setting(high=HIGH_WATER_BYTES, is_forgetful=is_forgetful)
    sent, chunk = Sent(), MADE_BYTES
    part = Made(b"x" * (3 * chunk - 5), chunk)
    sender.stream(outgoing([b"header", part, Late(b"view")], sent))
    assert transport.writes == [b"header" + bytes(b"x" * chunk)]
    transport.unsent = 1  # below every mark but the one that counts
    sender._continue()
    assert len(transport.writes) == 1
    transport.drain()
    assert len(transport.writes) == 2
    transport.drain()
    assert b"".join(transport.writes) == b"header" + part.content + b"view"
    assert transport.limits[-1] == HIGH_WATER_BYTES, "small answers behind it do not wait for each other"
    transport.drain()
    assert (sent.count, part.closed, owner.ready, sender.is_blocked) == (1, 1, 1, False)


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
    sender.stream(outgoing([Late(bytes(TURN_BYTES + 5))]))
    assert sum(map(len, transport.writes)) == TURN_BYTES
    assert sender.is_blocked
    (go_on,) = owner.soon
    go_on()
    assert sum(map(len, transport.writes)) == TURN_BYTES + 5
    assert (sender.is_blocked, owner.ready) == (False, 1)


def test_a_cold_part_is_read_in_a_thread_first_and_what_comes_before_it_is_not_held_up() -> None:
    sender, transport, owner, _ = setting()
    sender.stream(outgoing([b"header", Late(b"warm"), Late(b"cold", colds=1), b"end"]))
    assert transport.writes == [b"headerwarm"]
    assert sender.is_blocked
    ((function, done),) = owner.threads
    function()
    done(None)
    assert transport.writes == [b"headerwarm", b"coldend"]
    assert (sender.is_blocked, owner.ready) == (False, 1)


def test_a_lost_connection_closes_the_parts_that_are_left_and_tells_once() -> None:
    sender, transport, _, _ = setting(high=0)
    sent = Sent()
    done, half, untouched = Late(b"a" * PIECE_BYTES), Late(b"b" * PIECE_BYTES * 2), Late(b"c")
    sender.stream(outgoing([done, half, untouched], sent))
    transport.drain()
    sender.close()
    sender.close()
    assert [part.closed for part in (done, half, untouched)] == [1, 1, 1]
    assert sent.count == 1
    assert sender.is_blocked


def test_a_part_in_a_thread_is_closed_when_the_thread_is_done_with_it() -> None:
    sender, _, owner, _ = setting()
    part, sent = Late(b"cold", colds=1), Sent()
    sender.stream(outgoing([part], sent))
    sender.close()
    assert part.closed == 0
    ((_, done),) = owner.threads
    done(None)
    assert (part.closed, sent.count, owner.ready) == (1, 1, 0)


@pytest.mark.parametrize("late", [Late(b"abc", lack=1), Late(b"abc", lack=-1)], ids=["less", "more"])
def test_a_part_that_does_not_keep_to_its_size_ends_the_connection(late: Late) -> None:
    sender, _, owner, _ = setting()
    sender.stream(outgoing([late]))
    (error,) = owner.errors
    assert "Late gave" in str(error)


def test_an_error_of_the_reading_thread_ends_the_connection() -> None:
    sender, _, owner, _ = setting()
    sender.stream(outgoing([Late(b"cold", colds=1)]))
    ((_, done),) = owner.threads
    error = OSError("disk")
    done(error)
    assert owner.errors == [error]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=50),
            *(st.builds(kind, st.binary(max_size=200), st.integers(1, 70), st.integers(0, 1)) for kind in (Late, Made)),
        ),
        max_size=10,
    ),
    st.sampled_from([0, 20, 10_000]),
)
def test_whatever_the_parts_all_bytes_go_out_in_order(parts: list[Part], high: int) -> None:
    expected = b"".join(part.content if isinstance(part, Late) else bytes(part) for part in parts)  # type: ignore[arg-type]  # no other kind
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
    assert all(part.closed == 1 for part in parts if isinstance(part, Late))
