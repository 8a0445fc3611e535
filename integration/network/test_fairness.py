"""A client that sends little is served beside one that sends much. Judged by offsets, not by the clock."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.samples import T0_MS, Sample
from testing.wire.batches import sample_batch
from testing.wire.raw import FETCH, PRODUCE, Ask, Connection, fetch_body, parse_fetch, parse_produce, produce, produce_body

pytestmark = pytest.mark.skipif(is_kafka(), reason="Kafka's threads take requests of several connections in any order")

TOPIC = "busy"
DEPTH = 1000
SERVED_BEFORE = 256
"""A turn of a connection has 16 requests; the others need not all be seen in the first round of the loop."""

RECORD = sample_batch([Sample(None, b"v" * 100, T0_MS)])
PRODUCE_ONE = produce_body(7, TOPIC, {0: RECORD}, acks=1)
FETCH_ONE = fetch_body(7, [Ask(topic=TOPIC, bytes_max=len(RECORD))])


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    broker = start_broker()
    create_topic(broker.bootstrap, TOPIC, 1)
    with Connection(broker.bootstrap) as connection:
        assert produce(connection, 7, TOPIC, RECORD).error == 0
    return broker


@contextmanager
def stopped(broker: BrokerProcess) -> Iterator[None]:
    """Let everything that is sent in the block be there when the broker looks again."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_produce_and_a_fetch_do_not_wait_for_a_pipeline_of_produces(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as busy, Connection(broker.bootstrap) as writer, Connection(broker.bootstrap) as reader:
        with stopped(broker):
            flood = [busy.send(PRODUCE, 7, PRODUCE_ONE) for _ in range(DEPTH)]
            written, read = writer.send(PRODUCE, 7, PRODUCE_ONE), reader.send(FETCH, 7, FETCH_ONE)
        assert parse_produce(7, TOPIC, writer.receive(written)).base_offset <= SERVED_BEFORE
        (fetched,) = parse_fetch(7, reader.receive(read)).partitions
        assert fetched.high_watermark <= SERVED_BEFORE
        last = [busy.receive(one) for one in flood][-1]
        assert parse_produce(7, TOPIC, last).base_offset == DEPTH + 1, "the busy client is served, too"
    broker.stop()


def test_a_produce_does_not_wait_for_a_pipeline_of_fetches(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as busy, Connection(broker.bootstrap) as writer:
        with stopped(broker):
            flood = [busy.send(FETCH, 7, FETCH_ONE) for _ in range(DEPTH)]
            written = writer.send(PRODUCE, 7, PRODUCE_ONE)
        assert parse_produce(7, TOPIC, writer.receive(written)).base_offset == 1
        responses = [parse_fetch(7, busy.receive(one)).partitions[0] for one in flood]
        assert all(response.records == responses[0].records for response in responses)
        assert sum(response.high_watermark == 1 for response in responses) <= SERVED_BEFORE
    broker.stop()
