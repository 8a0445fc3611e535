"""librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from testing.clients.sequences.roles import PAUSE_S, Record

CALL_S: Final = 60
QUICK: Final = {
    "retry.backoff.ms": 20, "retry.backoff.max.ms": 200, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 5000,
}  # fmt: skip


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        if transactional_id:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 10_000}
        self._producer = Producer(settings | QUICK)
        self._is_transactional = bool(transactional_id)

    async def start(self) -> None:
        if self._is_transactional:
            call(lambda: self._producer.init_transactions(CALL_S))

    async def send(self, topic: str, partition: int, value: str, done: Callable[[int, str], None]) -> None:
        def delivered(error: object, message: Message) -> None:
            offset = message.offset()
            done(-1 if error or offset is None else offset, str(error) if error else "")

        self._producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
        self._producer.poll(0)

    async def rest(self, seconds: float) -> None:
        self._producer.poll(seconds)

    async def deliver(self) -> None:
        if self._producer.flush(CALL_S):
            raise RuntimeError("records were not delivered")

    async def begin(self) -> None:
        self._producer.begin_transaction()

    async def commit(self) -> None:
        call(lambda: self._producer.commit_transaction(CALL_S))

    async def abort(self) -> None:
        call(lambda: self._producer.abort_transaction(CALL_S))

    async def close(self) -> None:
        self._producer.flush(CALL_S)


class ConfluentConsumer:
    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "group.id": group or "none", "auto.offset.reset": "earliest", "log_level": 0,
            "enable.auto.commit": False, "isolation.level": "read_committed", "group.protocol": protocol,
        }  # fmt: skip
        if protocol == "classic":
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        self._consumer, self._has_group = Consumer(settings | QUICK), bool(group)

    async def start(self, topics: list[str], partitions: int) -> None:
        if self._has_group:
            self._consumer.subscribe(topics)
        else:
            self._consumer.assign([TopicPartition(topic, number, 0) for topic in topics for number in range(partitions)])

    async def poll(self) -> list[Record]:
        found = [message for message in self._consumer.consume(1000, 0.2) if message.error() is None]
        return [
            Record(one.topic() or "", one.partition() or 0, one.offset() or 0, (one.value() or b"").decode()) for one in found
        ]

    async def commit(self, ends: dict[tuple[str, int], int]) -> bool:
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in ends.items()]
        try:
            committed = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            await asyncio.sleep(PAUSE_S)
            return False
        return committed is not None and all(one.error is None for one in committed)

    async def close(self) -> None:
        self._consumer.close()


class Confluent:
    """`protocol` is that of its groups."""

    def __init__(self, bootstrap: str, protocol: str) -> None:
        self._bootstrap, self._protocol = bootstrap, protocol

    def producer(self, transactional_id: str = "") -> ConfluentProducer:
        return ConfluentProducer(self._bootstrap, transactional_id)

    def consumer(self, group: str = "") -> ConfluentConsumer:
        return ConfluentConsumer(self._bootstrap, group, self._protocol)


def record_of(message: Message) -> Record:
    return Record(message.topic() or "", message.partition() or 0, message.offset() or 0, (message.value() or b"").decode())


def call(step: Callable[[], object]) -> None:
    """Do a step of a transaction, again as long as the client permits it."""
    while True:
        try:
            step()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
