"""Stock clients commit and abort transactions; readers see what their isolation lets them see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

from testing.clients.isolation import read_values
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


@pytest.mark.parametrize("produce", [with_confluent, with_kafka_python, with_aiokafka])
def test_a_stock_producer_commits_and_aborts(
    produce: Callable[[str, str, str], None], bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    produce(bootstrap, topic, unique("tid"))
    committed = [value(number, commit=True) for number in range(ROUNDS) if number % 3 != 0]
    everything = [value(number, commit=number % 3 != 0) for number in range(ROUNDS)]
    for partition in (0, 1):
        assert read_values(bootstrap, topic, partition, "read_committed") == committed
        assert read_values(bootstrap, topic, partition, "read_uncommitted") == everything
