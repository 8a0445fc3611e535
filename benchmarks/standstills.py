"""Measures how long a hostile or a large request keeps other clients waiting, beside Apache Kafka.

    python -m benchmarks.standstills [--rounds 3] [--only text] [--no-kafka] [--result FILE]

Each request goes to a new topic of each broker in turn, while a probe in another process sends ApiVersions every 5 ms on a
connection of its own. The figures: from the request until its last response, or until the connection is closed; the longest time
that a probe waited from when it was due; the growth of resident memory, whose peak is sampled every 20 ms; and what came back.
Times are medians of the rounds, the memory is the largest. The result file has each round. Of ours, the table also has the
longest turn of the event loop in any round, with what ran in it, if one was longer than the bound of 20 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import struct
import time
import traceback
from typing import Final, NamedTuple

import confluent_kafka

from benchmarks import hostile_requests, peers, result_file
from benchmarks.hostile_requests import Case
from benchmarks.peers import OURS, Peer, pin_client
from benchmarks.probe import Probe
from benchmarks.result_file import ResultFile
from pybroker.sharing.turns.watchdog import FAIL, SWITCH
from testing.clients.stock import delete_topic
from testing.process import kafka_peer, procstat
from testing.process.broker import TURN
from testing.wire import raw

INTERVAL_S: Final = 0.005
ALONE_S: Final = 0.3
TIMEOUT_S: Final = 120
WARM_REQUESTS: Final = 3000
OVERRIDES: Final = {"log.segment.delete.delay.ms": "1000", "auto.create.topics.enable": "false"}
COLUMNS: Final = ("took, ms", "others waited, ms", "memory, MB", "response")
_numbers = itertools.count()


class Outcome(NamedTuple):
    """The effect of one request on a broker."""

    sent_bytes: int
    took_ms: float
    probe_ms: float
    growth_mb: float
    response: str
    turn_ms: float
    """The longest turn beyond the bound; 0 if there was none, as in Kafka."""
    turn: str


def measure(peer: Peer, case: Case) -> Outcome:
    topic = f"standstill-{next(_numbers)}"
    frames = case.make(peer.bootstrap, topic)
    probed = {"probe": raw.request(raw.API_VERSIONS, 0, b"")}
    before, logged_bytes = procstat.memory_bytes(peer.pid), peer.log.stat().st_size
    with Probe(peer.bootstrap, probed, INTERVAL_S) as probe, procstat.PeakSampler(peer.pid, "VmRSS", 20) as memory:
        time.sleep(ALONE_S)
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(raw.Connection(peer.bootstrap, TIMEOUT_S)) for _ in range(case.connections)]
            began = time.monotonic()
            response = exchange(connections, frames, case)
            ended = time.monotonic()
        time.sleep(ALONE_S)
    waits = probe.between("probe", began - ALONE_S / 2, ended + ALONE_S / 2)
    with contextlib.suppress(confluent_kafka.KafkaException):  # not every case needs a topic
        delete_topic(peer.bootstrap, topic)
    growth = max(0, memory.peak_bytes - before)
    took_ms, waited_ms = 1000 * (ended - began), 1000 * max(waits)
    sent_bytes = case.connections * sum(map(len, frames))
    return Outcome(sent_bytes, took_ms, waited_ms, growth / 1e6, response, *longest_turn(peer, logged_bytes))


def longest_turn(peer: Peer, logged_bytes: int) -> tuple[float, str]:
    """Return the milliseconds and the name of the longest turn that the log has behind its first bytes; 0 and no name if none."""
    with peer.log.open("rb") as log:
        log.seek(logged_bytes)
        turns = TURN.findall(log.read().decode(errors="replace"))
    return max(((float(held_ms), name) for name, held_ms in turns), default=(0.0, ""))


def exchange(connections: list[raw.Connection], frames: list[bytes], case: Case) -> str:
    """Send the frames at once on each connection, and describe what comes back last."""
    try:
        for connection in connections:
            connection.socket.sendall(b"".join(frames))
        for connection in connections * case.responses:
            (size,) = struct.unpack(">i", connection.receive_exactly(4))
            response = connection.receive_exactly(size)
    except TimeoutError:
        return f"nothing in {TIMEOUT_S} s"
    except ConnectionError:
        return "closed"
    if struct.unpack_from(">hh", frames[0], 4) == (raw.PRODUCE, 7):
        errors = hostile_requests.errors_of_produce(response[4:])
        return "accepted" if errors == [0] else f"error {', '.join(map(str, errors))}"
    return f"{size} bytes"


def warm(peer: Peer) -> None:
    with raw.Connection(peer.bootstrap) as connection:
        for _ in range(WARM_REQUESTS):
            raw.api_versions(connection)


def revive(peer: Peer) -> None:
    """Start a broker again that has ended, or serves no request any more."""
    host, _, port = peer.bootstrap.rpartition(":")
    if not peer.is_alive or not kafka_peer.serves_metadata(host, int(port), TIMEOUT_S):
        peer.close()
        peer.start(OVERRIDES)


def columns(broker: str) -> tuple[str, ...]:
    """Return the titles of a broker's cells."""
    return (*COLUMNS, "longest turn, ms") if broker == OURS else COLUMNS


def cells(broker: str, outcomes: list[Outcome]) -> list[object]:
    """Return the cells of a broker's rounds, below its `columns`."""
    if not outcomes:
        return ["failed", *("-" for _ in columns(broker)[1:])]
    took, waited = (statistics.median(getattr(one, name) for one in outcomes) for name in ("took_ms", "probe_ms"))
    found = [took, waited, max(one.growth_mb for one in outcomes), outcomes[-1].response]
    if broker == OURS:
        turn_ms, turn = max((one.turn_ms, one.turn) for one in outcomes)
        found.append(f"{turn_ms:.1f}: {turn}" if turn else "none")
    return found


def main() -> None:
    parser = peers.arguments(__doc__)
    result_file.add_argument(parser, "standstills")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, in which brokers take turns (default: %(default)s)")
    parser.add_argument("--only", default="", help="measure the requests whose description has this text")
    options: argparse.Namespace = peers.parsed(parser)
    pin_client()
    os.environ[SWITCH] = FAIL  # has each long turn in the log, and not only one of a name in 10 s
    rows: list[tuple[object, ...]] = []
    with ResultFile(options) as results, peers.started(options, OVERRIDES) as running:
        for peer in running:
            warm(peer)
        for case in (one for one in hostile_requests.CASES if options.only.lower() in one.what.lower()):
            outcomes: dict[str, list[Outcome]] = {peer.name: [] for peer in running}
            for number, peer in itertools.product(range(1, options.rounds + 1), running):
                try:
                    one = measure(peer, case)
                    outcomes[peer.name].append(one)
                    results.add(what="request", round=number, broker=peer.name, request=case.what, **one._asdict())
                except (OSError, RuntimeError, AssertionError, confluent_kafka.KafkaException) as error:
                    traceback.print_exc()
                    results.add(what="failure", round=number, broker=peer.name, request=case.what, error=repr(error))
                revive(peer)
            size = next((one.sent_bytes for found in outcomes.values() for one in found), 0)
            rows.append((case.what, size, *(cell for peer in running for cell in cells(peer.name, outcomes[peer.name]))))
            peers.row(rows[-1])
        print(f"\n{result_file.machine()}")
        header = ["request", "bytes", *(f"{peer.name}: {name}" for peer in running for name in columns(peer.name))]
        peers.table(f"Requests and how long others waited, medians of {options.rounds}", header, rows)


if __name__ == "__main__":
    main()
