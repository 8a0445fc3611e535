"""Measures opening a data directory's logs after a clean stop and after a kill: much data, many partitions, many segments.

    python -m benchmarks.recovery [--gb 1] [--partitions 10000] [--segments 10000] [--folder PATH]

The log manager runs alone, in this process, without a broker around it. A kill is an end without flush, checkpoint and marker.
What was written is in the page cache, so the figures are what recovery computes, not what a disk gives. "All" has no recovery
point, so the log manager reads and checks every byte; "behind recovery points" is as after the checkpoints of a running broker.
GB = 1e9 bytes.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from benchmarks import build
from pybroker.clock import SystemClock
from pybroker.config.topic import TopicConfig
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch

TOPIC_ID = TopicId(bytes(range(16)))


class Unsynced(Filesystem):
    """A filesystem that makes the data without waiting for the disk."""

    __slots__ = ()

    def sync(self, fd: int) -> None:
        pass


def manager(path: Path, config: TopicConfig, threads: int = 1, filesystem: Filesystem | None = None) -> LogManager:
    services = LogServices(clock=SystemClock(), recovery_threads=threads)
    return LogManager(
        [str(path)], cluster_id="c", node_id=BrokerId(1), services=services, config_of=lambda _: config, filesystem=filesystem
    )


def batch_of_records(record_count: int, size: int) -> bytes:
    value = os.urandom(size)
    return bytes(build_batch([Record(Offset(i), 1_700_000_000_000, None, value) for i in range(record_count)]))


def fill(path: Path, config: TopicConfig, *, partitions: int, batches: int, data: bytes) -> None:
    logs = manager(path, config, filesystem=Unsynced())
    logs.start()
    for number in range(partitions):
        log = logs.create(TopicPartition("t", number), TOPIC_ID, config)
        for _ in range(batches):
            log.append_as_leader(memoryview(bytearray(data)), leader_epoch=LeaderEpoch(0), now_ms=1_700_000_000_000)
    logs.stop()


def start(path: Path, config: TopicConfig, what: str, *, threads: int = 1) -> float:
    """Return the seconds until all logs are open after a stop of the kind `what`; end with a clean stop."""
    if what != "clean":
        (path / ".kafka_cleanshutdown").unlink()
    if what == "all":
        for name in ("recovery-point-offset-checkpoint", "recovery-point-offset-checkpoint.ids"):
            (path / name).unlink(missing_ok=True)
    logs = manager(path, config, threads)
    began = time.perf_counter()
    logs.start()
    seconds = time.perf_counter() - began
    logs.stop()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=1, help="size of the logs with much data (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=10_000, help="partitions with a record each (default: %(default)s)")
    parser.add_argument("--segments", type=int, default=10_000, help="segments of one log (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the logs lie (default: a temporary folder)")
    options = parser.parse_args()
    build.announce()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    config = TopicConfig()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, data in (("16 kB", batch_of_records(16, 1000)), ("1 kB", batch_of_records(10, 80))):
            path = Path(folder) / name.replace(" ", "")
            count = 8
            batches = int(options.gb * 1e9 / len(data) / count)
            fill(path, config, partitions=count, batches=batches, data=data)
            size = count * batches * len(data) / 1e9
            for threads in (1, 2):
                seconds = start(path, config, "all", threads=threads) / size
                print(f"recovery of all, batches of {name}, {count} logs, {threads} threads: {seconds:.2f} s/GB")
        path = Path(folder) / "partitions"
        fill(path, config, partitions=options.partitions, batches=1, data=batch_of_records(1, 100))
        for what in ("clean", "behind recovery points", "all"):
            print(f"{options.partitions} partitions with a record, {what}: {start(path, config, what):.2f} s")
        path, config = Path(folder) / "segments", TopicConfig(segment_bytes=2000)
        fill(path, config, partitions=1, batches=options.segments, data=batch_of_records(1, 1100))
        for what in ("clean", "behind recovery points", "all"):
            print(f"a log of {options.segments} segments, {what}: {start(path, config, what):.2f} s")


if __name__ == "__main__":
    main()
