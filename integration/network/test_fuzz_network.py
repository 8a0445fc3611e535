"""Many thousands of bad frames over thousands of connections: the broker responds or closes, and serves others as before."""

from __future__ import annotations

import contextlib
import random
import re
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable

from testing.clients.stock import CLIENTS, create_topic
from testing.process.broker import BrokerProcess, external_bootstrap
from testing.process.procstat import memory_bytes, open_files
from testing.samples import T0_MS, Sample, assert_equal, varied
from testing.wire import raw
from testing.wire.batches import sample_batch
from testing.wire.frames import Mutator, served, well_formed
from testing.wire.legacy import message_set

SEED = 20
WARM_UP_FRAMES, FRAMES = 4_000, 12_000
CONNECTIONS = 32
RSS_GROWTH_MAX_BYTES = 24 << 20
QUIET_S_MAX = 0.25  # a request that the broker holds back, such as a fetch whose waiting time was mutated
SETTLE_S_MAX = 30
LAST_ID = 0x7E57ED
# its response shows that the broker is done with everything before it
LAST_REQUEST = raw.request(raw.API_VERSIONS, 0, b"", LAST_ID)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Victim:
    """A connection that sends a few bad frames and a good last request, and watches what comes back."""

    def __init__(self, address: tuple[str, int], mutator: Mutator, rng: random.Random) -> None:
        kind = rng.random()
        self.frames = [mutator.frame() for _ in range(rng.choice([1, 1, 2, 4, 16]))]
        if kind < 0.03:
            self.frames.append(mutator.broken_size())
        self.is_abrupt = kind > 0.95  # leaves without reading
        self.deadline = time.monotonic() + QUIET_S_MAX
        self.response_count = 0
        self._input = b""
        self.socket = socket.socket()
        self.socket.settimeout(10)
        self.socket.connect(address)
        data = b"".join([*self.frames, LAST_REQUEST])
        if self.is_abrupt:
            data = data[: rng.randrange(len(data))]
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        with contextlib.suppress(ConnectionError):  # the broker closed the connection before it had read everything
            self.socket.sendall(data)

    def read(self) -> int | None:
        """Return None while the connection still waits, and otherwise the number of frames that the broker is done with."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            return min(
                self.response_count + 1, len(self.frames)
            )  # the broker closed because of the frame after the last response
        self.deadline = time.monotonic() + QUIET_S_MAX
        self._input += data
        while len(self._input) >= 8:
            size, correlation_id = struct.unpack_from(">ii", self._input)
            if len(self._input) < 4 + size:
                break
            self._input = self._input[4 + size :]
            self.response_count += 1
            if correlation_id == LAST_ID:
                return len(self.frames)
        return None


def attack(address: tuple[str, int], mutator: Mutator, rng: random.Random, count: int) -> None:
    """Send until `count` frames have got a response or have had their connection closed."""
    handled = 0
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as cleanup:
        waiting: deque[Victim] = deque()
        cleanup.callback(lambda: [victim.socket.close() for victim in waiting])

        def drop(victim: Victim) -> None:
            selector.unregister(victim.socket)
            victim.socket.close()
            waiting.remove(victim)

        while handled < count:
            while len(waiting) < CONNECTIONS:
                victim = Victim(address, mutator, rng)
                if victim.is_abrupt:
                    victim.socket.close()
                    continue
                waiting.append(victim)
                selector.register(victim.socket, selectors.EVENT_READ, victim)
            for key, _ in selector.select(0.05):
                dealt_with = key.data.read()
                if dealt_with is not None:
                    handled += dealt_with
                    drop(key.data)
            now = time.monotonic()
            for victim in [v for v in waiting if v.deadline < now]:
                handled += victim.response_count
                drop(victim)


def await_open_files(pid: int, at_most: int) -> int:
    """Return the number of open files once it is down to `at_most`, or when it does not come down in time."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while (count := open_files(pid)) > at_most and time.monotonic() < deadline:
        time.sleep(0.05)  # /proc reports no changes
    return count


def test_bad_frames_neither_stop_the_broker_nor_make_it_grow(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker({"num.partitions": "1", "auto.create.topics.enable": "false"})
    create_topic(broker.bootstrap, "fuzz", 1, {"retention.bytes": "1048576", "segment.bytes": "1048576"})
    few = [Sample(b"k", b"v" * 20, T0_MS)] * 3
    frames = well_formed("fuzz", sample_batch(few), message_set(few, 1))
    with raw.Connection(broker.bootstrap) as connection:
        deep = served(frames, raw.api_versions(connection))
    mutator = Mutator([*deep * (20 * len(frames) // len(deep)), *frames], SEED)  # few that are refused by their header
    rng = random.Random(SEED)
    address = ("127.0.0.1", broker.port)
    files_before = open_files(broker.pid)
    attack(address, mutator, rng, WARM_UP_FRAMES)
    await_open_files(broker.pid, files_before)
    memory_before = memory_bytes(broker.pid)
    attack(address, mutator, rng, FRAMES)
    assert broker.is_running
    files = await_open_files(broker.pid, files_before + 8)  # of the segments that the records among the frames filled
    growth = memory_bytes(broker.pid) - memory_before
    assert files <= files_before + 8
    assert growth < RSS_GROWTH_MAX_BYTES, f"{growth >> 20} MiB more"
    bad_lines = [line for line in broker.log_text.splitlines() if re.search(r"Traceback|\bERROR\b|\bCRITICAL\b", line)]
    assert not bad_lines, bad_lines[:10]
    create_topic(broker.bootstrap, "after")
    samples = varied(50)
    for number, client in enumerate(CLIENTS):
        client.produce(broker.bootstrap, "after", samples)
        assert_equal(client.consume(broker.bootstrap, "after", 50, first_offset=50 * number), samples, first_offset=50 * number)
    broker.stop()


def test_every_well_formed_request_gets_a_response_or_a_refusal(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Send each request alone: its connection gets a response with its correlation id or is closed, but never stays silent."""
    topic = new_topic()
    few = [Sample(b"k", b"v", T0_MS)]
    silent = []
    for frame in well_formed(topic, sample_batch(few), message_set(few, 1)):
        with raw.Connection(bootstrap, timeout_s=10) as connection:
            connection.socket.sendall(struct.pack(">i", len(frame)) + frame)
            try:
                assert connection.receive(1) or external_bootstrap()
            except ConnectionError:
                continue
            except TimeoutError:
                silent.append(struct.unpack_from(">hh", frame))
    assert not silent, f"(api key, version) without a response: {silent}"
