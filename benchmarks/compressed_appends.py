"""Measures broker CPU per GB of appended values in large compressed batches, by codec.

    python -m benchmarks.compressed_appends [--kilobytes 200] [--rounds 3] [--seconds 2] [--warm 8] [--only zstd] [--no-kafka]
                                           [--before CHECKOUT]

One connection sends the same request over and over: a Produce of one batch with this many kB of values of 1 kB, of which a codec
takes half away. The brokers take turns, as in `small_requests`. Both look through each batch, and keep it as it came. GB = 1e9
bytes of values before compression. Old segments are deleted soon, because writing tens of GB to a disk takes processor time from
either broker that no codec explains.
"""

from __future__ import annotations

from benchmarks import load, peers
from benchmarks.compaction import values_of
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


def frame(bootstrap: str, codec: str, batch_bytes: int) -> bytes:
    """Return a request that appends one batch, and make its topic."""
    values = values_of(VALUE_BYTES)
    samples = [Sample(None, values[number % len(values)], T0_MS) for number in range(batch_bytes // VALUE_BYTES)]
    create_topic(bootstrap, codec)
    with raw.Connection(bootstrap) as connection:
        batch = sample_batch(samples, codec)
        assert raw.produce(connection, 7, codec, batch).error == 0
    return raw.request(raw.PRODUCE, 7, raw.produce_body(7, codec, {0: batch}, acks=1))


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--kilobytes", type=int, default=200, help="kB of values in a batch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--only", default="", help="take only this codec")
    peers.add_before(parser)
    options = peers.parsed(parser)
    batch_bytes = options.kilobytes * 1000
    rows = []
    with peers.started(options, OVERRIDES) as running:
        for codec in CODECS:
            if options.only in codec:
                frames = {peer.name: frame(peer.bootstrap, codec, batch_bytes) for peer in running}
                for peer in running:
                    load.run(peer, frames[peer.name], connections=1, depth=SHAPE[1], seconds=0, warm_s=options.warm)
                costs = [one.cpu_us * 1000 / batch_bytes for one in measure(running, frames, SHAPE, options)]
                rows.append((codec, *costs, *([costs[0] / costs[1]] if len(costs) == 2 else [])))
                peers.row(rows[-1])
    ratio = [f"ratio of CPU, {running[0].name} / {running[1].name}"] if len(running) == 2 else []
    header = ["codec", *(f"{peer.name} CPU-s/GB" for peer in running), *ratio]
    peers.table(f"Appends of batches with {options.kilobytes} kB of values", header, rows)


if __name__ == "__main__":
    main()
