"""Histories of transactions over real processes: stock writers and readers, and a broker that is killed on a seeded schedule.

    python -m integration.transactions.transaction_histories --seed 1 --minutes 10

Each history has a broker of its own. Everything that was written and seen is checked as a whole
(`testing/transactions/checker.py`). The exit code is the number of histories with a problem, at most 100.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.clients.isolation import has_no_open_transaction, last_offset, read_whole, reader_options
from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess
from testing.transactions.checker import problems
from testing.transactions.history import Contents, History, Outcome, Reading, StableOffset, Written
from testing.waiting import until

TOPIC: Final = "histories"
CALL_S: Final = 30
LIMIT_S: Final = 240


class Size(NamedTuple):
    """How large a history is: threads, partitions, transactions of each writer, and kills of the broker."""

    writers: int = 3
    readers: int = 2
    partitions: int = 3
    transactions: int = 60
    kills: int = 4


class Writer(threading.Thread):
    """A transactional producer that begins again after every error that does not let it continue."""

    def __init__(
        self, bootstrap: str, number: int, size: Size, random: Random, history: History, ended: Callable[[], None]
    ) -> None:
        super().__init__(name=f"writer {number}", daemon=True)
        self._servers, self.transactional_id = bootstrap, f"id-{number}"
        self._size, self._random, self._history, self._ended = size, random, history, ended
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            producer = started(self._servers, self.transactional_id)
            for number in range(self._size.transactions):
                if not self._write(producer, number):
                    producer = started(self._servers, self.transactional_id)
                self._ended()
        except BaseException as error:
            self.error = error

    def _write(self, producer: Producer, number: int) -> bool:
        """Write one transaction; return whether the producer can begin another one."""
        written = self._history.begin(self.name, number)
        is_commit = self._random.random() < 0.7
        partitions = self._random.sample(range(self._size.partitions), self._random.randint(1, self._size.partitions))
        try:
            producer.begin_transaction()
            for partition in partitions:
                for value in written.new_values(partition, self._random.randint(1, 5)):
                    producer.produce(TOPIC, value, partition=partition, on_delivery=_noted(written, value))
            if self._random.random() < 0.1:
                return False  # another instance takes the id, and the transaction with it
            if is_commit:
                _commit(producer, written)
            else:
                producer.flush(CALL_S)
                _again(lambda: producer.abort_transaction(CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                return False
            try:
                _again(lambda: producer.abort_transaction(CALL_S))
            except KafkaException:
                return False
            written.outcome = Outcome.ABORTED
        return True


def _noted(written: Written, value: bytes) -> Callable[[KafkaError | None, object], None]:
    def note(error: KafkaError | None, _message: object) -> None:
        if error is None:
            written.acknowledged.add(value)

    return note


def _commit(producer: Producer, written: Written) -> None:
    written.outcome = Outcome.UNKNOWN
    _again(lambda: producer.commit_transaction(CALL_S))
    written.outcome = Outcome.COMMITTED


def _again(call: Callable[[], object]) -> None:
    """Call until there is a result. Raises KafkaException when the client's error shows that trying again is of no use."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def started(bootstrap: str, transactional_id: str) -> Producer:
    """Return a producer that has the id, which ends what another one had open."""
    options = {"transaction.timeout.ms": 20_000, "message.timeout.ms": 15_000, "linger.ms": 1, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **options})
    _again(lambda: producer.init_transactions(CALL_S))
    return producer


class Reader(threading.Thread):
    """A consumer with `read_committed` of one partition, from its begin until `stop`."""

    def __init__(self, bootstrap: str, number: int, partition: int, stop: threading.Event) -> None:
        super().__init__(name=f"reader {number}", daemon=True)
        self._servers, self._partition, self._stop_event = bootstrap, partition, stop
        self.records: list[tuple[int, bytes]] = []

    def run(self) -> None:
        consumer = Consumer(reader_options(self._servers, "read_committed"))
        consumer.assign([TopicPartition(TOPIC, self._partition, 0)])
        while not self._stop_event.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.records.append((message.offset(), message.value()))
        consumer.close()

    def reading(self) -> Reading:
        """Return what was read."""
        return Reading(self.name, self._partition, self.records, self.records[-1][0] + 1 if self.records else 0)


