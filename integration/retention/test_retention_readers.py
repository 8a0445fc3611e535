"""Stock consumers, old and new, read a partition whose start moves: in order, nothing twice, a gap only where retention cut.

Each consumer reads a few records, then the start moves beyond what it has, three times, and the first segment is cut below it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from integration.retention.test_retention import BATCH_RECORDS, RECORDS, STEP_MS, Scene, eager_broker
from pybroker.records.compression import CompressionType
from testing.places import CLIENT_PROGRAMS, JAVA_SOURCES
from testing.process.broker import is_kafka
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.process.maven import old_client_jars
from testing.process.venvs import old_python_client
from testing.waiting import WAIT_S, killed, line_of, until

pytestmark = pytest.mark.skipif(is_kafka(), reason="Kafka deletes whole segments")

STARTS = (53, 117, 171)
"""Each in the middle of a batch."""
TURN = 12
"""The records that a consumer reads before the start moves again: fewer than lie between two starts."""
TOPIC = "moving"
JAVA_PROGRAM = JAVA_SOURCES / "PacedConsumer.java"


def python_client(client: str, group: str | None = None, *, old: str = "", **options: Any) -> list[str]:
    job = {"client": client, "topic": TOPIC, "group": group, "last": RECORDS - 1, "options": options}
    return [str(old_python_client(old)) if old else sys.executable, str(CLIENT_PROGRAMS / "paced_consumer.py"), json.dumps(job)]


def java_client(classes: str, **options: str) -> list[str]:
    settings = [f"{name.replace('_', '.')}={value}" for name, value in options.items()]
    return [*quick_java(classes, JAVA_PROGRAM), "-Xmx128m", JAVA_PROGRAM.stem, TOPIC, str(RECORDS - 1), *settings]


def readers() -> dict[str, list[str]]:
    """Return the command of each consumer, without the broker's address."""
    found = {
        "kafka-python": python_client("kafka-python", isolation_level="read_committed"),
        "kafka-python in a group": python_client("kafka-python", "one"),
        "kafka-python 1.4.7 for 0.8.2": python_client("kafka-python", old="1.4.7", api_version=(0, 8, 2)),
        "kafka-python 1.4.7 for 0.9, in a group": python_client(
            "kafka-python", "two", old="1.4.7", api_version=(0, 9), session_timeout_ms=60_000
        ),
        "kafka-python 2.0.2 for 0.10.1": python_client("kafka-python", old="2.0.2", api_version=(0, 10, 1)),
        "confluent-kafka": python_client("confluent-kafka", **{"isolation.level": "read_committed"}),
        "confluent-kafka in a group": python_client("confluent-kafka", "three"),
        "aiokafka": python_client("aiokafka", isolation_level="read_committed"),
        "aiokafka in a group": python_client("aiokafka", "four"),
    }
    if shutil.which("javac") is not None and shutil.which("mvn") is not None:
        found |= {
            "Java 3.9": java_client(classpath(), isolation_level="read_committed"),
            "Java 3.9 in a group": java_client(classpath(), group_id="five"),
            "Java 0.10.1": java_client(":".join(map(str, old_client_jars("0.10.1.1")))),
        }
    return found


class Reader:
    """A consumer in a process of its own, and the offsets that it has read."""

    def __init__(self, name: str, command: list[str], bootstrap: str) -> None:
        self.name, self._command, self._bootstrap = name, self._with_address(command, bootstrap), bootstrap
        self.offsets: list[int] = []
        self._start()

    @staticmethod
    def _with_address(command: list[str], bootstrap: str) -> list[str]:
        if JAVA_PROGRAM.stem in command:
            place = command.index(TOPIC)
            return [*command[:place], bootstrap, *command[place:]]
        return [*command[:-1], json.dumps({**json.loads(command[-1]), "bootstrap": bootstrap})]

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def is_in_group(self) -> bool:
        return "in a group" in self.name

    def ask(self, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def take(self) -> None:
        """Take the offsets that were asked for."""
        assert self._process.stdout is not None
        line = line_of(self._process.stdout, f"records for {self.name}")
        assert line.strip(), f"{self.name} ended, or read nothing"
        self.offsets += map(int, line.split())

    def begin_again(self) -> None:
        """Let the member leave, and start another one that continues where the group is."""
        self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == 0, self.name
        self._start()

    def close(self) -> None:
        killed(self._process)


def read(reading: list[Reader], count: int) -> None:
    for reader in reading:
        reader.ask(count)
    for reader in reading:
        reader.take()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "pybroker.down.conversion.padding": "fitted",  # the Java client of 0.10 reads no other
    }
    with eager_broker(tmp_path, settings) as scene:
        yield scene


def assert_gaps_only_where_the_start_was(reader: Reader) -> None:
    steps = list(pairwise(reader.offsets))
    assert all(earlier < later for earlier, later in steps), f"{reader.name}: {reader.offsets}"
    gaps = [(earlier, later) for earlier, later in steps if later != earlier + 1]
    assert {later for _, later in gaps} <= set(STARTS), f"{reader.name} jumps: {gaps}"
    assert gaps, f"{reader.name} has met no cut: {reader.offsets}"
    assert (reader.offsets[0], reader.offsets[-1]) == (0, RECORDS - 1), reader.name


def test_consumers_read_across_a_start_that_moves(scene: Scene) -> None:
    scene.fill(TOPIC, CompressionType.LZ4)
    folder = Path(scene.broker.data_dir, f"{TOPIC}-0")
    reading: list[Reader] = []
    try:
        for name, command in readers().items():
            reading.append(Reader(name, command, scene.broker.bootstrap))
        read(reading, TURN)
        for number, start in enumerate(STARTS):
            scene.wire.configure(TOPIC, "retention.ms", str((RECORDS - start) * STEP_MS))
            scene.wait_for_start(TOPIC, start)
            if number:
                batch = start // BATCH_RECORDS * BATCH_RECORDS
                until((folder / f"{batch:020}.log").exists, f"the first segment is cut at {batch}")
            if number == 1:
                for reader in reading:
                    if reader.is_in_group:
                        reader.begin_again()
            read(reading, TURN)
        read(reading, RECORDS)
        for reader in reading:
            assert_gaps_only_where_the_start_was(reader)
    finally:
        for reader in reading:
            reader.close()
    scene.assert_exactly_from(TOPIC, STARTS[-1])
