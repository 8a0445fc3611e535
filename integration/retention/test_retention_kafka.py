"""Apache Kafka and our tools read directories whose segments retention cut, after a clean stop and after `kill -9` during a cut.

Kafka creates topics of the same names, and its empty logs are then replaced by ours. So it starts on our files with its own
recovery, where there is no marker of a clean stop.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from integration.adoption.kafka_directory import KafkaDirectory, kafka_directory
from integration.retention.test_retention import BATCH_RECORDS, EAGER, RECORDS, STEP_MS, Scene, pair
from pybroker.log.checkpoints.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
)
from pybroker.records.compression import CompressionType
from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.kafka_peer import free_port
from testing.process.kafka_tools import run_tool
from testing.waiting import Deadline, until

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars"),
    pytest.mark.skipif(is_kafka(), reason="starts both brokers itself"),
]

CODECS = (CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD)
FIRST_START, SECOND_START = 117, 171
"""Both in the middle of a batch. The first segment is cut at the batch of either."""
KILLED, STOPPED = "killed", "stopped"
CHECKPOINTS = (LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE, REPLICATION_OFFSET_FILE)
TIMEOUT_S = 60


def name_of(codec: CompressionType, end: str = KILLED) -> str:
    return f"{end}-{codec.name.lower()}"


def move_start(scene: Scene, start: int) -> None:
    for codec in CODECS:
        scene.wire.configure(name_of(codec), "retention.ms", str((RECORDS - start) * STEP_MS))


def is_cut_at(folder: Path, codec: CompressionType, start: int) -> bool:
    return (folder / f"{name_of(codec)}-0" / f"{start // BATCH_RECORDS * BATCH_RECORDS:020}.log").exists()


def kill_during_a_cut(scene: Scene, folder: Path) -> None:
    """Let the start move, and kill the broker as soon as the files show that a segment is being cut."""
    move_start(scene, SECOND_START)
    deadline = Deadline("a segment that is being cut")
    while not any(path.suffix in {".cleaned", ".swap"} for path in folder.glob(f"{KILLED}-*/*")):
        deadline.check()
        if any(is_cut_at(folder, codec, SECOND_START) for codec in CODECS):
            break
    scene.broker.kill()


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a data directory of ours as `kill -9` left it, and as a clean stop left it after the next start."""
    folder, port = tmp_path_factory.mktemp("ours"), free_port()
    broker = BrokerProcess(folder, EAGER | {"metrics.listener": f"127.0.0.1:{port}"})
    broker.start()
    scene = Scene(broker, port)
    found = {}
    try:
        for codec in CODECS:
            scene.fill(name_of(codec), codec)
        move_start(scene, FIRST_START)
        for codec in CODECS:
            until(lambda codec=codec: is_cut_at(broker.data_dir, codec, FIRST_START), "the first segment is cut")  # type: ignore[misc]
        kill_during_a_cut(scene, broker.data_dir)
        scene.close()
        found[KILLED] = shutil.copytree(broker.data_dir, folder / KILLED)
        broker.start()
        scene = Scene(broker, port)
        for codec in CODECS:
            scene.wait_for_start(name_of(codec), SECOND_START)
            until(lambda codec=codec: is_cut_at(broker.data_dir, codec, SECOND_START), "the segment is cut after the start")  # type: ignore[misc]
        broker.stop()
        found[STOPPED] = shutil.copytree(broker.data_dir, folder / STOPPED)
    finally:
        scene.close()
        broker.close()
    return found


@pytest.mark.parametrize("end", [KILLED, STOPPED])
def test_our_tool_and_kafkas_find_nothing_wrong(copies: dict[str, Path], end: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pybroker", "log", "verify", str(copies[end])]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert verified.returncode == 0, verified.stdout
    files = sorted(copies[end].glob(f"{KILLED}-*/*.log"))
    for swap in copies[end].glob(f"{KILLED}-*/*.log.swap"):
        if not swap.with_suffix("").exists():  # killed between two renamings: the next start does the other, as Kafka's does
            folder = tmp_path / swap.parent.name
            folder.mkdir(exist_ok=True)
            files.append(Path(shutil.copy(swap, folder / swap.with_suffix("").name)))
    assert len(files) >= len(CODECS)
    dumped = run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files)))
    assert dumped.returncode == 0, dumped.stderr
    assert "isvalid: false" not in dumped.stdout.lower()
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", dumped.stdout, re.MULTILINE)]
    assert offsets.count(RECORDS - 1) == len(CODECS)
    if end == STOPPED:
        first = SECOND_START // BATCH_RECORDS * BATCH_RECORDS
        assert sorted(offsets) == sorted([*range(first, RECORDS)] * len(CODECS))


def lay_beside(kafka: KafkaDirectory, ours: Path, target: Path, end: str) -> None:
    """Replace Kafka's empty logs of these topics by ours, and its checkpoints."""
    for codec in CODECS:
        name = f"{name_of(codec, end)}-0"
        (theirs,) = (folder / name for folder in kafka.log_dirs if (folder / name).is_dir())
        metadata = (theirs / "partition.metadata").read_bytes()
        shutil.rmtree(theirs)
        shutil.copytree(ours / f"{name_of(codec)}-0", target / name)
        (target / name / "partition.metadata").write_bytes(metadata)
    for checkpoint in CHECKPOINTS:
        text = (ours / checkpoint).read_text() if (ours / checkpoint).exists() else "0\n0\n"
        (target / checkpoint).write_text(text.replace(KILLED, end))


@pytest.fixture(scope="module")
def kafka(copies: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaDirectory]:
    """Return Apache Kafka, started on the directory of the killed broker and on that of the stopped one."""
    with kafka_directory(tmp_path_factory.mktemp("kafka"), "3.9.2") as kafka:
        for end in (KILLED, STOPPED):
            for codec in CODECS:
                create_topic(kafka.bootstrap, name_of(codec, end), 1, {"retention.ms": "-1"})
        kafka.stop()
        for end, target in zip((KILLED, STOPPED), kafka.log_dirs, strict=True):
            lay_beside(kafka, copies[end], target, end)
        (kafka.log_dirs[0] / CLEAN_SHUTDOWN_FILE).unlink()
        assert (kafka.log_dirs[1] / CLEAN_SHUTDOWN_FILE).exists()
        kafka.start()
        yield kafka


def read_from_the_start(bootstrap: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Read a partition to its end with a consumer that begins at the log start offset."""
    options = {"enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **options})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, bytes | None, bytes | None]] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{topic} has no more records, and no end"
        if message.error():
            break
        offset = message.offset()
        assert offset is not None
        found.append((offset, message.key(), message.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("end", [KILLED, STOPPED])
def test_kafka_serves_exactly_what_is_left(kafka: KafkaDirectory, end: str) -> None:
    for codec in CODECS:
        topic = name_of(codec, end)
        found = read_from_the_start(kafka.bootstrap, topic)
        start = found[0][0]
        assert found == [(offset, *pair(offset)) for offset in range(start, RECORDS)], topic
        assert start in ({SECOND_START} if end == STOPPED else {FIRST_START, SECOND_START}), topic
        assert not list(kafka.data_dir.rglob(f"{topic}-0*stray*"))


def test_kafkas_recovery_finds_no_damage(kafka: KafkaDirectory) -> None:
    text = (kafka.data_dir / "server.log").read_text()
    recovered = re.findall(r"Recovering unflushed segment \d+|Loading producer state till offset \d+", text)
    assert recovered, "Kafka has looked at the logs"
    lines = [line for line in text.splitlines() if re.search("orrupt|nvalid|Truncat|ERROR", line) and KILLED in line]
    assert lines == []
