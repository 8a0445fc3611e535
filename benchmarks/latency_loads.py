"""The loads beside which requests are measured. Each is a process off the broker's core, which runs until it is ended."""

from __future__ import annotations

import multiprocessing
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import zstandard

from benchmarks.peers import pin_client
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

DEPTH: Final = 256
BULK_BATCH_BYTES: Final = 200_000
BULK_BYTES_PER_S: Final = 50_000_000
COMPACTED_BYTES_PER_S: Final = 5_000_000
BOMB_RECORDS: Final = 1_000_000
BOMB_INTERVAL_S: Final = 0.3
END_S: Final = 10
_HEADER: Final = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_REST: Final = struct.Struct(">hiqqqhii")


def nothing(bootstrap: str) -> None:
    """Send nothing, until the process is ended."""
    del bootstrap
    time.sleep(1e6)


def pipeline(bootstrap: str) -> None:
    """Keep 256 Produce requests of one record under way on one connection."""
    frame = _produce("pipelined", sample_batch([Sample(None, b"v" * 100, T0_MS)]))
    create_topic(bootstrap, "pipelined", 1)
    with _connected(bootstrap) as connection:
        connection.sendall(frame * DEPTH)
        while True:
            _response(connection)
            connection.sendall(frame)


def bulk(bootstrap: str) -> None:
    """Produce 50 MB/s of lz4 batches that hold 200 kB each."""
    draw = random.Random(1)
    samples = [Sample(None, draw.randbytes(500) + bytes(500), T0_MS) for _ in range(BULK_BATCH_BYTES // 1000)]
    create_topic(bootstrap, "bulk", 1, {"retention.bytes": str(1 << 28), "segment.bytes": str(1 << 26)})
    _paced(bootstrap, [_produce("bulk", sample_batch(samples, "lz4"))], BULK_BATCH_BYTES / BULK_BYTES_PER_S)


def compaction(bootstrap: str) -> None:
    """Produce 5 MB/s into a compacted topic, which the cleaner compacts all the time."""
    draw = random.Random(2)
    configs = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    create_topic(bootstrap, "compacted", 1, configs)
    batches = [[Sample(b"%d" % draw.randrange(20_000), draw.randbytes(100), T0_MS) for _ in range(150)] for _ in range(200)]
    frames = [_produce("compacted", sample_batch(samples)) for samples in batches]
    _paced(bootstrap, frames, sum(map(len, frames)) / len(frames) / COMPACTED_BYTES_PER_S)


def bomb(bootstrap: str) -> None:
    """Produce a batch of a million identical records, which a broker has to renumber or to refuse, every 0.3 s."""
    record = bytes([14, 0, 0, 0, 1, 2, ord("v"), 0])  # no key; the deltas of all records are 0
    payload = zstandard.ZstdCompressor().compress(record * BOMB_RECORDS)
    create_topic(bootstrap, "bombed", 1)
    _paced(bootstrap, [_produce("bombed", _zstd_batch(payload, BOMB_RECORDS))], BOMB_INTERVAL_S)


LOADS: Final[dict[str, Callable[[str], None]]] = {
    "alone": nothing, "pipeline": pipeline, "bulk": bulk, "compaction": compaction, "bomb": bomb,
}  # fmt: skip


@contextmanager
def running(name: str, bootstrap: str, settle_s: float) -> Iterator[None]:
    """Run a load around the block, which begins `settle_s` after it. Raises RuntimeError if the load has ended by itself."""
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(name, bootstrap), daemon=True)
    process.start()
    try:
        time.sleep(settle_s)
        yield
        if not process.is_alive():
            raise RuntimeError(f"the load {name!r} ended with code {process.exitcode}")
    finally:
        process.terminate()
        process.join(END_S)


def _run(name: str, bootstrap: str) -> None:
    pin_client()
    LOADS[name](bootstrap)


def _produce(topic: str, batch: bytes) -> bytes:
    return raw.request(raw.PRODUCE, 7, raw.produce_body(7, topic, {0: batch}, acks=1))


def _zstd_batch(payload: bytes, count: int) -> bytes:
    body = _REST.pack(4, count - 1, T0_MS, T0_MS, -1, -1, -1, count) + payload
    return _HEADER.pack(0, 9 + len(body), -1, 2) + struct.pack(">I", _crc32c(body)) + body


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@contextmanager
def _connected(bootstrap: str) -> Iterator[socket.socket]:
    with raw.Connection(bootstrap, 120) as connection:
        yield connection.socket


def _response(connection: socket.socket) -> None:
    wanted = 4
    data = b""
    while len(data) < wanted:
        piece = connection.recv(wanted - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection of a load")
        data += piece
        if wanted == 4 == len(data):
            wanted += struct.unpack(">i", data)[0]


def _paced(bootstrap: str, frames: list[bytes], interval_s: float) -> None:
    """Send the frames in turn at fixed times, one after the other; a broker that is late gets the next one at once."""
    due = time.monotonic()
    with _connected(bootstrap) as connection:
        while True:
            for frame in frames:
                time.sleep(max(0.0, due - time.monotonic()))
                connection.sendall(frame)
                _response(connection)
                due = max(due + interval_s, time.monotonic() - interval_s)
