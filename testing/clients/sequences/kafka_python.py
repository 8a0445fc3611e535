"""kafka-python, whose groups have the classic protocol only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError

from testing.clients.group_member import has_forgotten_its_join
from testing.clients.sequences.roles import METADATA_AGE_MS, PAUSE_S, Record
from testing.waiting import within

CALL_S: Final = 60
TRANSACTION_S: Final = 15


class KafkaPythonProducer:
    """A producer. The end of a transaction has a limit, because release 3.0.12 may never send the request.

    When the connection to its coordinator fails at that moment, `Sender._maybe_send_pending_request` asks for the coordinator and
    forgets the request: it sends it again only if `target_node` is None.
    """

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap, "acks": "all", "enable_idempotence": True, "linger_ms": 2, "request_timeout_ms": 5000,
            "delivery_timeout_ms": 120_000, "metadata_max_age_ms": METADATA_AGE_MS,
        }  # fmt: skip
        if transactional_id:
            settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": 10_000}
        self._settings = settings
        self._producer: Any = None
        self._is_lost = False

    async def start(self) -> None:
        self._producer = KafkaProducer(**self._settings)
        if "transactional_id" in self._settings:
            self._end(self._producer.init_transactions)

    async def send(self, topic: str, partition: int, value: str, done: Callable[[int, str], None]) -> None:
        future = self._producer.send(topic, value.encode(), partition=partition)
        future.add_callback(lambda found: done(found.offset, ""))
        future.add_errback(lambda error: done(-1, repr(error)))

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def deliver(self) -> None:
        self._producer.flush(CALL_S)

    async def begin(self) -> None:
        self._producer.begin_transaction()

    async def commit(self) -> None:
        self._end(self._producer.commit_transaction)

    async def abort(self) -> None:
        self._end(self._producer.abort_transaction)

    async def close(self) -> None:
        if self._producer is not None:
            self._producer.close(0 if self._is_lost else CALL_S)

    def _end(self, call: Callable[[], object]) -> None:
        if self._is_lost:
            raise TimeoutError("the producer waits without end")
        try:
            within(TRANSACTION_S, "the end of a transaction", lambda: (call(), True))
        except TimeoutError:
            self._is_lost = True
            raise


class KafkaPythonConsumer:
    def __init__(self, bootstrap: str, group: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap, "group_id": group or None, "auto_offset_reset": "earliest",
            "enable_auto_commit": False, "isolation_level": "read_committed", "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 500, "metadata_max_age_ms": METADATA_AGE_MS,
        }  # fmt: skip
        self._topics: list[str] = []
        self._consumer: Any = None

    async def start(self, topics: list[str], partitions: int) -> None:
        self._topics = topics
        if self._settings["group_id"]:
            self._consumer = KafkaConsumer(*topics, **self._settings)
        else:
            self._consumer = KafkaConsumer(**self._settings)
            self._consumer.assign([TopicPartition(topic, number) for topic in topics for number in range(partitions)])

    async def poll(self) -> list[Record]:
        if self._settings["group_id"] and has_forgotten_its_join(self._consumer):
            self._consumer.close()
            self._consumer = KafkaConsumer(*self._topics, **self._settings)
        try:
            read = self._consumer.poll(200)
        except KafkaConnectionError:  # while no broker listens, this client leaves the retry to its caller
            await asyncio.sleep(PAUSE_S)
            return []
        return [Record(one.topic, one.partition, one.offset, one.value.decode()) for records in read.values() for one in records]

    async def commit(self, ends: dict[tuple[str, int], int]) -> bool:
        try:
            self._consumer.commit({TopicPartition(*where): OffsetAndMetadata(offset, "", -1) for where, offset in ends.items()})
        except KafkaError:
            await asyncio.sleep(PAUSE_S)
            return False
        return True

    async def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str = "") -> KafkaPythonProducer:
        return KafkaPythonProducer(self._bootstrap, transactional_id)

    def consumer(self, group: str = "") -> KafkaPythonConsumer:
        return KafkaPythonConsumer(self._bootstrap, group)
