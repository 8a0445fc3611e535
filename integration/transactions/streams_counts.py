"""Kafka Streams with `exactly_once_v2` counts exactly, although its processes and the broker are killed while input arrives.

    python -m integration.transactions.streams_counts --seed 1 --minutes 10

Each run has a broker of its own, and an application with a repartition topic, a state store and its changelog topic
(`testing/java/StreamsCount.java`). Each record gives its key the next count, so the output of a key must be 1, 2, 3 up to the
number of its records. The exit code is the number of runs with a problem, at most 100.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from subprocess import PIPE, Popen
from typing import Final, NamedTuple

import confluent_kafka

from testing.clients.isolation import read_whole, reader_options
from testing.clients.stock import create_topic
from testing.places import JAVA_SOURCES
from testing.process.broker import BrokerProcess
from testing.process.java import quick_java
from testing.process.maven import streams_jars
from testing.waiting import LONG_WAIT_S, WAIT_S, Deadline, line_of

RELEASES: Final = ("3.9.2", "4.3.1")
STORES: Final = ("memory", "rocksdb")
PROGRAM: Final = JAVA_SOURCES / "StreamsCount.java"
APPLICATION: Final = "counting"
INPUT: Final = "input"
OUTPUT: Final = "output"
CHANGELOG: Final = f"{APPLICATION}-counts-changelog"
PARTITIONS: Final = 2
KEYS: Final = 20
AHEAD: Final = 50
"""How many records the input may be ahead of the output. So input arrives all the time, also while a process is away."""
SETTINGS: Final = {"group.min.session.timeout.ms": "1000"}
"""A setting of the broker: the group waits for a killed member until its session is over, and no run has the usual 45 seconds for
that.
"""


class Size(NamedTuple):
    """How large a run is: records, kills of the application, and kills of the broker."""

    records: int = 5000
    kills: int = 6
    broker_kills: int = 1


class Result(NamedTuple):
    """The state in the end: the number of committed counts and of aborted ones, and a line for each problem."""

    committed: int
    aborted: int
    problems: list[str]


class Application:
    """The program as a process that is killed and started again. Its state and its log are in `folder`."""

    def __init__(self, bootstrap: str, folder: Path, release: str, store: str, instance: str | None) -> None:
        java = [*quick_java(streams_jars(release), PROGRAM), "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._state, self._log = folder / "state", folder / "streams.log"
        arguments = [bootstrap, APPLICATION, INPUT, OUTPUT, str(self._state), store]
        self._command = [*java, PROGRAM.stem, *arguments, *([instance] if instance else [])]
        self._process: Popen[bytes] | None = None

    def start(self) -> None:
        """Start a process, and return when it is in its first state, which is before it has any partitions."""
        with self._log.open("ab") as log:
            self._process = Popen(self._command, stdout=PIPE, stderr=log)
        assert self._process.stdout is not None
        line_of(self._process.stdout, "the first state of Kafka Streams", LONG_WAIT_S)

    def kill(self) -> None:
        """Send SIGKILL, if a process runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=WAIT_S)
            self._process = None

    def lose_state(self) -> None:
        """Remove the folder of the state, as on a new machine. No process may run."""
        assert self._process is None
        shutil.rmtree(self._state, ignore_errors=True)

    def stop(self) -> None:
        """Let the application close itself."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=WAIT_S)
        self._process = None

    def check(self) -> None:
        """Raise AssertionError when the process has ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]


class Feeder(threading.Thread):
    """A producer of the input, at most AHEAD records ahead of the output. `counts` has what it will have sent."""

    def __init__(self, bootstrap: str, records: int, random: Random) -> None:
        super().__init__(name="feeder", daemon=True)
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 1000 * LONG_WAIT_S, "log_level": 0}
        )
        self._words = [f"key {random.randrange(KEYS)}" for _ in range(records)]
        self._random, self._room = random, threading.Semaphore(AHEAD)
        self.counts = Counter(self._words)
        self.problems: list[str] = []

    def run(self) -> None:
        for word in self._words:
            if not self._room.acquire(timeout=LONG_WAIT_S):
                self.problems.append("the output does not follow the input")
                return
            self._producer.produce(INPUT, word, partition=self._random.randrange(PARTITIONS), on_delivery=self._note)
            self._producer.poll(0)
        if self._producer.flush(LONG_WAIT_S):
            self.problems.append("the input was not acknowledged")

    def _note(self, error: confluent_kafka.KafkaError | None, _message: object) -> None:
        if error is not None:
            self.problems.append(f"the input was refused: {error}")

    def has_output(self) -> None:
        """Let one more record follow, because one has been counted."""
        self._room.release()


