"""A loop that consumes, transforms and produces, in a process of its own, which does one transaction for each instruction.

    python -m testing.clients.transaction_loop CLIENT BOOTSTRAP INPUT OUTPUT ID

CLIENT is confluent-kafka, confluent-kafka-consumer (with the consumer protocol), kafka-python or aiokafka. ID is the
transactional id and the group. A transaction copies up to 3 records of INPUT to the same partition of OUTPUT, and commits their
offsets. The instructions come as lines of stdin, and each gets a line of stdout:

    subscribe  subscribed  the consumer subscribes
    commit     committed   the transaction is committed
    abort      aborted     it is aborted, and the consumer is back at the committed offsets
    hold       holding     its records and offsets are written; the next line of stdin lets the program commit
    restart    ready       a new producer has the id, and the consumer is back at the committed offsets; also the first line

Instead of its line a transaction may get "idle" (there was no record), "failed ERROR" (the client had to abort it, and the
consumer is back) or "fatal ERROR" (the producer is of no more use). The program ends when stdin does.
SIGUSR1 makes it write where its threads are to stderr.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from testing.clients.group_member import has_forgotten_its_join

RECORDS_MAX: Final = 3
POLL_S: Final = 0.5
CALL_S: Final = 30
TRANSACTION_TIMEOUT_MS: Final = 3000
PAUSE_S: Final = 0.1
"""Between two tries of a call that the client leaves to its caller while the broker is away."""

T = TypeVar("T")


class FatalError(Exception):
    """The producer is of no more use."""


class AbortableError(Exception):
    """The transaction must be aborted."""


class Loop(Protocol):
    """The steps that clients do in their own ways. Only `FatalError` and `AbortableError` leave `write`, `commit` and `abort`."""

    async def start(self) -> None:
        """Make a producer that has the id."""

    async def subscribe(self) -> None:
        """Let the consumer subscribe."""

    async def poll(self) -> list[Any]:
        """Return up to RECORDS_MAX records, after POLL_S at the latest."""

    async def write(self, records: list[Any]) -> None:
        """Begin a transaction with the records and their offsets."""

    async def flush(self) -> None:
        """Wait until the records are written."""

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def rewind(self) -> None:
        """Go back to the committed offsets."""

    async def close(self) -> None: ...


class Confluent:
    """librdkafka."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str, protocol: str) -> None:
        import confluent_kafka  # noqa: PLC0415 (each process needs one client)

        # "rebootstrap" lets send_offsets_to_transaction wait for a connection that is gone for good (docs/clients.md)
        options = {"bootstrap.servers": bootstrap, "log_level": 0, "metadata.recovery.strategy": "none"}
        self._kafka, self._servers = confluent_kafka, options
        self._source, self._target, self._name = source, target, name
        self._consumer = confluent_kafka.Consumer(
            self._servers
            | {
                "group.id": name,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._producer: Any = None

    async def start(self) -> None:
        self._producer = self._kafka.Producer(
            self._servers | {"transactional.id": self._name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "linger.ms": 0}
        )
        self._call(lambda: self._producer.init_transactions(CALL_S))

    async def subscribe(self) -> None:
        self._consumer.subscribe([self._source])

    async def poll(self) -> list[Any]:
        return [message for message in self._consumer.consume(RECORDS_MAX, POLL_S) if message.error() is None]

    async def write(self, records: list[Any]) -> None:
        ends = {one.partition(): one.offset() + 1 for one in records}
        offsets = [self._kafka.TopicPartition(self._source, partition, offset) for partition, offset in ends.items()]
        group = self._consumer.consumer_group_metadata()

        def begin() -> None:
            self._producer.begin_transaction()
            for one in records:
                self._producer.produce(self._target, one.value(), partition=one.partition())

        self._call(begin)
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, group, CALL_S))

    async def flush(self) -> None:
        self._producer.flush(CALL_S)

    async def commit(self) -> None:
        self._call(lambda: self._producer.commit_transaction(CALL_S))

    async def abort(self) -> None:
        self._call(lambda: self._producer.abort_transaction(CALL_S))

    async def rewind(self) -> None:
        def seek() -> None:
            for one in self._consumer.committed(self._consumer.assignment(), CALL_S):
                self._consumer.seek(self._kafka.TopicPartition(one.topic, one.partition, max(one.offset, 0)))

        again(seek, self._kafka.KafkaException)

    async def close(self) -> None:
        self._consumer.close()

    def _call(self, call: Callable[[], object]) -> None:
        while True:
            try:
                call()
            except self._kafka.KafkaException as error:
                cause = error.args[0]
                if cause.txn_requires_abort():
                    raise AbortableError(repr(cause)) from error
                if not cause.retriable():
                    raise FatalError(repr(cause)) from error
            else:
                return


def consumer_options(bootstrap: str, group: str) -> dict[str, Any]:
    """Return the options of a consumer in a loop, which kafka-python and aiokafka name alike."""
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }


