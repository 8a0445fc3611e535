"""Frames over a pair of sockets: what is sent, what is received, and what happens when the other side does something else."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.client.errors import ClosedError, ProtocolError, SilentError
from pybroker.client.frames import Frames, Reader

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.05)
        yield ours, theirs


def frames_of(connected: socket.socket, **of: Any) -> Frames:
    return Frames(connected, address="kafka:9092", client_id="me", **of)


def test_a_request_has_a_header_and_its_response_none(pair: Pair) -> None:
    ours, theirs = pair
    frames = frames_of(ours)
    for number in (1, 2):
        theirs.sendall(struct.pack(">ii", 7, number) + b"abc")
        assert frames.ask(18, version=0, body=b"body") == b"abc"
        assert theirs.recv(100) == struct.pack(">ihhih", 16, 18, 0, number, 2) + b"me" + b"body"


def test_many_parts_are_sent_in_order(pair: Pair) -> None:
    ours, theirs = pair
    frames_of(ours).send([b"", *(b"%d," % number for number in range(200))])
    assert theirs.recv(1000) == b"".join(b"%d," % number for number in range(200))


def test_a_response_that_comes_in_pieces_is_whole_and_writable(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(struct.pack(">i", 100_000) + bytes(100_000))
    view = frames_of(ours).receive()
    assert (bytes(view), view.readonly) == (bytes(100_000), False)


@pytest.mark.parametrize("head", [b"HTTP", struct.pack(">i", -1), struct.pack(">i", 0)])
def test_a_size_that_no_frame_has_is_another_protocol(pair: Pair, head: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(head)
    with pytest.raises(ProtocolError, match=r"^the server does not speak Kafka's protocol$") as raised:
        frames_of(ours).receive()
    assert (raised.value.received, raised.value.text) == (head, "the server at kafka:9092 does not speak Kafka's protocol")


def test_the_longest_frame_can_be_bounded(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"\x15\x03\x01\x00\x02")
    with pytest.raises(ProtocolError) as raised:
        frames_of(ours, frame_bytes_max=100 << 20).receive()
    assert raised.value.received == b"\x15\x03\x01\x00"


def test_a_closed_connection_is_an_error_with_the_bytes_that_came(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"\0\0")
    theirs.close()
    frames = frames_of(ours)
    with pytest.raises(ClosedError, match=r"^the broker closed the connection$") as raised:
        frames.receive()
    assert (raised.value.received, raised.value.text) == (b"\0\0", "the broker at kafka:9092 closed the connection")
    with pytest.raises(ClosedError, match=r"^Broken pipe$") as raised:
        frames.send([b"more"])
    assert raised.value.text == "the connection to kafka:9092 broke: Broken pipe"


@pytest.mark.parametrize("of", [{}, {"response_s": 0.05}])
def test_a_response_that_does_not_end_is_given_up(pair: Pair, of: dict[str, float]) -> None:
    ours, theirs = pair
    frames = frames_of(ours, **of)
    frames.send([b"request"])
    theirs.sendall(b"\0\0\0\7a")
    with pytest.raises(SilentError) as raised:
        frames.receive()
    assert raised.value.text == "the connection to kafka:9092 broke: no response in time"


class Slow:
    """A socket that gives one byte each second, by a clock of its own."""

    def __init__(self) -> None:
        self.now, self.timeout_s = 0.0, 0.0

    def settimeout(self, seconds: float) -> None:
        self.timeout_s = seconds

    def sendmsg(self, views: list[memoryview]) -> int:
        return len(views[0])

    def recv_into(self, view: memoryview) -> int:
        self.now += min(1.0, self.timeout_s)
        view[0] = 1
        return 1


def test_the_time_of_a_response_does_not_begin_again_with_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: Any = Slow()
    monkeypatch.setattr("time.monotonic", lambda: slow.now)
    frames = frames_of(slow, response_s=5.0)
    frames.send([b"request"])
    with pytest.raises(SilentError):
        frames.receive()
    assert (slow.now, slow.timeout_s) == (5.0, 1.0)


def test_a_reader_reads_from_front_to_back() -> None:
    reader = Reader(struct.pack(">hih2sh", 1, 2, 2, b"ab", -1) + b"\7rest")
    assert (reader.int16(), reader.int32(), reader.string(), reader.string()) == (1, 2, "ab", None)
    assert (reader.byte(), reader.take(4)) == (7, b"rest")
    with pytest.raises(struct.error):
        reader.int16()
