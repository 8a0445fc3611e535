"""Stock clients commit and abort transactions; readers see what their isolation lets them see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

from testing.clients.stock import unique

TIMEOUT_S = 60
ROUNDS = 10


def value(number: int, *, commit: bool) -> bytes:
    return b"%s %d" % (b"committed" if commit else b"aborted", number)


def with_confluent(bootstrap: str, topic: str, transactional_id: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    for number in range(ROUNDS):
        commit = number % 3 != 0
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, value(number, commit=commit), partition=partition)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)


def with_kafka_python(bootstrap: str, topic: str, transactional_id: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    for number in range(ROUNDS):
        commit = number % 3 != 0
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, value(number, commit=commit), partition=partition)
        if commit:
            producer.commit_transaction()
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction()
    producer.close()


def with_aiokafka(bootstrap: str, topic: str, transactional_id: str) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        async with asyncio.timeout(TIMEOUT_S), producer:
            for number in range(ROUNDS):
                commit = number % 3 != 0
                await producer.begin_transaction()
                for partition in (0, 1):
                    await producer.send(topic, value(number, commit=commit), partition=partition)
                if commit:
                    await producer.commit_transaction()
                else:
                    await asyncio.wait_for(producer.flush(), TIMEOUT_S)
                    await producer.abort_transaction()

    asyncio.run(run())


def read(bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    """Return the values of a partition up to the end that this isolation has."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{topic}-{partition} has no end after {len(values)} records"
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            consumer.close()
            return values
        else:
            raise confluent_kafka.KafkaException(error)


@pytest.mark.parametrize("produce", [with_confluent, with_kafka_python, with_aiokafka])
def test_a_stock_producer_commits_and_aborts(
    produce: Callable[[str, str, str], None], bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    produce(bootstrap, topic, unique("tid"))
    committed = [value(number, commit=True) for number in range(ROUNDS) if number % 3 != 0]
    everything = [value(number, commit=number % 3 != 0) for number in range(ROUNDS)]
    for partition in (0, 1):
        assert read(bootstrap, topic, partition, "read_committed") == committed
        assert read(bootstrap, topic, partition, "read_uncommitted") == everything
