"""Measures how long starts and stops take with the logs of many partitions, each with records, and few file descriptors.

    python -m benchmarks.many_partitions [--partitions 10000] [--files 4096] [directory]

Each round is a process of its own that may open `--files` files. It opens all logs, checks where each begins and ends, appends a
record to each, and stops cleanly, or ends as a kill would end it. The benchmark writes everything below the directory (default:
/dev/shm, else the temporary one, where the disk's fsync decides) and removes it again.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pybroker.broker import descriptors
from pybroker.clock import SystemClock
from pybroker.config.topic import TopicConfig
from pybroker.log.files.open_files import OPEN_FILES
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch

ENDINGS = ("new", "kill", "stop")
TOPIC_ID = TopicId(bytes(15) + b"1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="partitions to make (default: %(default)s)")
    parser.add_argument(
        "--files", type=int, default=4_096, help="file descriptors that each round may have (default: %(default)s)"
    )
    parser.add_argument("--round", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument(
        "directory",
        nargs="?",
        default="/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir(),
        help="where the logs lie (default: %(default)s)",
    )
    given = parser.parse_args()
    if given.round >= 0:
        one_round(given.directory, given.partitions, given.files, given.round)
        return
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        options = ["--partitions", str(given.partitions), "--files", str(given.files)]
        for number in range(len(ENDINGS)):
            own = [sys.executable, "-m", "benchmarks.many_partitions", *options, "--round", str(number), folder]
            subprocess.run(own, check=True)


def one_round(path: str, partitions: int, files: int, number: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    OPEN_FILES.held_max = descriptors.shares_of_process().data_files
    clock = SystemClock()
    manager = LogManager(
        [path], cluster_id="c", node_id=BrokerId(1), services=LogServices(clock=clock), config_of=lambda _: TopicConfig()
    )
    began = time.perf_counter()
    manager.start()
    started_s, held = time.perf_counter() - began, open_files()
    began = time.perf_counter()
    for partition in range(partitions):
        log = manager.create(TopicPartition("many", partition), TOPIC_ID, TopicConfig())
        if (log.log_start_offset, log.log_end_offset) != (0, number):
            raise SystemExit(f"round {number}: {log} should hold {number} records")
        data = build_batch([Record(Offset(0), clock.time_ms(), None, b"%d" % number)])
        log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(0), now_ms=clock.time_ms())
    appended_s, held_then = time.perf_counter() - began, open_files()
    if manager.directories[0].shortages or held_then > files:
        raise SystemExit(f"round {number}: {manager.directories[0].shortages} operations had no descriptor")
    ending, stopped_s = ENDINGS[number], 0.0
    if ending != "kill":
        began = time.perf_counter()
        manager.stop()
        stopped_s = time.perf_counter() - began
        if not Path(path, ".kafka_cleanshutdown").exists():
            raise SystemExit(f"round {number}: the stop was not clean")
    print(
        f"{partitions} partitions, {files} descriptors, {('new', 'after a stop', 'after a kill')[number]}: all records there; "
        f"start {started_s:.2f} s ({held} files open), append to each {appended_s:.2f} s ({held_then}), stop {stopped_s:.2f} s",
        flush=True,
    )
    os._exit(0)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


if __name__ == "__main__":
    main()
