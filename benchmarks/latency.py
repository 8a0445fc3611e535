"""Measures latencies beside Apache Kafka: of produces, of fetches, and from a producer to a consumer, alone and beside loads.

    python -m benchmarks.latency [--rounds 5] [--seconds 4.1] [--rates 200,2000,10000] [--beside alone,pipeline,...]
                                 [--busy 50] [--no-kafka] [--result FILE]

Requests are sent at fixed times whatever the broker does, and count from the time when they are due (`open_loop.c`, compiled with
`cc`). Half of the rate are Produces of one record of 100 B, half Fetches of an old one, on 10 connections each; one consumer
always waits for the next record. After the rates comes one client that sends one record every 5 ms, and one that fetches one:
whoever sends little must not wait for those that send much. In each round the brokers take turns; the result file has what each
round measured, and `python -m benchmarks.latency_table FILE` prints the tables of it, as this does at its end.

The loads: `pipeline`, 256 Produces under way on one connection; `bulk`, 50 MB/s in lz4 batches of 200 kB; `group`, 500 members
that join a new group and leave it, again and again; `compaction`, 5 MB/s into a compacted topic; `bomb`, a million identical
records in 150 B every 0.3 s.

`--busy 50` keeps all cores busy for this percentage of the time. A cell that fails is in the table as such; a broker that has
ended starts again.
"""

from __future__ import annotations

import argparse
import subprocess
import traceback
from pathlib import Path
from typing import Final

from benchmarks import latency_loads as loads
from benchmarks import latency_table, open_loop, peers, result_file
from benchmarks.busy_cores import busy
from benchmarks.peers import Peer
from benchmarks.probe import times
from benchmarks.result_file import ResultFile
from testing.clients.stock import create_topic
from testing.wire import raw

TOPIC: Final = "latency"
SETTLE_S: Final = 0.5
CLIENT_RATE: Final = 400
"""The rate of one client that sends a record every 5 ms, and one that fetches every 5 ms."""

WARM_RATE: Final = 4000
OVERRIDES: Final = {
    "log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0", "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "100",
}  # fmt: skip


class Run:
    """One run: which cells it has, and where the results go."""

    def __init__(self, program: Path, options: argparse.Namespace, results: ResultFile) -> None:
        self._program, self._results, self._seconds = program, results, options.seconds
        self._cells = [
            (f"{rate}", int(rate), open_loop.CONNECTIONS, options.seconds) for rate in options.rates.split(",") if rate
        ]
        self._cells.append((latency_table.CLIENT, CLIENT_RATE, 1, options.client_seconds))

    def prepare(self, peer: Peer, warm_s: float) -> None:
        """Create the topic with its first record, and warm the broker up."""
        create_topic(peer.bootstrap, TOPIC, 1)
        with raw.Connection(peer.bootstrap) as connection:
            connection.socket.sendall(open_loop.frames(TOPIC).produce)
            connection.receive(1)
        open_loop.run(self._program, peer, TOPIC, rate=WARM_RATE, seconds=warm_s)

    def warm(self, load: str, peer: Peer) -> None:
        """Run beside the load without measuring: a JVM compiles what is new to it."""
        self._with_load(0, load, peer, [("warm", WARM_RATE // 2, open_loop.CONNECTIONS, self._seconds)])

    def measure(self, number: int, load: str, peer: Peer) -> None:
        """Measure all cells of a load once."""
        self._with_load(number, load, peer, self._cells)

    def _with_load(self, number: int, load: str, peer: Peer, cells: list[tuple[str, int, int, float]]) -> None:
        left = [name for name, *_ in cells]
        try:
            with loads.running(load, peer.bootstrap, SETTLE_S):
                for name, rate, connections, seconds in cells:
                    taken = open_loop.run(
                        self._program, peer, TOPIC, rate=rate, seconds=seconds, connections=connections
                    )  # fmt: skip
                    left.remove(name)
                    if number:
                        self._note(number, load, name, peer, taken)
        except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
            traceback.print_exc()
            for name in left:
                self._results.add(what="failure", round=number, beside=load, cell=name, broker=peer.name, error=repr(error))
            if not peer.is_alive:
                peer.close()
                peer.start(OVERRIDES)

    def _note(self, number: int, load: str, name: str, peer: Peer, taken: dict[str, list[float]]) -> None:
        for kind in open_loop.KINDS:
            found = times(taken[kind])
            self._results.add(
                what="cell", round=number, beside=load, cell=name, broker=peer.name, kind=kind, **found._asdict()
            )  # fmt: skip
            peers.row((number, load, name, peer.name, kind, *found))


def main() -> None:
    parser = peers.arguments(__doc__)
    result_file.add_argument(parser, "latency")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, in which brokers take turns (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4.1, help="seconds of a rate in a round (default: %(default)s)")
    parser.add_argument("--client-seconds", type=float, default=7, help="the same of one client (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=10, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--rates", default="200,2000,10000", help="requests in a second (default: %(default)s)")
    parser.add_argument("--beside", default=",".join(loads.LOADS), help="the loads (default: %(default)s)")
    parser.add_argument("--busy", type=int, default=0, help="percent of all cores that other work takes (default: %(default)s)")
    options: argparse.Namespace = peers.parsed(parser)
    if options.busy and options.result == parser.get_default("result"):
        options.result = options.result.with_stem(options.result.stem + "-busy")
    with (
        ResultFile(options) as results,
        peers.started(options, OVERRIDES) as running,
        peers.folder(options) as folder,
        busy(options.busy),
    ):
        run = Run(open_loop.build(folder), options, results)
        for peer in running:
            run.prepare(peer, options.warm)
            for load in options.beside.split(","):
                run.warm(load, peer)
        for number in range(1, options.rounds + 1):
            for load in options.beside.split(","):
                for peer in running:
                    run.measure(number, load, peer)
    latency_table.show(result_file.read(options.result))


if __name__ == "__main__":
    main()