def watch(bootstrap: str, partitions: int, history: History, stop: threading.Event) -> None:
    """Note last stable offsets until `stop`."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    while not stop.wait(0.02):
        for partition in range(partitions):
            began = history.stamp()
            with contextlib.suppress(KafkaException):  # the broker is away
                offset = last_offset(admin, TOPIC, partition, "read_committed")
                if offset >= 0:  # librdkafka also gives an invalid offset without an error
                    history.stable_offsets.append(StableOffset(partition, offset, began, history.stamp()))


def read_all(bootstrap: str, partition: int, isolation: str, topic: str = TOPIC) -> list[tuple[int, bytes]]:
    """Return everything that a reader with this isolation gets of the partition."""
    return [(message.offset(), message.value()) for message in read_whole(bootstrap, topic, partition, isolation)]


def run(broker: BrokerProcess, seed: int, size: Size) -> History:
    """Let a history happen on a broker that runs, and return it."""
    random, history = Random(seed), History()
    bootstrap = broker.bootstrap
    create_topic(bootstrap, TOPIC, size.partitions)
    ended = threading.Semaphore(0)
    stop = threading.Event()
    writers = [Writer(bootstrap, number, size, Random(random.random()), history, ended.release) for number in range(size.writers)]
    readers = [Reader(bootstrap, number, number % size.partitions, stop) for number in range(size.readers)]
    watcher = threading.Thread(target=watch, args=(bootstrap, size.partitions, history, stop), daemon=True)
    for thread in (*writers, *readers, watcher):
        thread.start()
    share = size.writers * size.transactions // (size.kills + 1)
    for _ in range(size.kills):
        for _ in range(random.randint(share // 2, share)):
            assert ended.acquire(timeout=LIMIT_S), "no transaction ends"
        broker.kill()
        broker.start()
    for writer in writers:
        writer.join(LIMIT_S)
        assert not writer.is_alive(), f"{writer.name} hangs"
        assert writer.error is None, f"{writer.name}: {writer.error!r}"
    for writer in writers:
        started(bootstrap, writer.transactional_id)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    with contextlib.suppress(AssertionError):  # the checker reports what hangs
        until(lambda: has_no_open_transaction(admin, TOPIC, size.partitions), "the last stable offsets reach the ends", CALL_S)
    stop.set()
    for thread in (*readers, watcher):
        thread.join(LIMIT_S)
    for number in range(size.partitions):
        history.last[number] = Contents(
            read_all(bootstrap, number, "read_committed"),
            read_all(bootstrap, number, "read_uncommitted"),
            last_offset(admin, TOPIC, number, "read_committed"),
            last_offset(admin, TOPIC, number, "read_uncommitted"),
        )
    history.readings = [reader.reading() for reader in readers]
    return history


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first history; each further one has the next")
    parser.add_argument("--minutes", type=float, default=1.0, help="when no further history is begun")
    parser.add_argument("--transactions", type=int, default=Size().transactions, help="of each of the writers")
    arguments = parser.parse_args()
    end, seed, failed = time.monotonic() + 60 * arguments.minutes, arguments.seed, 0
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            broker = BrokerProcess(Path(folder))
            broker.start()
            try:
                history = run(broker, seed, Size(transactions=arguments.transactions))
            finally:
                broker.close()
        found = problems(history)
        ends = [sum(one.outcome is outcome for one in history.transactions) for outcome in Outcome]
        print(f"seed {seed}:", *(f"{count} {outcome.value}" for count, outcome in zip(ends, Outcome, strict=True)), flush=True)
        for line in found[:20]:
            print(f"    {line}", flush=True)
        failed += bool(found)
        seed += 1
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
