"""Counts instructions of the broker per request, by valgrind: the same on a busy machine as on a quiet one.

    python -m benchmarks.instructions [--only produce] [--requests 400] [--without NAME ...] [--served]

The broker runs in callgrind, which counts what its process executes outside of the kernel. After a warm-up without counting, a
generator sends the very same request over and over on some connections and waits for all responses before the next turn, so that
with several connections all of them have a request under way when the broker looks. The figure is what a turn of `--requests`
costs, divided. Runs of one build differ by less than one in a hundred.

On a machine that has more to do than cores, a turn takes so long that the broker's work of each second counts, too. `--served`
leaves that out: it counts only what uvloop does for sockets that are ready and for `call_soon`.

`--without` takes special cases away by their names (see `--help`), so that each can be measured alone.
"""

from __future__ import annotations

import argparse
import re
import socket
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from benchmarks import build, fetching, groups, peers, without
from benchmarks.peers import OURS, Peer
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

ONE, MANY = "one", "many"
PARTITIONS = 12
SHAPES = ((1, 1), (50, 1), (50, 16))  # connections, requests under way on each
WARM_TURNS = 8
SERVING = ("uv__stream_io", "uv__run_idle")  # libuv's functions for sockets that are ready, and for `call_soon`
RECORDS = [Sample(None, b"v" * 1000, T0_MS)] * 16  # a full batch
SLOWNESS = 10_000  # more than the broker takes longer in valgrind, on a machine that has others to serve
BATCHED_SHARE = 10  # of the requests with full batches fewer are enough
START = f"""
import runpy
from contextlib import suppress
from importlib import import_module
turns = [(folder + part, name) for folder in ("", "sharing.")  # older revisions have them in another folder
         for part, name in (("turns.rounds", "BUDGET_NS"), ("turns._watch_python", "MARK_NS"))]
for place, name in (*turns, ("sharing.work", "SLICE_S")):
    with suppress(ModuleNotFoundError, AttributeError):  # older revisions have none of them
        module = import_module("pybroker." + place)
        setattr(module, name, getattr(module, name) * {SLOWNESS})
for folder in ("", "sharing."):
    with suppress(ModuleNotFoundError):
        made = import_module("pybroker." + folder + "turns.watchdog").Watchdog.__init__
        made.__defaults__ = (made.__defaults__[0] * {SLOWNESS}, *made.__defaults__[1:])
runpy.run_module("{{module}}", run_name="__main__", alter_sys=True)
"""
"""Starts the broker with longer slices and bounds, and a longer budget for each round of the loop: otherwise a round in valgrind
would have one turn, a request of a millisecond would not end within its slice, and what that costs would seem to be the cost of a
request. So the ends of rounds do not count; with MARK_NS there is one for some 140 small requests.
"""


class CountedPeer(Peer):
    """Our broker in callgrind, which counts only between two commands."""

    def __init__(self, folder: Path, taken_away: list[str], *, checkout: Path | None = None) -> None:
        super().__init__(OURS, folder, checkout=checkout)
        self._folder, self._taken_away = folder, taken_away

    def _command(self, port: int, overrides: list[str]) -> list[str]:  # type: ignore[override]
        _, _, module, *arguments = super()._command(port, overrides)
        if self._taken_away:
            module, arguments = "benchmarks.without", [",".join(self._taken_away), *arguments]
        counter = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self._folder}/counts"]
        return [*counter, "--", sys.executable, "-c", START.format(module=module), *arguments]

    def send(self, command: str) -> None:
        subprocess.run(["vgdb", f"--pid={self.pid}", *command.split()], check=True, capture_output=True)

    def counted(self, *, only_served: bool = False) -> int:
        """Return the instructions since the last `zero`, or of those what requests have caused at once."""
        self.send("dump")
        newest = max(self._folder.glob("counts.*"), key=lambda path: int(path.name.rpartition(".")[2]))
        if only_served:
            command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(newest)]
            annotated = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            counts = [re.search(rf"(?m)^ *([\d,]+) .*:{name}(?: |$)", annotated) for name in SERVING]
            return sum(int(one[1].replace(",", "")) for one in counts if one is not None)
        found = re.search(r"^(?:totals|summary): (\d+)", newest.read_text(errors="replace"), re.MULTILINE)
        assert found is not None, newest
        return int(found[1])


