"""The roles of a client: it writes numbers, does transactions, and reads. Each has a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NamedTuple, Protocol

END: Final = "end"
"""The value of the last record of each partition."""
LEFT, RIGHT = "left", "right"
"""The topics of the transactions of all clients."""
TRANSACTIONS_PER_S: Final = 8
UNDER_WAY_MAX: Final = 500
PAUSE_S: Final = 0.05
METADATA_AGE_MS: Final = 500
"""Java's client, kafka-python and aiokafka ask only the brokers of their last metadata, which has those that were live then. One
that saw a single broker waits for that one, however well the others are.
"""
RUN_S_MAX: Final = 24 * 60 * 60


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Producer(Protocol):
    """A producer of a client. The methods of transactions raise any exception when the end of the transaction is not known."""

    async def start(self) -> None:
        """Connect; with a transactional id, take it over, which aborts what is open."""

    async def send(self, topic: str, partition: int, value: str, done: Callable[[int, str], None]) -> None:
        """Send a record. `done` gets its offset, or -1 and the error, in any thread."""

    async def rest(self, seconds: float) -> None:
        """Wait for this long, and see to it that `done` is called meanwhile."""

    async def deliver(self) -> None:
        """Wait until every record is written, or has failed."""

    async def begin(self) -> None: ...

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None: ...


class Consumer(Protocol):
    """A consumer of a client, which reads committed records from the beginning on."""

    async def start(self, topics: list[str], partitions: int) -> None:
        """Subscribe in its group; without a group, take all partitions."""

    async def poll(self) -> list[Record]:
        """Return records, after a moment at the latest. An error that passes is an empty list."""

    async def commit(self, ends: dict[tuple[str, int], int]) -> bool:
        """Commit the positions, and return whether the broker has confirmed them."""

    async def close(self) -> None: ...


class Library(Protocol):
    """A client library."""

    def producer(self, transactional_id: str = "") -> Producer: ...

    def consumer(self, group: str = "") -> Consumer: ...


def report(*words: object) -> None:
    """Write a line at once, whichever thread reports."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


class Roles:
    """The roles of one client."""

    def __init__(self, library: Library, name: str, topics: list[str], partitions: int, rate: float) -> None:
        self._library, self._name, self._topics, self._partitions, self._rate = library, name, topics, partitions, rate
        self._is_over = threading.Event()
        self._sent = 0

    def run(self) -> None:
        """Work until stdin has the line "stop", and read the rest."""
        writing = [in_thread("write", self._write()), in_thread("transact", self._transact())]
        reading = in_thread("follow", self._follow())
        sys.stdin.readline()
        self._is_over.set()
        for thread in writing:
            thread.join(RUN_S_MAX)
        report("stopped", self._sent)
        reading.join(RUN_S_MAX)
        sys.stdin.readline()
        in_thread("read all", self._read_all()).join(RUN_S_MAX)
        report("done")

    async def _write(self) -> None:
        producer = self._library.producer()
        await producer.start()
        under_way = threading.Semaphore(UNDER_WAY_MAX)
        began = time.monotonic()
        for number in itertools.count():
            while not under_way.acquire(blocking=False) and not self._is_over.is_set():
                await producer.rest(PAUSE_S)
            if self._is_over.is_set():
                break
            await producer.send(self._name, number % self._partitions, str(number), acknowledgement(number, under_way))
            self._sent = number + 1
            await producer.rest(max(0, number / self._rate - (time.monotonic() - began)))
        await producer.deliver()
        await producer.close()

    async def _transact(self) -> None:
        producer = None
        for number in itertools.count():
            if self._is_over.is_set():
                break
            is_known = False
            try:
                if producer is None:
                    producer = self._library.producer(f"{self._name}-transactions")
                    await producer.start()
                await self._transaction(producer, number)
                is_known = True
            except Exception as error:
                report("unknown", number, repr(error))
            if producer is not None and not is_known:
                producer = await ended(producer)
            await asyncio.sleep(1 / TRANSACTIONS_PER_S)
        if producer is not None:
            await producer.close()

    async def _transaction(self, producer: Producer, number: int) -> None:
        here, there = number % self._partitions, (number + 1) % self._partitions
        errors: list[str] = []

        def done(_: int, error: str) -> None:
            if error:
                errors.append(error)

        await producer.begin()
        await producer.send(LEFT, here, f"{self._name}:{number}", done)
        await producer.send(RIGHT, here, f"{self._name}:{number}", done)
        await producer.send(RIGHT, there, f"{self._name}:{number}+", done)
        if number % 5 == 4:
            await producer.deliver()
            await producer.abort()
            report("aborted", number)
        else:
            await producer.commit()
            if errors:
                raise RuntimeError(f"committed although {errors[0]}")
            report("committed", number)

    async def _follow(self) -> None:
        consumer = self._library.consumer(f"{self._name}-group")
        await consumer.start(self._topics, self._partitions)
        left = {(topic, number) for topic in self._topics for number in range(self._partitions)}
        while left:
            records = await consumer.poll()
            left -= note("read", records)
            ends = {(one.topic, one.partition): one.offset + 1 for one in records}
            if ends and await consumer.commit(ends):
                for (topic, number), offset in ends.items():
                    report("stored", topic, number, offset)
        await consumer.close()

    async def _read_all(self) -> None:
        consumer = self._library.consumer()
        await consumer.start(self._topics, self._partitions)
        left = {(topic, number) for topic in self._topics for number in range(self._partitions)}
        while left:
            left -= note("last", await consumer.poll())
        await consumer.close()


def note(word: str, records: Iterable[Record]) -> set[tuple[str, int]]:
    """Report records, and return the partitions that end with them."""
    lines = [f"{word} {one.topic} {one.partition} {one.offset} {one.value}\n" for one in records]
    os.write(1, "".join(lines).encode())
    return {(one.topic, one.partition) for one in records if one.value == END}


def acknowledgement(number: int, under_way: threading.Semaphore) -> Callable[[int, str], None]:
    def done(offset: int, error: str) -> None:
        report(*(("failed", number, error) if error else ("acked", number, offset)))
        under_way.release()

    return done


async def ended(producer: Producer) -> Producer | None:
    """Abort what may be open. Return the producer, or None when it is of no more use."""
    try:
        await producer.abort()
    except Exception:
        try:
            await producer.close()
        except Exception as error:
            print(f"a producer ends with {error!r}", file=sys.stderr)
        return None
    return producer


def in_thread(name: str, role: Coroutine[Any, Any, None]) -> threading.Thread:
    def run() -> None:
        try:
            asyncio.run(role)
        except BaseException as error:
            report("broken", name, repr(error))
            raise

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