def moments(random: Random, size: Size) -> list[tuple[int, bool]]:
    """Return the numbers of counts after which something is killed, in order, and whether it is the broker."""
    kills = size.kills + size.broker_kills
    after = sorted(random.sample(range(size.records // 20, size.records * 19 // 20), kills))
    of_broker = set(random.sample(range(kills), size.broker_kills))
    return [(count, place in of_broker) for place, count in enumerate(after)]


def run(broker: BrokerProcess, folder: Path, seed: int, size: Size, *, release: str, store: str) -> Result:
    """Let the application count on a broker that runs, and kill both meanwhile."""
    random = Random(seed)
    for topic in (INPUT, OUTPUT):
        create_topic(broker.bootstrap, topic, PARTITIONS)
    instance = random.choice(("instance", None))
    application = Application(broker.bootstrap, folder, release, store, instance)
    feeder = Feeder(broker.bootstrap, size.records, random)
    try:
        application.start()
        feeder.start()
        _follow(broker, application, feeder, random, size)
        feeder.join(LONG_WAIT_S)
        application.stop()
    finally:
        application.kill()
    return _result(broker.bootstrap, feeder)


def _follow(broker: BrokerProcess, application: Application, feeder: Feeder, random: Random, size: Size) -> None:
    """Read until there is a committed count for each record of the input.

    The kills come right behind counts that are not committed yet, so that they interrupt transactions.
    """
    written, committed = reader(broker.bootstrap, "read_uncommitted"), reader(broker.bootstrap, "read_committed")
    left = moments(random, size)
    deadline = Deadline("a committed count")
    seen = counted = 0
    try:
        while counted < size.records:
            deadline.check()
            application.check()
            if is_record(written.poll(0.1)):
                seen += 1
                feeder.has_output()
                while left and seen >= left[0][0]:
                    _, is_broker = left.pop(0)
                    _kill(broker if is_broker else application, application, random)
            new = sum(map(is_record, committed.consume(100, 0)))
            if new:
                counted += new
                deadline = Deadline(f"a committed count after {counted}")
    finally:
        written.close()
        committed.close()


def reader(bootstrap: str, isolation: str) -> confluent_kafka.Consumer:
    """Return a consumer of the whole output."""
    consumer = confluent_kafka.Consumer(reader_options(bootstrap, isolation))
    consumer.assign([confluent_kafka.TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])
    return consumer


def is_record(message: confluent_kafka.Message | None) -> bool:
    """Return whether a poll returned a record, and not an error, as while the broker is away."""
    return message is not None and message.error() is None


def _kill(killed: BrokerProcess | Application, application: Application, random: Random) -> None:
    """Kill a process and start it again. The application may also lose its state, and be killed again before it counts."""
    killed.kill()
    if isinstance(killed, Application) and random.random() < 0.3:
        killed.lose_state()
    killed.start()
    if isinstance(killed, Application) and random.random() < 0.3:
        killed.kill()
        killed.start()


def _result(bootstrap: str, feeder: Feeder) -> Result:
    """Compare the topics with the input. Nothing may write any more."""
    problems = list(feeder.problems)
    counts: dict[str, list[int]] = defaultdict(list)
    committed = everything = 0
    changelog: dict[str, int] = {}
    for partition in range(PARTITIONS):
        for message in read_whole(bootstrap, OUTPUT, partition, "read_committed"):
            counts[message.key().decode()].append(int(message.value()))
            committed += 1
        everything += len(read_whole(bootstrap, OUTPUT, partition, "read_uncommitted"))
        for message in read_whole(bootstrap, CHANGELOG, partition, "read_committed"):
            changelog[message.key().decode()] = int.from_bytes(message.value(), "big")
    for key in sorted(feeder.counts.keys() | counts.keys()):
        times, found = feeder.counts[key], counts[key]
        if found != list(range(1, times + 1)):
            problems.append(f"{key} is there {times} times, and has {len(found)} counts, which end with {found[-5:]}")
    if changelog != dict(feeder.counts):
        problems.append(f"the changelog ends with {changelog}, and the input has {dict(feeder.counts)}")
    return Result(committed, everything - committed, problems)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each further one has the next")
    parser.add_argument("--minutes", type=float, default=1.0, help="when no further run is begun")
    parser.add_argument("--records", type=int, default=Size().records, help="of the input")
    parser.add_argument("--kills", type=int, default=Size().kills, help="of the application")
    arguments = parser.parse_args()
    end, failed = time.monotonic() + 60 * arguments.minutes, 0
    size = Size(arguments.records, arguments.kills)
    kinds = list(itertools.product(RELEASES, STORES))
    for seed in itertools.count(arguments.seed):
        if time.monotonic() > end:
            return min(failed, 100)
        release, store = kinds[seed % len(kinds)]
        with tempfile.TemporaryDirectory() as folder:
            broker = BrokerProcess(Path(folder), SETTINGS)
            broker.start()
            try:
                result = run(broker, Path(folder), seed, size, release=release, store=store)
            finally:
                broker.close()
        what = f"Kafka Streams {release} with {store}: {size.kills} kills, and {size.broker_kills} of the broker"
        print(f"seed {seed}: {what}; {result.committed} counts committed, {result.aborted} aborted", flush=True)
        for line in result.problems[:20]:
            print(f"    {line}", flush=True)
        failed += bool(result.problems)
    raise AssertionError("seeds do not end")


if __name__ == "__main__":
    sys.exit(main())
