"""Counts the slices of the loop that a checkpoint and a pass of retention over many partitions take, and the time that follows.

    python -m benchmarks.background_passes [--partitions 10000]

The logs are in memory, and a slice ends by CPU time, so that other processes and the disk do not count. The work of a directory's
thread is left out. The columns "not busy" and "busy" follow from the number of slices: after each the loop has 6 ms,
or needs 20 ms to serve what waits.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

from pybroker.clock import ManualClock, WakeUp
from pybroker.config.topic import TopicConfig
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, TopicId, TopicPartition
from pybroker.sharing.background import PAUSES_PER_SLICE, SLICE_NS, Background
from pybroker.sharing.work import run_inline
from testing.simulation.disk import SimulatedDisk

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
BUSY_S = 0.020


class Later:
    """Keeps the slice that is due; `run` runs slices until none is."""

    def __init__(self) -> None:
        self.due: Callable[[], None] | None = None
        self.jobs: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []

    def in_thread(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.jobs.append((work, done))

    def __call__(self, _delay_s: float, work: Callable[[], None]) -> WakeUp:
        self.due = work
        return self

    def cancel(self) -> None:
        self.due = None

    def run(self) -> list[int]:
        """Return the CPU time of each slice in ns. Jobs of threads are done between two slices, and do not count."""
        taken: list[int] = []
        while self.due is not None or self.jobs:
            while self.jobs:
                run_inline(*self.jobs.pop(0))
            work = self.due
            if work is None:
                continue
            self.due = None
            began = time.thread_time_ns()
            work()
            taken.append(time.thread_time_ns() - began)
        return taken


def report(name: str, taken: list[int]) -> None:
    slices, longest = len(taken), max(taken) / 1e6
    idle_s, busy_s = slices * (1 + PAUSES_PER_SLICE) * SLICE_NS / 1e9, slices * (SLICE_NS / 1e9 + BUSY_S)
    print(f"{name:<34}{sum(taken) / 1e6:>10.0f}{slices:>9}{longest:>12.1f}{idle_s:>12.2f}{busy_s:>9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    arguments = parser.parse_args()
    later, clock = Later(), ManualClock(START_MS)
    background = Background(lambda: None, later, time.thread_time_ns)
    disk = SimulatedDisk(clock)
    disk.make_directory("/d")
    config = TopicConfig(retention_ms=DAY_MS)
    logs = LogManager(
        ["/d"],
        cluster_id="c",
        node_id=BrokerId(1),
        services=LogServices(clock=clock),
        config_of=lambda _: config,
        filesystem=disk,
        thread_of=lambda _: later.in_thread,
        run_work=background.run,
    )
    logs.start()
    for number in range(arguments.partitions):
        logs.create(TopicPartition("t", number), TopicId(bytes(16)), config)
    print(f"{'':34}{'CPU ms':>10}{'slices':>9}{'longest ms':>12}{'not busy s':>12}{'busy s':>9}")
    gc.collect()
    gc.disable()  # a collection looks at the files in memory, which no broker has
    logs.passes.checkpoint()
    report(f"checkpoint, {arguments.partitions} partitions", later.run())
    logs.passes.clean_up(START_MS)
    report("retention, nothing is due", later.run())
    logs.abandon()


if __name__ == "__main__":
    main()
