from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.spark.audit.tagging import AuditedKafkaProducer, AuditedProducer
from pybroker.spark.audit.tags import CHUNK, encode_sequence, from_runs
from pybroker.spark.audit.trail import Trail


class FakeClient:
    """A fake of confluent-kafka's producer: it keeps what is produced."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.is_full = False

    def produce(self, topic: str, **record: Any) -> None:
        if self.is_full:
            raise BufferError("full")
        self.records.append({"topic": topic, **record})

    def flush(self, timeout: float) -> int:
        return 0

    def list_topics(self) -> str:
        return "topics"

    def init_transactions(self, timeout: float) -> None:
        self.calls.append(f"init {timeout}")

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def commit_transaction(self) -> None:
        if self.is_full:
            raise OSError("no coordinator")
        self.calls.append("commit")

    def abort_transaction(self) -> None:
        self.calls.append("abort")

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["topic"] == topic]


class FakeFuture:
    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], None]] = []
        self.errbacks: list[Callable[[Any], None]] = []
        self.add_callback, self.add_errback = self.callbacks.append, self.errbacks.append


class FakeKafkaClient:
    """A fake of kafka-python's producer."""

    def __init__(self, **config: Any) -> None:
        self.config = {"key_serializer": None, "value_serializer": None, **config}
        self.records: list[dict[str, Any]] = []
        self.futures: list[FakeFuture] = []
        self.calls: list[str] = []

    def send(self, topic: str, **record: Any) -> FakeFuture:
        self.records.append({"topic": topic, **record})
        self.futures.append(FakeFuture())
        return self.futures[-1]

    def flush(self, timeout: float) -> None:
        self.calls.append("flush")

    def close(self, timeout: float) -> None:
        self.calls.append("close")


def reports(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(record["value"]) for record in records if record["topic"] == "audit-counts"]


def numbers(counted: list[dict[str, Any]], what: str, topic: str = "t") -> dict[tuple[int, int], int]:
    """Join the sets of all reports, by bucket and chunk."""
    found: dict[tuple[int, int], int] = {}
    for report in counted:
        for one in report["counts"]:
            if one["topic"] == topic and what in one:
                key = one["bucket"], one["chunk"]
                found[key] = found.get(key, 0) | from_runs(one[what])
    return found


def test_a_record_gets_three_headers_after_its_own() -> None:
    client = FakeClient()
    producer = AuditedProducer(client, "orders-api", interval_s=0, clock_ms=lambda: 61_234)
    producer.produce("t", b"v", b"k", headers={"mine": b"1", "audit.tier": b"other"})
    (record,) = client.records
    incarnation = producer.trail.incarnation
    assert record["headers"] == [
        ("mine", b"1"),
        ("audit.producer", f"orders-api/{incarnation}".encode()),
        ("audit.tier", b"producer"),
        ("audit.sequence", bytes.fromhex("01 0000000000000000")),
    ]
    assert (record["value"], record["key"], record["timestamp"], record["partition"]) == (b"v", b"k", 61_234, -1)
    assert len(incarnation) == 20
    assert int(incarnation, 16) >= 0
    assert producer.list_topics() == "topics"


def test_sequence_numbers_rise_by_one_in_each_topic_and_start_again_with_each_incarnation() -> None:
    client = FakeClient()
    first = AuditedProducer(client, "p", interval_s=0)
    for topic in ("a", "b", "a", "a", "b"):
        first.produce(topic, b"v")
    assert [record["headers"][-1][1] for record in client.of("a")] == [encode_sequence(number) for number in range(3)]
    assert [record["headers"][-1][1] for record in client.of("b")] == [encode_sequence(number) for number in range(2)]
    second = AuditedProducer(client, "p", interval_s=0)
    second.produce("a", b"v")
    assert client.records[-1]["headers"][-1][1] == encode_sequence(0)
    assert first.trail.identity != second.trail.identity


