"""Measures broker CPU per GB of appended values in large compressed batches, by codec.

    python -m benchmarks.compressed_appends [--kilobytes 200] [--rounds 3] [--seconds 2] [--warm 8] [--only zstd] [--no-kafka]
                                           [--floor] [--before CHECKOUT] [--touch 4] [--override KEY=VALUE]

One connection sends the same request over and over: a Produce of one batch with this many kB of values of 1 kB, of which a codec
takes half away. The brokers take turns, as in `small_requests`. Both look through each batch, and keep it as it came. GB = 1e9
bytes of values before compression. Old segments are deleted soon, because writing tens of GB to a disk takes processor time from
either broker that no codec explains. Before each round, `--touch` GB of free memory are used and given back
(`benchmarks.touched_memory`).

With `--floor` the server of `benchmarks.inflating_server` takes turns with the brokers, with the same bytes: it receives them,
computes the checksum, inflates with the broker's library, writes and responds, and does nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from benchmarks import load, peers, touched_memory
from benchmarks.compaction import values_of
from benchmarks.inflating_server import InflatingServer
from benchmarks.load import Server
from benchmarks.peers import KAFKA
from benchmarks.small_requests import measure
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUE_BYTES = 1000
SHAPE = (1, 4)  # connections, requests under way on each
OVERRIDES = {
    "log.segment.bytes": "50000000", "log.retention.bytes": "100000000", "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "0",
}  # fmt: skip


def batch_of(codec: str, batch_bytes: int) -> bytes:
    """Return a batch with this many bytes of values."""
    values = values_of(VALUE_BYTES)
    samples = [Sample(None, values[number % len(values)], T0_MS) for number in range(batch_bytes // VALUE_BYTES)]
    return sample_batch(samples, codec)


def frame(codec: str, batch: bytes) -> bytes:
    """Return a request that appends the batch to the topic of its codec."""
    return raw.request(raw.PRODUCE, 7, raw.produce_body(7, codec, {0: batch}, acks=1))


@contextmanager
def with_floor(running: list[Server], codec: str, batch: bytes, *, is_wanted: bool) -> Iterator[list[Server]]:
    """Yield the servers that take turns: the brokers, and the floor of this codec if it is wanted."""
    if not is_wanted:
        yield running
        return
    with closing(InflatingServer(codec, frame(codec, batch), batch)) as floor:
        yield [*running, floor]


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--kilobytes", type=int, default=200, help="kB of values in a batch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--only", default="", help="take only this codec")
    parser.add_argument(
        "--floor", action="store_true", help="measure the server of benchmarks.inflating_server in the same rounds"
    )
    touched_memory.add_option(parser)
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of all brokers; repeatable"
    )
    peers.add_before(parser)
    options = peers.parsed(parser)
    batch_bytes = options.kilobytes * 1000
    prepare = partial(touched_memory.touch, options.touch)
    rows: list[tuple[object, ...]] = []
    overrides = OVERRIDES | dict(setting.split("=", 1) for setting in options.override)
    with peers.started(options, overrides) as running:
        names = [*(peer.name for peer in running), *([InflatingServer.name] if options.floor else [])]
        compared = [name for name in names if name != KAFKA] if KAFKA in names else []
        for codec in CODECS:
            if options.only not in codec:
                continue
            batch = batch_of(codec, batch_bytes)
            request = frame(codec, batch)
            for peer in running:
                create_topic(peer.bootstrap, codec)
                with raw.Connection(peer.bootstrap) as connection:
                    assert raw.produce(connection, 7, codec, batch).error == 0
                load.run(peer, request, connections=1, depth=SHAPE[1], seconds=0, warm_s=options.warm)
            with with_floor(list(running), codec, batch, is_wanted=options.floor) as servers:
                measured = measure(servers, dict.fromkeys(names, request), SHAPE, options, prepare)
            costs = {server.name: one.cpu_us * 1000 / batch_bytes for server, one in zip(servers, measured, strict=True)}
            rows.append((codec, *costs.values(), *(costs[name] / costs[KAFKA] for name in compared)))
            peers.row(rows[-1])
    header = ["codec", *(f"{name} CPU-s/GB" for name in names), *(f"{name} / {KAFKA}" for name in compared)]
    peers.table(f"Appends of batches with {options.kilobytes} kB of values", header, rows)


if __name__ == "__main__":
    main()