class KafkaPython:
    """kafka-python, which has the classic protocol only."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        import kafka  # noqa: PLC0415

        self._kafka, self._servers = kafka, bootstrap
        self._source, self._target, self._name = source, target, name
        self._consumer: Any = None
        self._producer: Any = None

    async def start(self) -> None:
        if self._producer is not None:
            self._producer.close(0)
        self._producer = self._kafka.KafkaProducer(
            bootstrap_servers=self._servers,
            transactional_id=self._name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self._call(self._producer.init_transactions)

    async def subscribe(self) -> None:
        self._consumer = self._kafka.KafkaConsumer(self._source, **consumer_options(self._servers, self._name))

    async def poll(self) -> list[Any]:
        if has_forgotten_its_join(self._consumer):
            self._consumer.close()
            await self.subscribe()
        try:
            read = self._consumer.poll(int(1000 * POLL_S), RECORDS_MAX)
        except self._kafka.errors.KafkaConnectionError:  # while no broker listens, this client leaves the retry to its caller
            await asyncio.sleep(PAUSE_S)
            return []
        return [record for records in read.values() for record in records]

    async def write(self, records: list[Any]) -> None:
        offsets = {
            self._kafka.TopicPartition(self._source, one.partition): self._kafka.OffsetAndMetadata(one.offset + 1, "", -1)
            for one in records
        }

        def write() -> None:
            self._producer.begin_transaction()
            for one in records:
                self._producer.send(self._target, one.value, partition=one.partition)
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

        self._call(write)

    async def flush(self) -> None:
        self._call(lambda: self._producer.flush(CALL_S))

    async def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    async def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    async def rewind(self) -> None:
        def seek() -> None:
            for where in self._consumer.assignment():
                self._consumer.seek(where, self._consumer.committed(where) or 0)

        again(seek, self._kafka.errors.KafkaError)

    async def close(self) -> None:
        self._producer.close(0)
        self._consumer.close()

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except self._kafka.errors.ProducerFencedError as error:
            raise FatalError(repr(error)) from error
        except self._kafka.errors.KafkaError as error:
            raise AbortableError(repr(error)) from error


class AioKafka:
    """aiokafka, which has the classic protocol only."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        import aiokafka  # noqa: PLC0415

        self._kafka, self._servers = aiokafka, bootstrap
        self._source, self._target, self._name = source, target, name
        self._consumer: Any = None
        self._producer: Any = None
        self._sent: list[asyncio.Future[Any]] = []

    async def start(self) -> None:
        if self._producer is not None:
            await self._end(self._producer)
        self._producer = self._kafka.AIOKafkaProducer(
            bootstrap_servers=self._servers, transactional_id=self._name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        await self._call(self._producer.start)

    async def subscribe(self) -> None:
        self._consumer = self._kafka.AIOKafkaConsumer(self._source, **consumer_options(self._servers, self._name))
        await self._consumer.start()

    async def poll(self) -> list[Any]:
        read = await self._consumer.getmany(timeout_ms=int(1000 * POLL_S), max_records=RECORDS_MAX)
        return [record for records in read.values() for record in records]

    async def write(self, records: list[Any]) -> None:
        offsets = {self._kafka.TopicPartition(self._source, one.partition): one.offset + 1 for one in records}

        async def write() -> None:
            await self._producer.begin_transaction()
            for one in records:
                self._sent.append(await self._producer.send(self._target, one.value, partition=one.partition))
            await self._producer.send_offsets_to_transaction(offsets, self._name)

        await self._call(write)

    async def flush(self) -> None:
        await self._call(self._producer.flush)

    async def commit(self) -> None:
        await self._call(self._producer.commit_transaction)
        await self._forget()

    async def abort(self) -> None:
        await self._call(self._producer.abort_transaction)
        await self._forget()

    async def rewind(self) -> None:
        while True:
            try:
                for where in self._consumer.assignment():
                    self._consumer.seek(where, await self._consumer.committed(where) or 0)
            except self._kafka.errors.KafkaError:
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def close(self) -> None:
        await self._consumer.stop()
        await self._end(self._producer)

    async def _end(self, producer: Any) -> None:
        try:
            await asyncio.wait_for(producer.stop(), CALL_S)
        except (self._kafka.errors.KafkaError, TimeoutError) as error:
            print(f"the producer ends with {error!r}", file=sys.stderr)
        await self._forget()

    async def _forget(self) -> None:
        """Take the errors out of the futures, so that asyncio does not log them."""
        await asyncio.gather(*self._sent, return_exceptions=True)
        self._sent.clear()

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except self._kafka.errors.ProducerFenced as error:
            raise FatalError(repr(error)) from error
        except self._kafka.errors.KafkaError as error:
            raise AbortableError(repr(error)) from error


def again(call: Callable[[], object], errors: type[Exception]) -> None:
    """Call until there is no error of this class, or CALL_S is over."""
    end = time.monotonic() + CALL_S
    while True:
        try:
            call()
        except errors:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE_S)
        else:
            return


def report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def next_line() -> str:
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def transaction(loop: Loop, instruction: str) -> str:
    """Do one transaction, and return the line for it."""
    records = await loop.poll()
    if not records:
        return "idle"
    try:
        await loop.write(records)
        if instruction != "commit":
            await loop.flush()
        if instruction == "abort":
            await loop.abort()
            await loop.rewind()
            return "aborted"
        if instruction == "hold":
            report("holding")
            await next_line()
        await loop.commit()
    except FatalError as error:
        return f"fatal {error}"
    except AbortableError as error:
        try:
            await loop.abort()
        except (FatalError, AbortableError) as second:
            return f"fatal {error}, then {second}"
        await loop.rewind()
        return f"failed {error}"
    return "committed"


async def serve(loop: Loop) -> None:
    """Follow the instructions."""
    await loop.start()
    report("ready")
    while instruction := await next_line():
        if instruction == "subscribe":
            await loop.subscribe()
            report("subscribed")
        elif instruction == "restart":
            await loop.start()
            await loop.rewind()
            report("ready")
        else:
            report(await transaction(loop, instruction))
    await loop.close()


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    client, *where = sys.argv[1:]
    bootstrap, source, target, name = where
    loop: Loop
    if client == "aiokafka":
        loop = AioKafka(bootstrap, source, target, name)
    elif client == "kafka-python":
        loop = KafkaPython(bootstrap, source, target, name)
    else:
        kind = client.removeprefix("confluent-kafka").removeprefix("-")
        loop = Confluent(bootstrap, source, target, name, kind or "classic")
    asyncio.run(serve(loop))


if __name__ == "__main__":
    main()
