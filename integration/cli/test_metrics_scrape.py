"""A monitoring system reads numbers from a running broker, which follow what clients do."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.kafka_peer import free_port
from testing.samples import varied
from testing.wire.batches import write_batches
from testing.wire.raw import Ask, Connection, fetch_one

pytestmark = pytest.mark.skipif(is_kafka(), reason="about our own metrics page")


def scrape(port: int) -> dict[str, float]:
    """Return the sum of each metric over all its labels, by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = response.read().decode()
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


def test_the_page_counts_what_clients_do(start_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{port}"})
    create_topic(broker.bootstrap, "measured")
    with Connection(broker.bootstrap) as connection:
        before = scrape(port)
        write_batches(connection, "measured", [varied(30), varied(12)])
        new = len(fetch_one(connection, 4, Ask(topic="measured")).records)
        old = len(fetch_one(connection, 2, Ask(topic="measured")).records)
        after = scrape(port)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}

    def growth(pattern: str) -> list[float]:
        """Return the growth of all sums whose names match; topics may be counted one by one and together."""
        return [value for name, value in grown.items() if re.fullmatch(pattern, name)]

    assert 42 in growth(r"kafka_server_.*messagesin_total") or 84 in growth(r"kafka_server_.*messagesin_total"), grown
    assert any(value >= new for value in growth(r"kafka_server_.*bytesin_total"))
    assert any(value >= new + old for value in growth(r"kafka_server_.*bytesout_total"))
    assert any(value >= 1 for value in growth(r"kafka_.*fetchmessageconversions.*"))
    assert any(value >= 2 for value in growth(r"kafka_network_requestmetrics_requests.*_total"))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_lag_of_a_group_is_what_its_consumer_has_left(protocol: str, start_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{port}"})
    create_topic(broker.bootstrap, "read", 1)
    with Connection(broker.bootstrap) as connection:
        write_batches(connection, "read", [varied(10)])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["read"])
    records = consumer.consume(4, 60)
    assert len(records) == 4
    consumer.commit(records[-1], asynchronous=False)
    seen = scrape(port)
    assert seen["kafka_consumergroup_current_offset"] == seen["kafka_consumergroup_current_offset_sum"] == 4
    assert seen["kafka_consumergroup_lag"] == seen["kafka_consumergroup_lag_sum"] == 6
    assert seen["kafka_consumergroup_members"] == 1
    consumer.close()
    assert scrape(port)["kafka_consumergroup_members"] == 0


def test_no_page_exists_unless_a_setting_asks_for_it(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    assert "metrics at" not in broker.log_text.lower()
    assert "/metrics" not in broker.log_text


def test_librdkafka_asks_once_which_metrics_are_wanted(start_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{port}"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def asked(request: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
            families = text_string_to_metric_families(response.read().decode())
        counts = [
            sample.value
            for family in families
            for sample in family.samples
            if request in sample.labels.values() and re.fullmatch(r"kafka_network_requestmetrics_requests.*_total", sample.name)
        ]
        return sum(counts)

    deadline = time.monotonic() + 30
    while not asked("GetTelemetrySubscriptions"):
        assert time.monotonic() < deadline, "the client never asked"
        admin.list_topics(timeout=30)
    for _ in range(300):  # a client that asked without a pause would have asked about this often
        admin.list_topics(timeout=30)
    assert asked("Metadata") >= 300
    assert asked("GetTelemetrySubscriptions") <= 2