def frames(bootstrap: str) -> dict[str, tuple[bytes, int]]:
    """Return requests by what they ask for, and how many times fewer of each are enough; write what they will fetch."""
    record = sample_batch([Sample(None, b"v" * 100, T0_MS)])
    full = sample_batch(RECORDS)
    create_topic(bootstrap, ONE)
    create_topic(bootstrap, MANY, PARTITIONS)
    for topic, partitions, data in ((f"{ONE}-read", 1, record), (f"{MANY}-read", PARTITIONS, full)):
        create_topic(bootstrap, topic, partitions)
        with raw.Connection(bootstrap) as connection:
            for partition in range(partitions):
                assert raw.produce(connection, 7, topic, data, partition=partition).error == 0
    create_topic(bootstrap, f"{ONE}-full")
    fetching.fill(bootstrap, f"{ONE}-full", partitions=1, records=2_000, size=1000)
    everywhere, much = dict.fromkeys(range(PARTITIONS), full), raw.Ask(topic=f"{ONE}-full", bytes_max=1 << 20)
    one, end = raw.Ask(topic=f"{ONE}-read"), raw.Ask(topic=f"{ONE}-read", offset=1)
    ends = [raw.Ask(topic=f"{MANY}-read", partition=partition, offset=len(RECORDS)) for partition in range(PARTITIONS)]
    many = [raw.Ask(topic=f"{MANY}-read", partition=partition) for partition in range(PARTITIONS)]
    asked = struct.pack(">i", 1) + raw.string(MANY)
    return {
        "ApiVersions v0": (raw.request(raw.API_VERSIONS, 0, b""), 1),
        "Metadata v1, 12 partitions": (raw.request(raw.METADATA, 1, asked), 1),
        "Produce v7, one record": (raw.request(raw.PRODUCE, 7, raw.produce_body(7, ONE, {0: record}, acks=1)), 1),
        "Produce v7, acks=all": (raw.request(raw.PRODUCE, 7, raw.produce_body(7, ONE, {0: record}, acks=-1)), 1),
        "Fetch v11, one record": (raw.request(raw.FETCH, 11, raw.fetch_body(11, [one])), 1),
        "Fetch v3, one record": (raw.request(raw.FETCH, 3, raw.fetch_body(3, [one])), 1),
        "Fetch v11, at the end": (raw.request(raw.FETCH, 11, raw.fetch_body(11, [end])), 1),
        "Fetch v11, at 12 ends": (raw.request(raw.FETCH, 11, raw.fetch_body(11, ends)), 1),
        "Produce v7, 12 x 16 kB": (raw.request(raw.PRODUCE, 7, raw.produce_body(7, MANY, everywhere, acks=1)), BATCHED_SHARE),
        "Fetch v11, 12 x 16 kB": (raw.request(raw.FETCH, 11, raw.fetch_body(11, many)), BATCHED_SHARE),
        "Fetch v3, 12 x 16 kB": (raw.request(raw.FETCH, 3, raw.fetch_body(3, many)), BATCHED_SHARE),
        "Fetch v2, 12 x 16 kB": (raw.request(raw.FETCH, 2, raw.fetch_body(2, many)), BATCHED_SHARE),
        "Fetch v3, 1 MB": (raw.request(raw.FETCH, 3, raw.fetch_body(3, [much])), BATCHED_SHARE),
    } | {name: (frame, 1) for name, frame in groups.frames(bootstrap).items()}


class Generator:
    """Connections that all send the same frame, and count responses by their size, which is always the same."""

    def __init__(self, bootstrap: str, frame: bytes, connections: int, depth: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._frame, self._depth = frame, depth
        self._sockets = [socket.create_connection((host, int(port)), 60) for _ in range(connections)]
        self.turn_requests = connections * depth
        self._response_bytes = 0

    def turn(self) -> None:
        for one in self._sockets:
            one.sendall(self._frame * self._depth)
        for one in self._sockets:
            self._receive(one)

    def _receive(self, one: socket.socket) -> None:
        if not self._response_bytes:
            prefix = one.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)
            self._response_bytes = 4 + int(struct.unpack(">i", prefix)[0])
        left = self._response_bytes * self._depth
        while left:
            received = len(one.recv(min(left, 1 << 20)))
            if not received:
                raise ConnectionError("the broker closed a connection")
            left -= received

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def count(peer: CountedPeer, frame: bytes, shape: tuple[int, int], requests: int, *, only_served: bool) -> float:
    """Return the instructions per request."""
    with closing(Generator(peer.bootstrap, frame, *shape)) as generator:
        for _ in range(WARM_TURNS):
            generator.turn()
        turns = max(2, -(-requests // generator.turn_requests))
        peer.send("instrumentation on")
        generator.turn()
        peer.send("zero")
        for _ in range(turns):
            generator.turn()
        counted = peer.counted(only_served=only_served)
        peer.send("instrumentation off")
    return counted / (turns * generator.turn_requests)


def main() -> None:
    named = "".join(f"\n    {name:24}{about}" for name, (about, _) in without.CASES.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nspecial cases:{named}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--requests", type=int, default=400, help="the least number of requests that each cell counts (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="take only the requests with this in their names")
    parser.add_argument("--shapes", default="1x1,50x1,50x16", help="connections and requests under way (default: 1x1,50x1,50x16)")
    parser.add_argument(
        "--without",
        nargs="*",
        default=[],
        choices=list(without.CASES),
        metavar="NAME",
        help="special cases to take away, by the names above",
    )
    parser.add_argument("--served", action="store_true", help="count only what requests cause at once")
    parser.add_argument("--data", type=Path, help="where the broker keeps its data (default: a temporary folder)")
    options = parser.parse_args()
    build.announce()
    shapes = [(int(one), int(other)) for one, _, other in (shape.partition("x") for shape in options.shapes.split(","))]
    rows = []
    with peers.folder(options) as folder, closing(CountedPeer(folder, options.without)) as peer:
        peer.start()
        for name, (frame, share) in frames(peer.bootstrap).items():
            if options.only.lower() in name.lower():
                counts = [count(peer, frame, shape, options.requests // share, only_served=options.served) for shape in shapes]
                rows.append((name, *(one / 1000 for one in counts)))
                peers.row(rows[-1])
    title = "Thousand instructions of the broker per request" + "".join(f", without {name}" for name in options.without)
    peers.table(title, ["request", *(f"{one} x {other}" for one, other in shapes)], rows)


if __name__ == "__main__":
    main()
