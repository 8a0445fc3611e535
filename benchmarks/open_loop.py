"""Builds and runs the compiled generator of requests at fixed times (`open_loop.c`)."""

from __future__ import annotations

import array
import os
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.peers import pin_client
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch
from testing.wire.one_request import LATEST, Wire

if TYPE_CHECKING:
    from benchmarks.peers import Peer

SOURCE: Final = Path(__file__).with_name("open_loop.c")
KINDS: Final = ("produce", "fetch", "end to end", "lateness")
CONNECTIONS: Final = 10
VALUE_BYTES: Final = 100
WAIT_MS: Final = 500
FETCH_BYTES: Final = 1 << 20
END_S: Final = 60
UNANSWERED_S: Final = 10.0
"""The latency that a request without a response counts when the generator ends, at least this long after it was due."""


class Frames(NamedTuple):
    """The bytes that the generator sends, and where it changes them."""

    produce: bytes
    fetch: bytes
    consume: bytes
    batch_at: int
    offset_at: int


def build(folder: Path) -> Path:
    """Compile the generator into `folder`."""
    program = folder / "open_loop"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
    return program


def frames(topic: str) -> Frames:
    batch = sample_batch([Sample(None, b"v" * VALUE_BYTES, T0_MS)])
    produce = raw.request(raw.PRODUCE, 7, raw.produce_body(7, topic, {0: batch}, acks=1))
    assert produce.endswith(batch)
    fetch = raw.request(raw.FETCH, 7, raw.fetch_body(7, [raw.Ask(topic=topic, bytes_max=len(batch))]))
    marked = 0x0102030405060708
    ask = raw.Ask(topic=topic, offset=marked, bytes_max=FETCH_BYTES)
    consume = raw.request(raw.FETCH, 4, raw.fetch_body(4, [ask], wait_ms=WAIT_MS))
    return Frames(produce, fetch, consume, len(produce) - len(batch), consume.index(struct.pack(">q", marked)))


def run(
    program: Path, peer: Peer, topic: str, *, rate: int, seconds: float, connections: int = CONNECTIONS
) -> dict[str, list[float]]:
    """Send `rate` requests in a second, every other a Produce; return seconds by kind. The topic must have a record.

    Produces and Fetches have this many connections each. Raises SubprocessError if the generator fails or does not end.
    """
    host, _, port = peer.bootstrap.rpartition(":")
    wire = Wire(peer.bootstrap)
    first_offset = wire.limit(topic, 0, LATEST)
    wire.close()
    sent = frames(topic)
    command = [program, host, port, rate, seconds, connections, sent.batch_at, sent.offset_at, first_offset]
    done = subprocess.run(
        list(map(str, command)),
        input=sent.produce + sent.fetch + sent.consume,
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=_prepare,
        timeout=seconds + END_S,
    )
    found = array.array("q", done.stdout)
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, nanoseconds in zip(found[0::3], found[2::3], strict=True):
        taken[KINDS[kind]].append(nanoseconds / 1e9 if nanoseconds >= 0 else UNANSWERED_S)
    return taken


def _prepare() -> None:
    pin_client()
    os.setpgid(0, 0)
