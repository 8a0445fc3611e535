"""Retention inside a segment that is never rolled, on a running broker: exactly the records that are due disappear.

The times of the records are half an hour apart, and each limit lies 15 minutes from the next record, so that it does not
matter when a pass of retention runs.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.kafka_peer import free_port
from testing.waiting import until
from testing.wire.one_request import EARLIEST, MAX_TIMESTAMP, Wire, values

pytestmark = pytest.mark.skipif(is_kafka(), reason="Kafka deletes whole segments")

STEP_MS = 1_800_000
BATCHES, BATCH_RECORDS = 40, 5
RECORDS = BATCHES * BATCH_RECORDS
CODECS = list(CompressionType)
EAGER = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "0",
    "log.index.interval.bytes": "1000",
}
KEPT_FOR_EVER = {"retention.ms": "-1"}
Pair = tuple[bytes, bytes]


class Scene:
    """A broker with eager retention, and a client that knows each record and the size of each batch."""

    def __init__(self, broker: BrokerProcess, metrics_port: int) -> None:
        self.broker, self.metrics_port = broker, metrics_port
        self.wire = Wire(broker.bootstrap)
        self.now_ms = time.time_ns() // 1_000_000
        self.sizes: dict[str, list[int]] = {}

    def age_ms(self, offset: int) -> int:
        """Return the age of a record: the last one is 15 minutes old, and each earlier one is half an hour older."""
        return (RECORDS - offset) * STEP_MS - STEP_MS // 2

    def fill(self, topic: str, codec: CompressionType = CompressionType.NONE) -> None:
        assert self.wire.create_topic(topic, 1, KEPT_FOR_EVER) == 0
        self.sizes[topic] = []
        for first in range(0, RECORDS, BATCH_RECORDS):
            records = [
                one._replace(timestamp=self.now_ms - self.age_ms(first + number))
                for number, one in enumerate(values(0, [pair(first + number) for number in range(BATCH_RECORDS)], 0))
            ]
            assert self.wire.produce(topic, 0, records, compression=codec) == (0, first)
            self.sizes[topic].append(len(build_batch(records, compression=codec)))

    def start_of(self, topic: str) -> int:
        return self.wire.limit(topic, 0, EARLIEST)

    def wait_for_start(self, topic: str, offset: int) -> None:
        until(lambda: self.start_of(topic) >= offset, f"{topic} begins at {offset}")
        assert self.start_of(topic) == offset

    def size_from(self, topic: str, offset: int) -> int:
        """Return the bytes from the batch with this offset on."""
        return sum(self.sizes[topic][offset // BATCH_RECORDS :])

    def measured(self, name: str, topic: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as response:
            families = text_string_to_metric_families(response.read().decode())
            (value,) = (
                one.value for family in families for one in family.samples if (one.name, one.labels.get("topic")) == (name, topic)
            )
        return float(value)

    def disk_bytes(self, topic: str) -> int:
        """Return the blocks that the data files take, in bytes."""
        found = 0
        for path in Path(self.broker.data_dir, f"{topic}-0").glob("*.log*"):
            try:
                found += path.stat().st_blocks * 512
            except FileNotFoundError:  # a cut has replaced it meanwhile
                continue
        return found

    def assert_exactly_from(self, topic: str, offset: int) -> None:
        """Assert that the records from `offset` on are there, and none below it."""
        read = self.wire.read_all(topic, 0)
        assert [(one.offset, one.key, one.value) for one in read.records] == [
            (number, *pair(number)) for number in range(offset, RECORDS)
        ]
        for below in {0, offset - 1}:
            assert self.wire.fetch(topic, 0, below).error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert self.wire.partition_size(topic, 0) == self.size_from(topic, offset)
        until(lambda: self.measured("kafka_log_log_size", topic) == self.size_from(topic, offset), "the metrics follow")
        assert self.measured("kafka_log_log_logstartoffset", topic) == offset

    def assert_exact_lookups(self, topic: str, start: int) -> None:
        """Assert that ListOffsets finds each record by its own time, and the next one a millisecond later."""
        for offset in range(RECORDS):
            timestamp = self.now_ms - self.age_ms(offset)
            for later_ms, wanted in ((0, offset), (1, offset + 1)):
                wanted = max(wanted, start)
                expected = (wanted, self.now_ms - self.age_ms(wanted)) if wanted < RECORDS else (-1, -1)
                assert self.wire.offset_at(topic, 0, timestamp + later_ms) == expected
        last = RECORDS - 1
        assert self.wire.offset_at(topic, 0, MAX_TIMESTAMP) == (last, self.now_ms - self.age_ms(last))

    def close(self) -> None:
        self.wire.close()


def pair(number: int) -> Pair:
    return b"key-%d" % number, b"%d:" % number + bytes((number * 7 + at * at) % 251 for at in range(600))


@contextmanager
def eager_broker(folder: Path, overrides: dict[str, str]) -> Iterator[Scene]:
    """Run a broker that looks for what is due all the time, with a page of metrics."""
    port = free_port()
    broker = BrokerProcess(folder, EAGER | {"metrics.listener": f"127.0.0.1:{port}"} | overrides)
    broker.start()
    scene = Scene(broker, port)
    try:
        yield scene
    finally:
        scene.close()
        broker.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with eager_broker(tmp_path_factory.mktemp("retention"), {}) as scene:
        yield scene


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_by_time_one_segment_loses_exactly_the_records_that_are_due(scene: Scene, codec: CompressionType) -> None:
    topic = f"by-time-{codec.name.lower()}-{len(scene.sizes)}"  # a further attempt has a topic of its own
    scene.fill(topic, codec)
    before = scene.disk_bytes(topic)
    assert len(list(Path(scene.broker.data_dir, f"{topic}-0").glob("*.log"))) == 1
    for start in (37, 133, 171):  # the first leaves more than half of the segment; all are in the middle of a batch
        scene.wire.configure(topic, "retention.ms", str((RECORDS - start) * STEP_MS))
        scene.wait_for_start(topic, start)
        scene.assert_exactly_from(topic, start)
    stays = scene.size_from(topic, 133)
    until(lambda: scene.disk_bytes(topic) < min(before, stays + 8192), f"less than {before} bytes on the disk")
    scene.assert_exactly_from(topic, 171)
    scene.assert_exact_lookups(topic, 171)


def test_by_size_one_segment_keeps_at_least_the_limit(scene: Scene) -> None:
    scene.fill("by-size")
    before = scene.disk_bytes("by-size")
    for start in (30, 135):
        scene.wire.configure("by-size", "retention.bytes", str(scene.size_from("by-size", start) - 1))
        scene.wait_for_start("by-size", start)
        scene.assert_exactly_from("by-size", start)
    until(lambda: scene.disk_bytes("by-size") < before / 2, "less than half of the bytes on the disk")
    scene.assert_exactly_from("by-size", 135)
    scene.assert_exact_lookups("by-size", 135)


def test_the_granularity_changes_while_the_broker_runs(scene: Scene) -> None:
    """Between whole segments and records, for a topic and for all; the topic `other` shows that a pass has ended."""
    wire = scene.wire
    for topic in ("whole", "other"):
        scene.fill(topic)

    def pass_twice(start: int) -> None:
        for offset in (start, start + 1):
            wire.configure("other", "retention.ms", str((RECORDS - offset) * STEP_MS))
            scene.wait_for_start("other", offset)

    wire.configure("other", "retention.granularity", "record")
    wire.configure("whole", "retention.granularity", "segment")
    wire.configure("whole", "retention.ms", str((RECORDS - 83) * STEP_MS))
    pass_twice(11)
    assert scene.start_of("whole") == 0, "the youngest record of the segment is young enough"
    wire.configure("whole", "retention.granularity", "record")
    scene.wait_for_start("whole", 83)
    scene.assert_exactly_from("whole", 83)

    scene.fill("of-all")
    try:
        assert wire.configure_brokers("log.retention.granularity", "segment") == 0
        wire.configure("of-all", "retention.ms", str((RECORDS - 47) * STEP_MS))
        pass_twice(21)
        assert scene.start_of("of-all") == 0
        assert scene.wire.partition_size("of-all", 0) == scene.size_from("of-all", 0)
    finally:
        assert wire.configure_brokers("log.retention.granularity", "record") == 0
    scene.wait_for_start("of-all", 47)
    scene.assert_exactly_from("of-all", 47)
