"""Transactions of Java programs: plain ones, and the ways of Connect and Flink, with clients 3.9 and 4.x."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from integration.transactions.transaction_histories import TOPIC, read_all
from testing.clients.isolation import read_whole
from testing.clients.stock import create_topic
from testing.places import JAVA_SOURCES
from testing.process.broker import BrokerProcess
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.process.tool_runner import ToolRunner
from testing.waiting import LONG_WAIT_S, line_of

PROGRAM = JAVA_SOURCES / "Transactions.java"
RELEASES = ("3.9.2", "4.3.1")

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)


def command(release: str, *arguments: str) -> list[str]:
    return [*quick_java(classpath(release), PROGRAM), "-Xmx256m", PROGRAM.stem, *arguments]


def java(release: str, *arguments: str) -> list[str]:
    """Run a way of the program to its end, and return its lines."""
    done = subprocess.run(command(release, *arguments), capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


class Running:
    """A way of the program that is still running."""

    def __init__(self, folder: Path, release: str, *arguments: str) -> None:
        self._errors = (folder / "java.log").open("wb")
        self._process = subprocess.Popen(command(release, *arguments), stdout=subprocess.PIPE, stderr=self._errors)

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def skip(self, count: int) -> None:
        """Wait for this many lines."""
        for _ in range(count):
            assert line_of(self._output, "a transaction", LONG_WAIT_S)

    def finish(self) -> None:
        """Wait for the end. The program must have had no error."""
        try:
            self._process.communicate(timeout=LONG_WAIT_S)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(LONG_WAIT_S)
            self._output.close()
            self._errors.close()
        assert self._process.returncode == 0


def values(bootstrap: str, isolation: str = "read_committed", partition: int = 0) -> list[str]:
    return [value.decode() for _, value in read_all(bootstrap, partition, isolation)]


def set_level(tools: ToolRunner, bootstrap: str, level: int, how: str) -> None:
    """Set transaction.version; `how` is upgrade or downgrade."""
    ran = tools.run("features", "--bootstrap-server", bootstrap, how, "--feature", f"transaction.version={level}")
    assert ran.code == 0, ran.out + ran.err


def measure(tools: ToolRunner, bootstrap: str, level: int) -> None:
    """Let the performance tool commit transactions at a level of transaction.version."""
    topic = f"performance-{level}"
    create_topic(bootstrap, topic, 1)
    ran = tools.run(
        "producer-perf-test", "--topic", topic, "--num-records", "200", "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={bootstrap}", "--transactional-id", topic, "--transaction-duration-ms", "5",
    )  # fmt: skip
    assert "200 records sent" in ran.out, ran
    assert len(read_whole(bootstrap, topic, 0, "read_committed")) == 200


@pytest.mark.parametrize("release", RELEASES)
def test_clients_commit_and_abort_at_each_level_and_across_upgrades(
    release: str, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    bootstrap = start_broker().bootstrap
    create_topic(bootstrap, TOPIC, 2)
    (tmp_path / "tested").mkdir()
    tools, tested = ToolRunner("4.3.1", tmp_path), ToolRunner(release, tmp_path / "tested")
    try:
        measure(tested, bootstrap, level=2)
        for level in (1, 0):
            set_level(tools, bootstrap, level, "downgrade")
            java(release, "commit", bootstrap, TOPIC, f"level-{level}", "6")
            measure(tested, bootstrap, level)
        running = Running(tmp_path, release, "commit", bootstrap, TOPIC, "upgraded", "60")
        for level in (1, 2):
            running.skip(5)
            set_level(tools, bootstrap, level, "upgrade")
        running.finish()
    finally:
        tools.close()
        tested.close()
    java(release, "commit", bootstrap, TOPIC, "level-2", "6")
    runs = [6, 6, 60, 6]
    committed = [f"committed {number}" for count in runs for number in range(count) if number % 3]
    everything = [f"{'committed' if number % 3 else 'aborted'} {number}" for count in runs for number in range(count)]
    for partition in (0, 1):
        assert values(bootstrap, partition=partition) == committed
        assert values(bootstrap, "read_uncommitted", partition) == everything


@pytest.mark.parametrize("release", RELEASES)
def test_the_ways_of_connect_and_flink(release: str, start_broker: Callable[..., BrokerProcess]) -> None:
    bootstrap = start_broker().bootstrap
    create_topic(bootstrap, TOPIC, 2)
    assert java(release, "connect", bootstrap, TOPIC, "connector") == ["fenced", "aborted"]
    assert (values(bootstrap, partition=0), values(bootstrap, partition=1)) == ([], [])
    (line,) = java(release, "flink-begin", bootstrap, TOPIC, "flink")
    _, producer_id, epoch = line.split()
    assert values(bootstrap) == []
    assert java(release, "flink-resume", bootstrap, TOPIC, "flink", producer_id, epoch) == ["resumed"]
    assert values(bootstrap) == ["pre-committed"]
    (line,) = java(release, "timeout", bootstrap, "long", "3600000")
    assert "The transaction timeout is larger than the maximum value allowed by the broker" in line
    assert java(release, "timeout", bootstrap, "short", "900000") == ["allowed"]
