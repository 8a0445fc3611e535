"""`pybroker log dump` and `verify` beside Kafka's DumpLogSegments, on the files of our broker and of Apache Kafka's."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from pybroker.model import Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_message_set
from pybroker.records.compression import CompressionType
from testing.clients.stock import create_topic
from testing.process import kafka_peer
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.kafka_tools import java, run_tool
from testing.waiting import Deadline, until

pytestmark = pytest.mark.skipif(is_kafka(), reason="starts both brokers itself")

OVERRIDES = {
    "log.index.interval.bytes": "500",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
SMALL = {"segment.bytes": "20000"}
COMPACTED = SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
NOT_COMPARED = {"deleteHorizonMs", "headers", "headerKeys", "isValid"}
TIMEOUT_S = 120
FLIPS = 60


def pybroker(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", "log", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def write(bootstrap: str) -> None:
    """Produce in every codec, commit offsets, and end transactions."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 2}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = confluent_kafka.Producer(settings | {"compression.type": codec, "enable.idempotence": True})
        for number in range(120):
            for topic in ("plain", "compacted"):
                producer.produce(topic, b"value-%d" % number * 9, b"k%d" % (number % 7), headers=[("h", b"x")])
            if number % 10 == 9:
                assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer(settings | {"group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("plain", 0, 42)], asynchronous=False)
    consumer.close()
    producer = confluent_kafka.Producer(settings | {"transactional.id": "writer"})
    producer.init_transactions()
    for number in range(12):
        producer.begin_transaction()
        producer.produce("transactional", b"v" * 300, b"k")
        assert producer.flush(TIMEOUT_S) == 0
        producer.abort_transaction() if number % 3 == 1 else producer.commit_transaction()


def is_compacted(folder: Path) -> bool:
    cleaned = folder / "cleaner-offset-checkpoint"
    return (
        any(re.fullmatch(r"compacted 0 [1-9]\d*", line) for line in cleaned.read_text().splitlines())
        if cleaned.exists()
        else False
    )


@pytest.fixture(params=["pybroker", "kafka"])
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data directory of a broker that has stopped; `verify` has found nothing while it ran."""
    java()
    is_peer = request.param == "kafka"
    if is_peer:
        monkeypatch.setenv("PYBROKER_TEST_COMMAND", f"{sys.executable} -m testing.process.kafka_peer start --heap 512M")
        kafka_peer.classpath()
    broker = BrokerProcess(tmp_path, OVERRIDES)
    broker.start()
    folder = broker.data_dir / "logs" if is_peer else broker.data_dir
    try:
        for topic, configs in (("plain", SMALL), ("transactional", SMALL), ("compacted", COMPACTED)):
            create_topic(broker.bootstrap, topic, 1, configs)
        write(broker.bootstrap)
        until(lambda: is_compacted(folder), "a compaction")
        running = pybroker("verify", folder)
        assert running.returncode == 0, running.stdout
        broker.stop()
    finally:
        broker.close()
    return folder


def words(line: str) -> dict[str, str]:
    return {name: value for name, value in re.findall(r"(\w+): (\S*)", line) if name not in NOT_COMPARED}


def both(path: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the lines of batches and records that we print, and those of Kafka's tool."""
    ours = pybroker("dump", "--records", path)
    assert ours.returncode == 0, ours.stderr
    theirs = run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", str(path))
    printed = [
        [line for line in one.stdout.splitlines() if line.startswith(("| ", "baseOffset", "offset"))] for one in (ours, theirs)
    ]
    return [words(line) for line in printed[0]], [words(line) for line in printed[1]]


def test_files_of_both_brokers_read_the_same(data: Path) -> None:
    stopped = pybroker("verify", data)
    assert stopped.returncode == 0, stopped.stdout
    assert "No problem found" in stopped.stdout
    names = ["plain-0", "compacted-0", "transactional-0"]
    for name in names:
        path = max((data / name).glob("*.log"), key=lambda one: one.stat().st_size)
        ours, theirs = both(path)
        assert len(ours) > 10
        assert ours == theirs, name
    decoded = pybroker("dump", "--decode", "offsets", "--json", data / "__consumer_offsets-0")
    commits = [one for one in map(json.loads, decoded.stdout.splitlines()) if one["type"] == "record"]
    assert commits[-1]["key"]["data"] == {"group": "readers", "topic": "plain", "partition": 0}
    assert commits[-1]["payload"]["data"]["offset"] == 42
    assert_every_flip_is_found(data / "plain-0", data.parent / "plain-0")


def assert_every_flip_is_found(partition: Path, copy: Path) -> None:
    """Flip bytes of a copy, at random and the same every time, and look for each with `verify`."""
    from pybroker.inspection.findings import Findings  # noqa: PLC0415
    from pybroker.inspection.verify import verify  # noqa: PLC0415

    shutil.copytree(partition, copy)
    draw = random.Random(7)
    for number in range(FLIPS):
        path = draw.choice(sorted(one for one in copy.glob("*.log") if one.stat().st_size))
        sound = path.read_bytes()
        position = draw.randrange(len(sound))
        path.write_bytes(sound[:position] + bytes([sound[position] ^ draw.randrange(1, 256)]) + sound[position + 1 :])
        findings = Findings()
        verify(findings, copy)
        assert any(one.path == path for one in findings.problems), (path, position)
        if not number:
            assert pybroker("verify", copy).returncode == 1
        path.write_bytes(sound)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_magic_read_the_same(tmp_path: Path, magic: int) -> None:
    records = [Record(Offset(i), 1_700_000_000_000 + i, b"k%d" % i, b"v%d" % i) for i in range(12)]
    codecs = (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4)
    sets = [build_message_set(records[3 * i : 3 * i + 3], magic=magic, compression=codec) for i, codec in enumerate(codecs)]
    folder = tmp_path / "old-0"
    folder.mkdir()
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"".join(sets))
    ours, theirs = both(path)
    assert [one["offset"] for one in ours if "keySize" in one] == [str(i) for i in range(12)]
    assert ours == [{name: value for name, value in one.items() if "keySize" not in one or name != "crc"} for one in theirs]


def test_a_log_verifies_while_it_is_written_rolled_and_compacted(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(OVERRIDES | {"log.segment.delete.delay.ms": "100"})
    create_topic(broker.bootstrap, "busy", 1, COMPACTED)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 2})
    deadline, runs = Deadline("some runs beside a broker"), 0
    while runs < 5:
        deadline.check()
        for number in range(400):
            producer.produce("busy", b"v" * 100, b"k%d" % (number % 9))
        command = [sys.executable, "-m", "pybroker", "log", "verify", str(broker.data_dir)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        producer.flush(TIMEOUT_S)
        found, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, found
        runs += 1
