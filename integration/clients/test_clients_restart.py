"""The broker restarts cleanly in the middle of everything: same port, same data directory, and clients that stay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import confluent_kafka
import kafka
import pytest

from testing.clients.stock import CLIENTS, TIMEOUT_S, Confluent, create_topic
from testing.samples import CODECS, Received, Sample, assert_equal, varied

if TYPE_CHECKING:
    from testing.process.broker import BrokerProcess

CHANGED_PARTITIONS = 3


def test_everything_written_is_there_after_a_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "kept", CHANGED_PARTITIONS, {"retention.ms": "123456789000"})
    sent: list[Sample] = []
    for codec in CODECS:
        samples = varied(60, seed=len(sent))
        for client in CLIENTS:
            client.produce(broker.bootstrap, "kept", samples, codec=codec, idempotent=client.name == "confluent-kafka")
            sent += samples
        broker.stop()
        broker.start()
        assert_equal(Confluent().consume(broker.bootstrap, "kept", len(sent)), sent)
    for client in CLIENTS:
        assert_equal(client.consume(broker.bootstrap, "kept", len(sent)), sent)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
    try:
        assert consumer.partitions_for_topic("kept") == set(range(CHANGED_PARTITIONS))
        assert consumer.end_offsets([kafka.TopicPartition("kept", 0)]) == {kafka.TopicPartition("kept", 0): len(sent)}
    finally:
        consumer.close()


@pytest.mark.parametrize("idempotent", [False, True])
def test_open_clients_continue_after_a_restart(idempotent: bool, start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "open")
    samples = varied(200)
    errors: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 500,
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
    )
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("open", 0, 0)])
    received: list[Received] = []

    def send(part: list[Sample]) -> None:
        for s in part:
            producer.produce(
                "open",
                s.value,
                s.key,
                partition=0,
                timestamp=s.timestamp_ms,
                headers=list(s.headers),
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )

    def read_to(count: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while len(received) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(received), timeout=0.5):
                if message.error() is None:  # the client reports the broker's absence here, too, and it is not fatal
                    sample = Sample(message.key(), message.value(), message.timestamp()[1], tuple(message.headers() or ()))
                    received.append(Received(message.offset(), sample))

    try:
        for begin in range(0, 200, 50):
            send(samples[begin : begin + 25])
            assert producer.flush(TIMEOUT_S) == 0
            read_to(begin + 25)
            broker.stop()
            send(samples[begin + 25 : begin + 50])  # while the broker is away
            broker.start()
            assert producer.flush(TIMEOUT_S) == 0
            read_to(begin + 50)
    finally:
        consumer.close()
    assert not errors
    assert_equal(received, samples)
