"""Compares the logs of all replicas, as bytes and as Kafka's own DumpLogSegments sees them."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from testing.faults.clusters import NUMBERS, Cluster
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.process.tool_runner import Tool
from testing.waiting import Deadline, killed, line_of, until

Batches = list[str]
ROUNDS = 3
"""Reports of kafka-replica-verification that must be good."""
_POSITION = re.compile(r" position: \d+")


def agree(cluster: Cluster) -> None:
    """Wait until all replicas have the same bytes: the last ones may be under way."""
    until(lambda: not differences(cluster), "all replicas have the same bytes", pause_s=0.2)


def differences(cluster: Cluster) -> list[str]:
    """Return the partitions whose replicas differ."""
    logs: dict[str, list[bytes]] = defaultdict(list)
    for number in NUMBERS:
        for partition, segments in _partitions(cluster.data_dir(number)):
            logs[partition].append(b"".join(segment.read_bytes() for segment in segments))
    return [name for name, found in logs.items() if len(found) != len(NUMBERS) or len(set(found)) != 1]


def dumped(cluster: Cluster, dump: Tool) -> dict[str, list[Batches]]:
    """Return what DumpLogSegments prints of the batches of each partition, for each replica. It also checks the indexes.

    Raises AssertionError if it finds an index that does not fit its log.
    """
    found: dict[str, list[Batches]] = defaultdict(list)
    for number in NUMBERS:
        for partition, segments in _partitions(cluster.data_dir(number)):
            files = [file for log in segments for file in (log, log.with_suffix(".index"), log.with_suffix(".timeindex"))]
            output = dump("dump-log", "--deep-iteration", "--files", ",".join(str(file) for file in files if file.exists()))
            assert "Mismatches" not in output, output[-2000:]
            assert "Found" not in output, output[-2000:]
            lines = output.splitlines()
            found[partition].append([_POSITION.sub("", line) for line in lines if line.startswith(("baseOffset:", "| offset:"))])
    return found


def verified(cluster: Cluster, topics: Iterable[str]) -> None:
    """Let Kafka's own kafka-replica-verification read all replicas, which compares the batches that each broker returns.

    Raises AssertionError if they differ, or do not get level in time.
    """
    command = [*quick_java(classpath("3.9.2")), "-Xmx128m", "org.apache.kafka.tools.ReplicaVerificationTool"]
    command += ["--broker-list", cluster.bootstrap, "--topics-include", "|".join(topics), "--time", "-2"]
    command += ["--report-interval-ms", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    deadline = Deadline("the replicas are level")
    try:
        while sum("max lag is 0" in line for line in lines) < ROUNDS:
            deadline.check()
            lines.append(line_of(process.stdout, "a line of kafka-replica-verification"))
            assert lines[-1], "".join(lines)
            assert "different" not in lines[-1], lines[-1]
    finally:
        killed(process)


def _partitions(data_dir: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield each partition of a broker with its segments. Topics that were deleted are left out."""
    for folder in sorted(data_dir.glob("*-[0-9]*")):
        if not folder.name.endswith(("-delete", "-stray")):
            yield folder.name, sorted(folder.glob("*.log"))
