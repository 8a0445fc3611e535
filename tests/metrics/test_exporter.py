from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pybroker.metrics import _counts_python, exporter
from pybroker.metrics.broker_metrics import BrokerMetrics, TopicMetrics
from pybroker.metrics.exporter import BrokerCollector
from pybroker.metrics.request_metrics import RequestMetrics

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"


def scrape(metrics: BrokerMetrics) -> dict[str, float]:
    """Return every sample of a scrape by its text, as Prometheus reads it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(metrics))
    return {
        sample.name + "".join(f"[{name}={value}]" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def test_requests() -> None:
    metrics = BrokerMetrics()
    produce = metrics.request(0, "Produce")
    assert metrics.request(0, "Produce") is produce
    produce.received(9, 100)
    produce.received(3, 50)
    produce.received(9, 1)
    produce.responded(40, 1_000_000, 2_000_000, 3_000_000, 4_000_000)
    produce.error("NONE", 2)
    produce.error("CORRUPT_MESSAGE", 1)
    samples = scrape(metrics)
    prefix = "kafka_network_requestmetrics_"
    assert samples[f"{prefix}requests_total[request=Produce][version=9]"] == 2
    assert samples[f"{prefix}requests_total[request=Produce][version=3]"] == 1
    assert samples[f"{prefix}errors_total[error=NONE][request=Produce]"] == 2
    assert samples[f"{prefix}errors_total[error=CORRUPT_MESSAGE][request=Produce]"] == 1
    assert samples[f"{prefix}requestbytes_total[request=Produce]"] == 151
    assert samples[f"{prefix}responsebytes_total[request=Produce]"] == 40
    assert samples[f"{prefix}totaltimems_count[request=Produce]"] == 1
    assert samples[f"{prefix}totaltimems_sum[request=Produce]"] == pytest.approx(10)
    for part, ms in (("requestqueuetimems", 1), ("localtimems", 2), ("remotetimems", 3), ("responsesendtimems", 4)):
        assert samples[f"{prefix}{part}_sum[request=Produce]"] == pytest.approx(ms)
        assert ms / 2 <= samples[f"{prefix}{part}[quantile=0.99][request=Produce]"] <= ms * 2


def test_topics() -> None:
    metrics = BrokerMetrics()
    metrics.no_topic.bytes_in = 1
    metrics.topic("a").bytes_in = 5
    metrics.topic("b").bytes_in = 2
    for _ in metrics.forget_topics(["b", "never there"]):
        pass
    samples = scrape(metrics)
    found = {key: value for key, value in samples.items() if key.startswith(BYTES_IN)}
    assert found == {BYTES_IN: 8, f"{BYTES_IN}[topic=a]": 5}


def test_a_scrape_while_deleted_topics_are_forgotten_counts_each_of_them_once() -> None:
    metrics = BrokerMetrics()
    names = [f"t{number}" for number in range(10)]
    for name in [*names, "kept"]:
        metrics.topic(name).bytes_in = 2
    metrics.no_topic.bytes_in = 1
    for _ in metrics.forget_topics(names):
        assert scrape(metrics)[BYTES_IN] == 23
    samples = scrape(metrics)
    assert samples[BYTES_IN] == 23
    assert [key for key in samples if key.startswith(f"{BYTES_IN}[")] == [f"{BYTES_IN}[topic=kept]"]


def test_every_counter_of_a_topic_is_exported() -> None:
    exported = {name.attribute for name in exporter.TOPIC_COUNTERS}
    assert exported == set(TopicMetrics.NAMES)


def test_every_number_of_a_request_is_exported() -> None:
    exported = {name.attribute for name in (*exporter.REQUEST_BYTES, *exporter.REQUEST_TIMES, exporter.REQUESTS, exporter.ERRORS)}
    assert exported == set(_counts_python.RequestCounts.__slots__)
    assert RequestMetrics.__slots__ == ("name",)


def test_numbers_that_their_owners_keep() -> None:
    metrics = BrokerMetrics()
    used = [3]
    metrics.gauge("kafka_network_socketserver_memorypoolused", "Bytes", lambda: used[0])
    metrics.counter("some_total", "Some", lambda: 4)
    metrics.labelled_gauge("open", "Open connections", ("listener",), lambda: {("A",): 1, ("B",): 2})
    metrics.labelled_counter("closed_total", "Closed", ("listener", "reason"), lambda: {("A", "idle"): 5})
    used[0] = 6
    samples = scrape(metrics)
    assert samples["kafka_network_socketserver_memorypoolused"] == 6
    assert samples["some_total"] == 4
    assert (samples["open[listener=A]"], samples["open[listener=B]"]) == (1, 2)
    assert samples["closed_total[listener=A][reason=idle]"] == 5


def test_conversion_time_is_in_ms() -> None:
    metrics = BrokerMetrics()
    metrics.conversion_ns["Fetch"] += 1_500_000
    assert scrape(metrics)["kafka_network_requestmetrics_messageconversionstimems_total[request=Fetch]"] == pytest.approx(1.5)


def test_the_document_lists_what_is_always_there() -> None:
    metrics = BrokerMetrics()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(metrics))
    exported = re.findall(r"^# HELP (\S+)", generate_latest(registry).decode(), re.MULTILINE)
    listed = re.findall(r"^\| `([A-Za-z_]+)`", DOCUMENT.read_text(), re.MULTILINE)
    assert set(exported) <= set(listed)
    assert len(listed) == len({*listed})
