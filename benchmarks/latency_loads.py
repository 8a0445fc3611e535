"""The loads beside which requests are measured. Each is a process off the broker's core, which runs until it is ended.

A load uses topics of its own, which are deleted after it, and reports when it is under way.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

import confluent_kafka

from benchmarks.batches import identical_records
from benchmarks.group_members import ClassicMember, Fellowship
from benchmarks.peers import pin_client
from testing.clients.stock import create_topic, delete_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw, raw_groups
from testing.wire.batches import sample_batch

DEPTH: Final = 256
BULK_BATCH_BYTES: Final = 200_000
BULK_BYTES_PER_S: Final = 50_000_000
COMPACTED_BYTES_PER_S: Final = 5_000_000
BOMB_RECORDS: Final = 1_000_000
BOMB_INTERVAL_S: Final = 0.3
MEMBERS: Final = 500
BEAT_S: Final = 0.5
BEGIN_S: Final = 60
POLL_S: Final = 0.1
END_S: Final = 10
RECEIVE_BYTES: Final = 1 << 18


class Place(NamedTuple):
    """Where a load runs: its broker, a name for its topic or group, and what to call when it is under way."""

    bootstrap: str
    name: str
    is_under_way: Callable[[], None]


def nothing(place: Place) -> None:
    """Send nothing, until the process is ended."""
    place.is_under_way()
    time.sleep(1e6)


def pipeline(place: Place) -> None:
    """Keep 256 Produce requests of one record under way on one connection."""
    frame = _produce(place.name, sample_batch([Sample(None, b"v" * 100, T0_MS)]))
    create_topic(place.bootstrap, place.name, 1)
    with _connected(place.bootstrap) as connection:
        connection.sendall(frame * DEPTH)
        place.is_under_way()
        while True:
            connection.sendall(frame * _responses(connection))


def bulk(place: Place) -> None:
    """Produce 50 MB/s of lz4 batches that hold 200 kB each."""
    draw = random.Random(1)
    samples = [Sample(None, draw.randbytes(500) + bytes(500), T0_MS) for _ in range(BULK_BATCH_BYTES // 1000)]
    create_topic(place.bootstrap, place.name, 1, {"segment.bytes": str(1 << 26)})
    _paced(place, [_produce(place.name, sample_batch(samples, "lz4"))], BULK_BATCH_BYTES / BULK_BYTES_PER_S)


def group(place: Place) -> None:
    """Let 500 members join a new group, and leave it, again and again."""
    raw_groups.find_coordinator(place.bootstrap, place.name)
    for number in itertools.count():
        asyncio.run(_join_and_leave(place, f"{place.name}-{number}"))
        place.is_under_way()


async def _join_and_leave(place: Place, name: str) -> None:
    fellowship = Fellowship(place.name, MEMBERS)
    members = [ClassicMember(fellowship, place.bootstrap, name, number, beat_s=BEAT_S) for number in range(MEMBERS)]
    for member in members:
        await member.connect()
    for member in members:
        member.start()
    await fellowship.rest(members)
    for member in members:
        await member.leave()


def compaction(place: Place) -> None:
    """Produce 5 MB/s into a compacted topic, which the cleaner compacts all the time."""
    draw = random.Random(2)
    configs = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    create_topic(place.bootstrap, place.name, 1, configs)
    batches = [[Sample(b"%d" % draw.randrange(20_000), draw.randbytes(100), T0_MS) for _ in range(150)] for _ in range(200)]
    frames = [_produce(place.name, sample_batch(samples)) for samples in batches]
    _paced(place, frames, sum(map(len, frames)) / len(frames) / COMPACTED_BYTES_PER_S)


def bomb(place: Place) -> None:
    """Produce a batch of a million identical records, which a broker has to renumber or to refuse, every 0.3 s."""
    create_topic(place.bootstrap, place.name, 1)
    _paced(place, [_produce(place.name, identical_records(BOMB_RECORDS))], BOMB_INTERVAL_S)


LOADS: Final[dict[str, Callable[[Place], None]]] = {
    "alone": nothing, "pipeline": pipeline, "bulk": bulk, "group": group, "compaction": compaction, "bomb": bomb,
}  # fmt: skip
WITH_TOPIC: Final = frozenset(LOADS) - {"alone", "group"}
_numbers = itertools.count()


@contextmanager
def running(load: str, bootstrap: str, settle_s: float) -> Iterator[None]:
    """Run a load around the block, which begins `settle_s` after the load is under way.

    Raises RuntimeError if the load is not under way in time, or has ended by itself.
    """
    spawn = multiprocessing.get_context("spawn")
    name, event = f"{load}-{next(_numbers)}", spawn.Event()
    process = spawn.Process(target=_run, args=(load, bootstrap, name, event), daemon=True)
    process.start()
    try:
        begun_by = time.monotonic() + BEGIN_S
        while not event.wait(POLL_S) and process.is_alive() and time.monotonic() < begun_by:
            pass
        if not event.is_set():
            raise RuntimeError(f"the load {load!r} did not begin; exit code {process.exitcode}")
        time.sleep(settle_s)
        yield
        if not process.is_alive():
            raise RuntimeError(f"the load {load!r} ended with code {process.exitcode}")
    finally:
        process.terminate()
        process.join(END_S)
        if load in WITH_TOPIC:
            with suppress(confluent_kafka.KafkaException):  # the load did not come as far as creating it
                delete_topic(bootstrap, name)


def _run(load: str, bootstrap: str, name: str, event: Event) -> None:
    pin_client()
    LOADS[load](Place(bootstrap, name, event.set))


def _produce(topic: str, batch: bytes) -> bytes:
    return raw.request(raw.PRODUCE, 7, raw.produce_body(7, topic, {0: batch}, acks=1))


@contextmanager
def _connected(bootstrap: str) -> Iterator[socket.socket]:
    with raw.Connection(bootstrap, 120) as connection:
        yield connection.socket


def _responses(connection: socket.socket) -> int:
    """Read until no response is cut, and return their number, which is not 0."""
    data, count = b"", 0
    while data or not count:
        piece = connection.recv(RECEIVE_BYTES)
        if not piece:
            raise ConnectionError("the broker closed the connection of a load")
        data += piece
        while len(data) >= 4 and len(data) >= (size := 4 + struct.unpack_from(">i", data)[0]):
            data = data[size:]
            count += 1
    return count


def _paced(place: Place, frames: list[bytes], interval_s: float) -> None:
    """Send the frames in turn at fixed times, one after the other; a broker that is late gets the next one at once."""
    due = time.monotonic()
    with _connected(place.bootstrap) as connection:
        while True:
            for frame in frames:
                time.sleep(max(0.0, due - time.monotonic()))
                connection.sendall(frame)
                _responses(connection)
                due = max(due + interval_s, time.monotonic() - interval_s)
            place.is_under_way()
