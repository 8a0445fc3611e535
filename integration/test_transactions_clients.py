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
LOOP_RECORDS = 200


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


def fill(bootstrap: str, topic: str) -> list[bytes]:
    """Produce numbered values outside of transactions, and return them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    values = [b"%d" % number for number in range(LOOP_RECORDS)]
    for one in values:
        producer.produce(topic, one, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def loop_with_confluent(bootstrap: str, source: str, target: str, options: dict[str, str]) -> None:
    """Copy the source in transactions of 10 records; every third is aborted, read again and committed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("loop"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        | options
    )
    consumer.subscribe([source])
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tid")})
    producer.init_transactions(TIMEOUT_S)
    done = rounds = 0
    while done < LOOP_RECORDS:
        messages: list[confluent_kafka.Message] = []
        while len(messages) < 10:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no record after {done}"
            assert message.error() is None, message.error()
            messages.append(message)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=0)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        rounds += 1
        if rounds % 3:
            producer.commit_transaction(TIMEOUT_S)
            done += len(messages)
        else:
            producer.flush(TIMEOUT_S)  # an abort drops what is not sent yet, and the test wants to see aborted records
            producer.abort_transaction(TIMEOUT_S)
            for committed in consumer.committed(consumer.assignment(), TIMEOUT_S):
                consumer.seek(committed)
    consumer.close()


def loop_with_aiokafka(bootstrap: str, source: str, target: str, _options: dict[str, str]) -> None:
    async def run() -> None:
        group = unique("loop")
        consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("tid"))
        async with asyncio.timeout(TIMEOUT_S), consumer, producer:
            done = rounds = 0
            while done < LOOP_RECORDS:
                messages = [await consumer.getone() for _ in range(10)]
                where = aiokafka.TopicPartition(source, 0)
                rounds += 1
                await producer.begin_transaction()
                for message in messages:
                    await producer.send(target, message.value, partition=0)
                await producer.send_offsets_to_transaction({where: messages[-1].offset + 1}, group)
                if rounds % 3:
                    await producer.commit_transaction()
                    done += len(messages)
                else:
                    await asyncio.wait_for(producer.flush(), TIMEOUT_S)
                    await producer.abort_transaction()
                    await consumer.seek_to_committed(where)

    asyncio.run(run())


def loop_with_kafka_python(bootstrap: str, source: str, target: str, _options: dict[str, str]) -> None:
    consumer = kafka.KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=unique("loop"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        consumer_timeout_ms=1000 * TIMEOUT_S,
    )
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("tid"))
    producer.init_transactions()
    where = kafka.TopicPartition(source, 0)
    done = rounds = 0
    while done < LOOP_RECORDS:
        messages = [next(consumer) for _ in range(10)]
        rounds += 1
        producer.begin_transaction()
        for message in messages:
            producer.send(target, message.value, partition=0)
        offset = kafka.structs.OffsetAndMetadata(messages[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction({where: offset}, consumer.group_metadata())
        if rounds % 3:
            producer.commit_transaction()
            done += len(messages)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction()
            consumer.seek(where, consumer.committed(where) or 0)
    producer.close()
    consumer.close()


@pytest.mark.parametrize(
    ("loop", "options"),
    [
        (loop_with_confluent, {}),
        (loop_with_confluent, {"group.protocol": "consumer"}),
        (loop_with_aiokafka, {}),
        (loop_with_kafka_python, {}),
    ],
    ids=["confluent", "confluent of KIP-848", "aiokafka", "kafka-python"],
)
def test_a_loop_that_consumes_transforms_and_produces_is_exact(
    loop: Callable[[str, str, str, dict[str, str]], None],
    options: dict[str, str],
    bootstrap: str,
    new_topic: Callable[..., str],
) -> None:
    source, target = new_topic(partitions=1), new_topic(partitions=1)
    values = fill(bootstrap, source)
    loop(bootstrap, source, target, options)
    assert read_values(bootstrap, target, 0, "read_committed") == values
    assert len(read_values(bootstrap, target, 0, "read_uncommitted")) > len(values)