def test_sent_acknowledged_and_refused_are_reported_by_bucket_and_only_what_is_new() -> None:
    client, clock, acks = FakeClient(), [60_000], []
    producer = AuditedProducer(client, "p", interval_s=0, clock_ms=lambda: clock[0], on_delivery=lambda *news: acks.append(news))
    for at in (60_000, 61_000, 120_000, 120_001):
        clock[0] = at
        producer.produce("t", b"v")
    records = client.of("t")
    records[0]["on_delivery"](None, "m0")
    records[2]["on_delivery"]("failed", "m2")
    producer.trail.report()
    producer.trail.report()
    records[1]["on_delivery"](None, "m1")
    producer.close()
    counted = reports(client.records)
    assert [(report["number"], report["is_end"]) for report in counted] == [(0, False), (1, True)]
    assert numbers(counted[:1], "sent") == {(60_000, 0): 0b11, (120_000, 0): 0b1100}
    assert numbers(counted[:1], "acked") == {(60_000, 0): 0b1}
    assert numbers(counted[:1], "failed") == {(120_000, 0): 0b100}
    assert counted[1]["counts"] == [{"topic": "t", "bucket": 60_000, "chunk": 0, "acked": [1, 1]}]
    assert acks == [(None, "m0"), ("failed", "m2"), (None, "m1")]
    assert {record["key"] for record in client.of("audit-counts")} == {producer.trail.identity}


def test_a_record_that_the_client_does_not_take_counts_as_refused_not_lost() -> None:
    client = FakeClient()
    producer = AuditedProducer(client, "p", interval_s=0, clock_ms=lambda: 0)
    client.is_full = True
    with pytest.raises(BufferError):
        producer.produce("t", b"v")
    client.is_full = False
    producer.produce("t", b"v")
    producer.close()
    counted = reports(client.records)
    assert (numbers(counted, "sent"), numbers(counted, "failed"), numbers(counted, "acked")) == (
        {(0, 0): 0b11},
        {(0, 0): 0b1},
        {},
    )


def test_records_of_a_transaction_are_acknowledged_or_refused_by_its_end() -> None:
    client, counts = FakeClient(), FakeClient()
    producer = AuditedProducer(client, "p", counts=counts, interval_s=0, clock_ms=lambda: 0)
    producer.init_transactions(9)
    for number in range(4):
        if number:
            producer.begin_transaction()
        producer.produce("t", b"v")
        client.records[-1]["on_delivery"](None, "m")
        if number == 1:
            producer.trail.report()
            producer.commit_transaction()
        if number == 2:
            producer.abort_transaction()
            client.records[-1]["on_delivery"](None, "m")  # a callback that comes late
    assert client.calls == ["init 9", "begin", "commit", "begin", "abort", "begin"]
    producer.close()
    assert numbers(reports(counts.records)[:1], "acked") == {(0, 0): 0b1}, "before the commit"
    counted = reports(counts.records)
    assert (numbers(counted, "sent"), numbers(counted, "acked"), numbers(counted, "failed")) == (
        {(0, 0): 0b1111},
        {(0, 0): 0b11},
        {(0, 0): 0b100},
    )


def test_a_commit_that_fails_decides_nothing_until_it_is_tried_again_or_aborted() -> None:
    for is_committed in (True, False):
        client, counts = FakeClient(), FakeClient()
        producer = AuditedProducer(client, "p", counts=counts, interval_s=0, clock_ms=lambda: 0)
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.produce("t", b"v")
        client.records[0]["on_delivery"](None, "m")
        client.records[1]["on_delivery"]("failed" if not is_committed else None, "m")
        client.is_full = True
        with pytest.raises(OSError, match="no coordinator"):
            producer.commit_transaction()
        producer.trail.report()
        assert numbers(reports(counts.records), "acked") == {}
        client.is_full = False
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
        producer.close()
        counted = reports(counts.records)
        expected = {(0, 0): 0b11}
        assert (numbers(counted, "acked"), numbers(counted, "failed")) == ((expected, {}) if is_committed else ({}, expected))


