"""Measures what a broker costs a test: its start and stop, the resets between tests, and the same of other brokers for tests.

    python -m benchmarks.testing_kit [--rounds 20] [--resets 1000] [--no-kafka]

Times are medians of the rounds, after one that imports. Between two resets there are a topic and records. RSS, threads
and descriptors are those of this process, early and late in the resets: what grows is kept. MB = 1e6 bytes.

Beside each other are the brokers of `kit_peers`: *ready* is until a client has written and read a record, *clean* is until
nothing is left of a topic and a group. Memory is that of the broker's process, or how much the process of the test grows.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pybroker
from benchmarks import kit_peers, peers
from pybroker.testing import Broker, ProcessBroker, ThreadBroker
from testing.process import procstat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="starts of each kind (default: %(default)s)")
    parser.add_argument("--resets", type=int, default=1000, help="resets of one broker, or 0 (default: %(default)s)")
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="leave out Apache Kafka, which needs Java")
    options = parser.parse_args()
    compileall.compile_dir(Path(pybroker.__file__).parent, quiet=1)
    kinds: dict[str, Callable[[], tuple[float, float]]] = {
        "in the event loop": lambda: asyncio.run(in_loop()),
        "in a thread": lambda: blocking(Broker.in_thread()),
        "a process": lambda: blocking(Broker.subprocess()),
    }
    rows = []
    for name, once in kinds.items():
        once()
        times = [once() for _ in range(options.rounds)]
        rows.append((name, *(statistics.median(column) * 1000 for column in zip(*times, strict=True))))
    peers.table(f"A broker for a test, medians of {options.rounds}", ["kind", "ready, ms", "stop, ms"], rows)
    if options.resets:
        with Broker.in_thread() as broker:
            resets(broker, options.resets)
    kit_peers.measure(options.rounds, with_kafka=options.kafka)


async def in_loop() -> tuple[float, float]:
    broker, began = Broker(), time.perf_counter()
    await broker.start()
    ready = time.perf_counter()
    await broker.stop()
    return ready - began, time.perf_counter() - ready


def blocking(broker: ThreadBroker | ProcessBroker) -> tuple[float, float]:
    began = time.perf_counter()
    broker.start()
    ready = time.perf_counter()
    broker.stop()
    return ready - began, time.perf_counter() - ready


def resets(broker: ThreadBroker, count: int) -> None:
    times, rows = [], []
    for number in range(1, count + 1):
        broker.create_topic("orders", 3)
        broker.produce("orders", *[b"value"] * 10)
        began = time.perf_counter()
        broker.reset()
        times.append(time.perf_counter() - began)
        if number in {count // 4, count // 2, count}:
            time.sleep(2.5)  # the files of deleted topics are removed after a second
            descriptors = len([*Path("/proc/self/fd").iterdir()])
            rows.append((number, procstat.memory_bytes(os.getpid()) / 1e6, threading.active_count(), descriptors))
    print(
        f"\nreset: median {statistics.median(times) * 1000:.1f} ms, 99 % below {sorted(times)[int(count * 0.99)] * 1000:.1f} ms"
    )
    peers.table("After resets", ["resets", "RSS, MB", "threads", "descriptors"], rows)


if __name__ == "__main__":
    main()
