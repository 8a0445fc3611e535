"""Loops that consume, transform and produce in transactions, with each stock client, over kills, aborts, timeouts and fencing.

    python -m integration.transactions.transaction_loops --seed 1 --transactions 1000 [CLIENT...]

Each client has a broker of its own, and copies two partitions in transactions that take their offsets along. At moments that the
seed draws, a transaction is aborted; lasts until the broker aborts it; is held open while a second instance takes its
transactional id; or the broker is killed under it. In the end the copy, read with `read_committed`, must be equal to the input.
The exit code is the number of clients with a problem.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient

from testing.clients.isolation import has_no_open_transaction, read_values, reader_options
from testing.clients.stock import create_topic
from testing.places import JAVA_SOURCES, ROOT
from testing.process.broker import BrokerProcess
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath, logging_options
from testing.waiting import LONG_WAIT_S, WAIT_S, Deadline, line_of, until

CLIENTS: Final = (
    "java-3.9.2-classic",
    "java-3.9.2-consumer",
    "java-4.3.1-classic",
    "java-4.3.1-consumer",
    "confluent-kafka",
    "confluent-kafka-consumer",
    "aiokafka",
    "kafka-python",
)
JAVA_PROGRAM: Final = JAVA_SOURCES / "TransactionLoop.java"
INPUT: Final = "input"
OUTPUT: Final = "output"
NAME: Final = "loop"
"""The transactional id, and the group."""
PARTITIONS: Final = 2
RECORDS_MAX: Final = 3
"""In one transaction: so the input has this number of records for each transaction, and needs at least as many commits."""
ABORTS: Final = 0.15
"""The share of transactions that the client aborts."""


class Size(NamedTuple):
    """How long a loop is: committed transactions at least, kills, timeouts and second instances."""

    transactions: int = 1000
    kills: int = 10
    timeouts: int = 5
    instances: int = 5


class Result(NamedTuple):
    """The results of a loop: its transactions by their ends, what happened to it, and how many records only `read_uncommitted`
    has.

    `problems` has a line for everything that is not exact.
    """

    ends: Counter[str]
    events: Counter[str]
    aborted: int
    problems: list[str]


class Instance:
    """A process with a loop (`testing/clients/transaction_loop.py`)."""

    def __init__(self, client: str, bootstrap: str, folder: Path, number: int) -> None:
        where = [bootstrap, INPUT, OUTPUT, NAME]
        if client.startswith("java-"):
            _, release, protocol = client.split("-")
            # the client of 4.x otherwise logs errors to stdout
            options = ["-Xmx256m", *logging_options(folder, folder / f"client{number}.log")]
            command = [*quick_java(classpath(release), JAVA_PROGRAM), *options, JAVA_PROGRAM.stem, protocol, *where]
        else:
            command = [sys.executable, "-m", "testing.clients.transaction_loop", client, *where]
        self._log = folder / f"instance{number}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=ROOT)

    def send(self, instruction: str) -> None:
        """Give an instruction."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{instruction}\n".encode())
        self._process.stdin.flush()

    def line(self) -> str:
        """Return the next line. Raises AssertionError when the process has ended."""
        assert self._process.stdout is not None
        line = line_of(self._process.stdout, "a line of a loop", LONG_WAIT_S).decode().strip()
        if not line:
            raise AssertionError(f"a loop has ended with {self._process.wait(WAIT_S)}:\n{self._log.read_text()[-3000:]}")
        return line

    def expect(self, expected: str) -> None:
        """Wait for this line."""
        line = self.line()
        assert line == expected, f"{line!r} is not {expected!r}"

    def call(self, instruction: str) -> str:
        """Give an instruction, and return its line."""
        self.send(instruction)
        return self.line()

    def stop(self) -> None:
        """Let the process leave the group and end."""
        self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == 0, self._log.read_text()[-3000:]

    def close(self) -> None:
        """End the process, whatever its state."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate(timeout=WAIT_S)


class LoopRun:
    """A loop of one client on a broker of its own, from its first record to its last."""

    def __init__(self, client: str, broker: BrokerProcess, folder: Path, seed: int, size: Size) -> None:
        self._client, self._broker, self._folder, self._size = client, broker, folder, size
        self._random = Random(f"{seed} {client}")
        self._records = RECORDS_MAX * size.transactions
        self._instances: list[Instance] = []
        self._ends: Counter[str] = Counter()
        self._events: Counter[str] = Counter()
        self._problems: list[str] = []
        self._is_idle = True

    def run(self) -> Result:
        """Copy the input, and compare the copy with it."""
        bootstrap = self._broker.bootstrap
        for topic in (INPUT, OUTPUT):
            create_topic(bootstrap, topic, PARTITIONS)
        fill(bootstrap, self._records)
        try:
            self._copy()
        finally:
            for instance in self._instances:
                instance.close()
        return Result(self._ends, self._events, self._compare(), self._problems)

    def _instance(self) -> Instance:
        self._instances.append(Instance(self._client, self._broker.bootstrap, self._folder, len(self._instances)))
        return self._instances[-1]

    def _copy(self) -> None:
        special = self._moments()
        reader = confluent_kafka.Consumer(
            reader_options(self._broker.bootstrap, "read_committed") | {"enable.partition.eof": False}
        )
        reader.assign([confluent_kafka.TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])
        instance = self._instance()
        instance.expect("ready")
        instance.send("subscribe")
        instance.expect("subscribed")
        copied, deadline = 0, Deadline("a committed record")
        while copied < self._records:
            deadline.check()
            what = "abort" if self._random.random() < ABORTS else "commit"
            if not self._is_idle and special and self._ends.total() >= special[-1][0]:
                before = self._events.total()
                instance = self._special(instance, special[-1][1])
                if self._events.total() > before:
                    special.pop()
            else:
                instance = self._ended(instance, instance.call(what))
            new = sum(message.error() is None for message in reader.consume(1000, 0))
            if new:
                copied, deadline = copied + new, Deadline(f"a committed record after {copied + new}")
        reader.close()
        instance.stop()
        assert not special, f"the loop ended before {special}"

    def _moments(self) -> list[tuple[int, str]]:
        """Return the special transactions with their numbers, the first one last."""
        size = self._size
        names = ["kill"] * size.kills + ["timeout"] * size.timeouts + ["second"] * size.instances
        self._random.shuffle(names)
        numbers = self._random.sample(range(size.transactions * 3 // 4), len(names))
        return sorted(zip(numbers, names, strict=True), reverse=True)

    def _special(self, instance: Instance, what: str) -> Instance:
        """Let something happen to a transaction, unless there is none, and return the instance for the next one."""
        if what == "kill" and self._random.random() < 0.5:
            instance.send("commit")
            time.sleep(self._random.uniform(0, 0.02))
            self._kill()
            return self._ended(instance, instance.line())
        line = instance.call("hold")
        if line != "holding":
            return self._ended(instance, line)
        if what == "second":
            return self._replaced(instance)
        if what == "kill":
            self._kill()
            return self._ended(instance, instance.call("continue"))
        until(self._has_no_open_transaction, "the timeout of a transaction", pause_s=0.2)
        self._events["timeouts"] += 1
        line = instance.call("continue")
        if line == "committed":
            self._problems.append("a transaction was committed after its timeout")
        return self._ended(instance, line)

    def _has_no_open_transaction(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})
        try:
            return has_no_open_transaction(admin, OUTPUT, PARTITIONS)
        except confluent_kafka.KafkaException:  # also when the client does not know its way to the broker yet
            return False

    def _kill(self) -> None:
        self._broker.kill()
        self._broker.start()
        self._events["kills"] += 1

    def _ended(self, instance: Instance, line: str) -> Instance:
        """Count the end of a transaction, and let the producer begin again if it has to."""
        end = line.partition(" ")[0]
        self._is_idle = end == "idle"
        if not self._is_idle:
            self._ends["failed" if end == "fatal" else end] += 1
        if end == "fatal":
            instance.send("restart")
            instance.expect("ready")
        return instance

    def _replaced(self, first: Instance) -> Instance:
        """Let a second instance take the transactional id from a first one with an open transaction."""
        second = self._instance()
        second.expect("ready")
        subscribes_early = self._client != "aiokafka"  # only the transactional id fences it, so one member at a time is exact
        if subscribes_early:
            second.send("subscribe")
            second.expect("subscribed")
        line = first.call("continue")
        self._events["second instances"] += 1
        self._ends["failed"] += 1
        if line == "committed":
            self._problems.append("a transaction was committed after a second instance had taken its id")
        first.stop()
        if not subscribes_early:
            second.send("subscribe")
            second.expect("subscribed")
        return second

    def _compare(self) -> int:
        """Compare the output with the input, and return the number of aborted records."""
        bootstrap = self._broker.bootstrap
        aborted = 0
        for partition in range(PARTITIONS):
            source = read_values(bootstrap, INPUT, partition, "read_committed")
            copy = read_values(bootstrap, OUTPUT, partition, "read_committed")
            everything = read_values(bootstrap, OUTPUT, partition, "read_uncommitted")
            aborted += len(everything) - len(copy)
            if copy != source:
                lost, twice = Counter(source) - Counter(copy), Counter(copy) - Counter(source)
                what = f"{lost.total()} lost, {twice.total()} too many" if lost or twice else "another order"
                self._problems.append(f"partition {partition} is not the input: {what}: {[*lost, *twice][:5]}")
            if not Counter(copy) <= Counter(everything):
                self._problems.append(f"read_uncommitted lacks committed records in partition {partition}")
        if aborted == 0:
            self._problems.append("read_uncommitted has no aborted record")
        if "Traceback" in self._broker.log_text:
            self._problems.append("the broker's log has a traceback")
        return aborted


def fill(bootstrap: str, records: int) -> None:
    """Write the input."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(records):
        producer.produce(INPUT, str(number), partition=number % PARTITIONS)
    assert producer.flush(LONG_WAIT_S) == 0


def loop(client: str, folder: Path, seed: int, size: Size) -> Result:
    """Run the loop of a client on a new broker."""
    broker = BrokerProcess(folder)
    broker.start()
    try:
        return LoopRun(client, broker, folder, seed, size).run()
    finally:
        broker.close()


def listed(counts: Counter[str]) -> str:
    """Return the counts as a text."""
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)}; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transactions", type=int, default=Size().transactions, help="that are committed, at least")
    arguments = parser.parse_args()
    failed = 0
    for client in arguments.clients or CLIENTS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            result = loop(client, Path(folder), arguments.seed, Size(arguments.transactions))
        is_exact = f"{RECORDS_MAX * arguments.transactions} records are the input, and {result.aborted} were aborted"
        print(f"{client}: {listed(result.ends)}; {listed(result.events)};", "NOT EXACT" if result.problems else is_exact, end="")
        print(f"; {time.monotonic() - began:.0f} s", flush=True)
        for line in result.problems[:20]:
            print(f"    {line}", flush=True)
        failed += bool(result.problems)
    return failed


if __name__ == "__main__":
    sys.exit(main())