def test_a_report_that_cannot_be_published_comes_with_the_next() -> None:
    client = FakeClient()
    producer = AuditedProducer(client, "p", interval_s=0, clock_ms=lambda: 0)
    producer.produce("t", b"v")
    client.is_full = True
    producer.trail.report()
    assert (producer.trail.failed_reports, reports(client.records)) == (1, [])
    with pytest.raises(BufferError):
        producer.close()
    client.is_full = False
    producer.close()
    producer.close()
    counted = reports(client.records)
    assert [(report["number"], report["is_end"]) for report in counted] == [(0, True)]
    assert numbers(counted, "sent") == {(0, 0): 1}
    with pytest.raises(RuntimeError, match="the audited producer is closed"):
        producer.produce("t", b"v")


def test_a_million_records_are_a_few_kilobytes_in_messages_of_bounded_size() -> None:
    sent: list[bytes] = []
    trail = Trail("p", lambda _, report: sent.append(report), interval_s=0)
    for number in range(200_000):
        assert trail.send("t", 0) == number
        if number % 2:
            trail.settle("t", timestamp_ms=0, sequence=number, is_acked=True)
    trail.close()
    counted = [json.loads(report) for report in sent]
    assert numbers(counted, "sent") == {(0, chunk): (1 << min(CHUNK, 200_000 - chunk * CHUNK)) - 1 for chunk in range(49)}
    assert sum(bits.bit_count() for bits in numbers(counted, "acked").values()) == 100_000
    assert max(map(len, sent)) < 200_000
    assert [report["is_end"] for report in counted] == [False] * (len(counted) - 1) + [True]


def test_many_threads_get_each_number_once() -> None:
    client = FakeClient()
    producer = AuditedProducer(client, "p", interval_s=0)

    def work() -> None:
        for _ in range(500):
            producer.produce("t", b"v")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(record["headers"][-1][1] for record in client.of("t"))
    assert found == [encode_sequence(number) for number in range(4000)]


def test_kafka_python() -> None:
    client = FakeKafkaClient()
    with AuditedKafkaProducer(client, "p", interval_s=0, clock_ms=lambda: 1000) as producer:
        for _ in range(3):
            producer.send("t", b"v", headers=[("h", b"1")])
        producer.send("t", b"old", timestamp_ms=0)
        assert client.records[0]["headers"][0] == ("h", b"1")
        assert [record["timestamp_ms"] for record in client.records] == [1000, 1000, 1000, 0]
        client.futures[0].callbacks[0]("metadata")
        client.futures[1].errbacks[0](OSError())
    counted = reports(client.records)
    assert (numbers(counted, "acked"), numbers(counted, "failed"), numbers(counted, "sent")) == (
        {(0, 0): 1},
        {(0, 0): 2},
        {(0, 0): 15},
    )
    assert client.calls == ["flush", "flush", "close"]


def test_what_cannot_be_audited_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="a producer with serializers cannot publish its counts"):
        AuditedKafkaProducer(FakeKafkaClient(value_serializer=str.encode), "p", interval_s=0)
    for name in ("", "x" * 201, "line\nbreak"):
        with pytest.raises(ValueError, match="must be 1 to 200 bytes of printable text"):
            AuditedProducer(FakeClient(), name, interval_s=0)
    plain = AuditedProducer(FakeClient(), "p", interval_s=0)
    for method in (plain.init_transactions, plain.begin_transaction):
        with pytest.raises(ValueError, match="a transactional producer cannot publish its counts"):
            method()


def test_a_thread_publishes_now_and_then_and_ends_with_close() -> None:
    published = threading.Event()
    trail = Trail("p", lambda *_: published.set(), interval_s=0.01)
    trail.send("t", 0)
    assert published.wait(30)
    trail.close()
    assert "audit" not in [thread.name for thread in threading.enumerate()]


def test_the_helper_needs_neither_spark_nor_a_client() -> None:
    code = "import sys, pybroker.spark.audit.tagging; print([m for m in sys.modules if m in sys.argv[1:]])"
    names = ["pyspark", "pyarrow", "pandas", "confluent_kafka", "kafka", "matplotlib", "pydantic"]
    run = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
