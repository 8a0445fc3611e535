"""message.downconversion.enable: where it is false, the broker refuses old fetches of that topic, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from testing.clients.stock import CLIENTS, create_topic
from testing.samples import assert_equal, varied, without_headers
from testing.wire.batches import write_batches
from testing.wire.legacy import message_set, parse
from testing.wire.raw import Ask, Connection, fetch, fetch_one, produce

if TYPE_CHECKING:
    from testing.process.broker import BrokerProcess

UNSUPPORTED_VERSION = 35


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_fetches_of_the_topic_are_refused(version: int, bootstrap: str, new_topic: Callable[..., str]) -> None:
    closed, opened = new_topic(message_downconversion_enable="false"), new_topic()
    with Connection(bootstrap) as connection:
        for topic in (closed, opened):
            write_batches(connection, topic, [varied(10)])
        first, refused, last = fetch(
            connection, version, [Ask(topic=opened), Ask(topic=closed), Ask(topic=opened, partition=9)]
        ).partitions[:3]
        by_topic = {(f.topic, f.partition): f for f in (first, refused, last)}
        assert by_topic[closed, 0].error == UNSUPPORTED_VERSION
        assert by_topic[closed, 0].records == b""
        assert by_topic[opened, 0].error == 0
        assert len(parse(by_topic[opened, 0].records).records) == 10
        for newer in (4, 7, 11):
            assert fetch_one(connection, newer, Ask(topic=closed)).records


def test_old_producers_and_new_consumers_are_served_as_ever(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, samples = new_topic(message_downconversion_enable="false"), without_headers(varied(10))
    with Connection(bootstrap) as connection:
        assert produce(connection, 2, topic, message_set(samples, 1, "gzip")).error == 0
    for client in CLIENTS:
        assert_equal(client.consume(bootstrap, topic, 10), samples)


def test_the_brokers_default_can_be_overridden_by_a_topic(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker({"log.message.downconversion.enable": "false"})
    create_topic(broker.bootstrap, "closed")
    create_topic(broker.bootstrap, "opened", configs={"message.downconversion.enable": "true"})
    with Connection(broker.bootstrap) as connection:
        for topic in ("closed", "opened"):
            write_batches(connection, topic, [varied(10)])
        closed, opened = fetch(connection, 2, [Ask(topic="closed"), Ask(topic="opened")]).partitions
        assert (closed.error, closed.records) == (UNSUPPORTED_VERSION, b"")
        assert opened.error == 0
        assert len(parse(opened.records).records) == 10
