"""Sends requests at fixed times, whatever the broker does, and measures each response from the time when its request was due.

A client that waits for each response before it sends the next request hides a stall: it sends nothing while the broker stands
still. Here the requests that were due during a stall all count, each with its own time. The probe is a process of its own.
"""

from __future__ import annotations

import gc
import multiprocessing
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple

from benchmarks.peers import pin_client

RECEIVE_BYTES = 1 << 16
START_TIMEOUT_S = 60
GRACE_S = 10
Taken = list[tuple[float, float]]
"""When each request was due (`time.monotonic`), and how many seconds later its response was whole."""


class Times(NamedTuple):
    """The times that requests took."""

    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    requests: int


def times(taken: list[float]) -> Times:
    """Return the percentiles of seconds, in ms."""
    if not taken:
        return Times(float("nan"), float("nan"), float("nan"), float("nan"), 0)
    ordered = sorted(taken)

    def at(part: float) -> float:
        return 1000 * ordered[min(int(len(ordered) * part), len(ordered) - 1)]

    return Times(at(0.5), at(0.99), at(0.999), at(1), len(ordered))


class Probe:
    """The process, which runs inside of `with`; each frame is sent on a connection of its own, `interval_s` apart."""

    def __init__(self, bootstrap: str, frames: Mapping[str, bytes], interval_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(bootstrap, dict(frames), interval_s, theirs), daemon=True)
        self._taken: dict[str, Taken] = {}

    def __enter__(self) -> Probe:
        self._process.start()
        if not self._ours.poll(START_TIMEOUT_S):
            raise TimeoutError("the probe did not start")
        self._ours.recv()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ours.send("end")
        if kind is None:
            if not self._ours.poll(START_TIMEOUT_S):
                raise TimeoutError("the probe did not end")
            self._taken = self._ours.recv()
        self._process.join(GRACE_S)

    def between(self, name: str, begin: float, end: float) -> list[float]:
        """Return the seconds of the requests that were due in [begin, end); after the block only."""
        return [seconds for due, seconds in self._taken[name] if begin <= due < end]


class _Stream:
    """A connection on which one frame is sent again and again."""

    def __init__(self, bootstrap: str, frame: bytes, due: float) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = due
        self.taken: Taken = []
        self.under_way: deque[float] = deque()
        self._frame, self._received = frame, b""

    def send(self, interval_s: float) -> None:
        self.under_way.append(self.due)
        self.due += interval_s
        self.socket.sendall(self._frame)

    def receive(self) -> None:
        piece = self.socket.recv(RECEIVE_BYTES)
        if not piece:
            raise ConnectionError("the broker closed a probe's connection")
        self._received += piece
        now = time.monotonic()
        while len(self._received) >= 4:
            end = 4 + struct.unpack_from(">i", self._received)[0]
            if len(self._received) < end:
                return
            self._received = self._received[end:]
            due = self.under_way.popleft()
            self.taken.append((due, now - due))


def _run(bootstrap: str, frames: dict[str, bytes], interval_s: float, control: Connection) -> None:
    """Send and receive until the other end sends something, and then until the last response is there."""
    pin_client()
    gc.disable()
    began = time.monotonic() + 0.05
    streams = {
        name: _Stream(bootstrap, frame, began + number * interval_s / len(frames))
        for number, (name, frame) in enumerate(frames.items())
    }
    by_socket = {one.socket: one for one in streams.values()}
    control.send("running")
    end: float | None = None
    while end is None or (any(one.under_way for one in streams.values()) and time.monotonic() < end):
        due = min(one.due for one in streams.values())
        wait_s = max(0.0, due - time.monotonic()) if end is None else 0.1
        watched: list[socket.socket | Connection] = [*by_socket, control]
        readable, _, _ = select.select(watched, [], [], wait_s)
        for one in readable:
            if isinstance(one, socket.socket):
                by_socket[one].receive()
            else:
                control.recv()
                end = time.monotonic() + GRACE_S
        if end is None:
            now = time.monotonic()
            for stream in streams.values():
                while stream.due <= now:
                    stream.send(interval_s)
    late = {name: [(due, time.monotonic() - due) for due in one.under_way] for name, one in streams.items()}
    control.send({name: one.taken + late[name] for name, one in streams.items()})
