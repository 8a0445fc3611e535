"""The stock Python clients behind one pair of verbs, each with its own defaults unless a test asks for something else."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from testing.samples import Received, Sample

if TYPE_CHECKING:
    from concurrent.futures import Future

TIMEOUT_S = 60
_numbers = itertools.count()
MESSAGE_BYTES_MAX = 1_048_588  # the broker's default for one batch


class Client(ABC):
    """A client of one partition. `produce` returns the offsets that the broker acknowledged (-1 with acks=0)."""

    name: str

    @abstractmethod
    def produce(
        self,
        bootstrap: str,
        topic: str,
        samples: Sequence[Sample],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]: ...

    @abstractmethod
    def consume(self, bootstrap: str, topic: str, count: int, *, first_offset: int = 0, partition: int = 0) -> list[Received]:
        """Read until `count` records have arrived, or until no more arrive in time."""


class KafkaPython(Client):
    name = "kafka-python"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        samples: Sequence[Sample],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks=acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=MESSAGE_BYTES_MAX,
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(topic, s.value, key=s.key, headers=list(s.headers), partition=0, timestamp_ms=s.timestamp_ms)
                for s in samples
            ]
            return [future.get(TIMEOUT_S).offset for future in futures]
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, count: int, *, first_offset: int = 0, partition: int = 0) -> list[Received]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=TIMEOUT_S * 1000)
        try:
            where = kafka.TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, first_offset)
            received: list[Received] = []
            while len(received) < count and (record := next(consumer, None)) is not None:
                sample = Sample(record.key, record.value, record.timestamp, tuple(record.headers))
                received.append(Received(record.offset, sample))
            return received
        finally:
            consumer.close()


class Confluent(Client):
    name = "confluent-kafka"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        samples: Sequence[Sample],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        config = {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
        return confluent_produce(config, topic, samples)

    def consume(self, bootstrap: str, topic: str, count: int, *, first_offset: int = 0, partition: int = 0) -> list[Received]:
        return confluent_consume({"bootstrap.servers": bootstrap}, topic, count, first_offset=first_offset, partition=partition)


def confluent_produce(config: Mapping[str, Any], topic: str, samples: Sequence[Sample]) -> list[int]:
    """Send to partition 0 with librdkafka and this configuration, and return the offsets. A refused record fails the test."""
    producer = confluent_kafka.Producer({"linger.ms": 5, **config})
    offsets: dict[int, int] = {}
    errors: list[confluent_kafka.KafkaError] = []
    for index, s in enumerate(samples):

        def done(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message, index: int = index) -> None:
            if error is None:
                offsets[index] = message.offset()
            else:
                errors.append(error)

        fields: dict[str, Any] = {"headers": list(s.headers)} if s.headers else {}
        producer.produce(topic, s.value, s.key, partition=0, timestamp=s.timestamp_ms, on_delivery=done, **fields)
    left = producer.flush(TIMEOUT_S)
    assert not errors, errors
    assert left == 0
    return [offsets[index] for index in range(len(samples))]


def confluent_consume(
    config: Mapping[str, Any], topic: str, count: int, *, first_offset: int = 0, partition: int = 0, timeout_s: float = TIMEOUT_S
) -> list[Received]:
    """Read a partition with librdkafka and this configuration, by assignment and without commits."""
    consumer = confluent_kafka.Consumer({"group.id": "unused", "enable.auto.commit": False, **config})
    received: list[Received] = []
    deadline = time.monotonic() + timeout_s
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, first_offset)])
        while len(received) < count and time.monotonic() < deadline:
            for message in consumer.consume(min(1000, count - len(received)), timeout=0.5):
                if message.error() is not None:
                    raise confluent_kafka.KafkaException(message.error())
                sample = Sample(message.key(), message.value(), message.timestamp()[1], tuple(message.headers() or ()))
                received.append(Received(message.offset(), sample))
        return received
    finally:
        consumer.close()


class AioKafka(Client):
    name = "aiokafka"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        samples: Sequence[Sample],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        async def run() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all" if acks == -1 else acks,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                max_request_size=MESSAGE_BYTES_MAX,
                linger_ms=5,
            )
            async with asyncio.timeout(TIMEOUT_S), producer:
                futures = [
                    await producer.send(
                        topic, s.value, key=s.key, headers=list(s.headers), partition=0, timestamp_ms=s.timestamp_ms
                    )
                    for s in samples
                ]
                results = await asyncio.gather(*futures)
            return [-1 if result is None else result.offset for result in results]  # acks=0 has no result

        return asyncio.run(run())

    def consume(self, bootstrap: str, topic: str, count: int, *, first_offset: int = 0, partition: int = 0) -> list[Received]:
        async def run() -> list[Received]:
            received: list[Received] = []
            where = aiokafka.TopicPartition(topic, partition)
            async with asyncio.timeout(TIMEOUT_S), aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
                consumer.assign([where])
                consumer.seek(where, first_offset)
                while len(received) < count:
                    record = await consumer.getone()
                    sample = Sample(record.key, record.value, record.timestamp, tuple(record.headers))
                    received.append(Received(record.offset, sample))
            return received

        return asyncio.run(run())


CLIENTS: tuple[Client, ...] = (KafkaPython(), Confluent(), AioKafka())


def record_count(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Return the number of offsets that a partition holds."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), timeout=30)
    finally:
        consumer.close()
    return int(high - low)


def unique(name: str) -> str:
    """Return a topic name that no other test and no earlier run against the same broker has used."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"


def create_topic(bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Create the topic, and return when every partition has a leader that responds for it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})  # it outlives this call, and would log the broker's end
    wait(admin.create_topics([NewTopic(name, partitions, 1, config=dict(configs or {}))])[name])
    latest = {confluent_kafka.TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            for future in admin.list_offsets(latest).values():
                wait(future)
        except confluent_kafka.KafkaException:  # Kafka's brokers learn of a topic a little later than its creator
            if time.monotonic() > deadline:
                raise
        else:
            return


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient(
        {"bootstrap.servers": bootstrap, "log_level": 2}
    )  # held until the response has come, because the futures die with it
    wait(admin.delete_topics([name])[name])


def wait(future: Future[Any]) -> Any:
    """Return the result of an admin call. Raises its KafkaException when the broker refuses it."""
    return future.result(TIMEOUT_S)
