"""`pybroker spark mirror --local` between two brokers: the target gets the same records, each once, whatever happens."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.records import batch as batch_module
from pybroker.records import compression
from pybroker.records.batch import HEADER_SIZE, Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.job import MirrorOptions, run
from pybroker.spark.mirror.offset_map import OffsetMap, read_arrived
from pybroker.spark.mirror.state import Origin, State
from pybroker.spark.wire.client import LATEST, WireClient
from pybroker.spark.wire.writer import PartitionWriter, WriteInterruptedError
from testing.clients.stock import unique
from testing.process.broker import BrokerProcess, external_bootstrap
from testing.waiting import WAIT_S, until

if TYPE_CHECKING:
    from confluent_kafka import Message

TIMEOUT_S = 60
T0 = 1_700_000_000_000
CODECS = list(CompressionType)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Start a source and a target."""
    if external_bootstrap():
        pytest.skip("needs two clusters")
    brokers = [BrokerProcess(tmp_path_factory.mktemp(name), {"log.retention.ms": "-1"}) for name in ("source", "target")]
    try:
        for broker in brokers:
            broker.start()
        yield brokers[0].bootstrap, brokers[1].bootstrap
    finally:
        for broker in brokers:
            broker.close()


def fill(bootstrap: str, topic: str, *, partitions: int = 2, batch_count: int = 20, count: int = 10, seed: int = 1) -> None:
    """Append batches in all codecs, with keys, values and headers that are there, empty or null."""
    chance = random.Random(seed)
    with WireClient(bootstrap) as client:
        client.create_topic(topic, partitions)
        producer_id, epoch = client.init_producer_id()
        for partition in range(partitions):
            writer = PartitionWriter(client, topic, partition)
            offset = client.list_offset(topic, partition, timestamp=LATEST)
            for number in range(batch_count):
                records = [
                    Record(
                        Offset(n),
                        T0 + chance.randrange(1 << 30),
                        chance.choice([None, b"", b"k%d" % n]),
                        chance.choice([None, b"", chance.randbytes(300), b"v" * 300]),
                        (("h", chance.choice([None, b"", b"x"])), ("h", b"again")) if n % 2 else (),
                    )
                    for n in range(count)
                ]
                batch = build_batch(
                    records,
                    compression=CODECS[number % len(CODECS)],
                    producer_id=ProducerId(producer_id),
                    producer_epoch=ProducerEpoch(epoch),
                    base_sequence=number * count,
                )
                writer.write(memoryview(batch), offset)
                offset += count
            writer.finish()


def read(bootstrap: str, topic: str, partition: int) -> list[Message]:
    """Read every record with a stock client."""
    with WireClient(bootstrap) as client:
        end = client.list_offset(topic, partition, timestamp=LATEST)
    settings = {"bootstrap.servers": bootstrap, "group.id": "x", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    found: list[Any] = []
    consumer, deadline = Consumer(settings), time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (not found or found[-1].offset() < end - 1) and end and time.monotonic() < deadline:
            found += consumer.consume(10_000, 0.2)
    finally:
        consumer.close()
    return found


def content(message: Message) -> Any:
    return message.key(), message.value(), message.headers(), message.timestamp()


def assert_mirrored(pair: tuple[str, str], topic: str, target: str, path: Path, *, partitions: int = 2) -> int:
    """Assert that the target has every source record once, in order, and that the map knows its origin. Returns their number."""
    state, total = State.read(path), 0
    for partition in range(partitions):
        wanted, found = read(pair[0], topic, partition), read(pair[1], target, partition)
        assert [content(one) for one in found] == [content(one) for one in wanted]
        assert [one.offset() for one in found] == list(range(len(wanted)))
        offsets = OffsetMap.read(state.map_path(topic, partition))
        assert [offsets.source_of(one.offset()) for one in found] == [one.offset() for one in wanted]
        assert sum(one.count for one in offsets.runs()) == len(wanted)
        total += len(wanted)
    return total


def options(pair: tuple[str, str], topic: str, folder: Path, **others: Any) -> MirrorOptions:
    return MirrorOptions(**{"path": folder, "source": pair[0], "target": pair[1], "topics": (topic,), "retry_s": 10.0, **others})


def command(pair: tuple[str, str], topic: str, path: Path, *others: str) -> list[str]:
    arguments = ["--source", pair[0], "--target", pair[1], "--topic", topic, "--local", *others]
    return [sys.executable, "-m", "pybroker", "spark", "mirror", str(path), *arguments]


def mirror(pair: tuple[str, str], topic: str, path: Path, *others: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(pair, topic, path, *others), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def payloads(bootstrap: str, topic: str, partition: int) -> list[tuple[int, int, bytes]]:
    with WireClient(bootstrap) as client:
        found = client.fetch(topic, partition, offset=Offset(0), max_bytes=64 << 20)
    return [(one.base_offset, one.attributes, bytes(one.data[HEADER_SIZE:])) for one in batches(found.data)]


def test_batches_are_the_same_in_the_target_and_are_never_decompressed(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("mirror")
    fill(pair[0], topic)

    def poison(*_: Any, **__: Any) -> bytes:
        raise AssertionError("decompressed")

    with monkeypatch.context() as patched:
        patched.setattr(batch_module, "decompress", poison)
        for name in ("compress", "decompress", "inflated"):
            patched.setattr(compression, name, poison)
        result = run(None, options(pair, topic, tmp_path / "m"))
        again = run(None, options(pair, topic, tmp_path / "m"))
    assert (result.counts.verbatim, result.counts.rebuilt, result.counts.records, result.lost) == (40, 0, 400, 0)
    assert again.counts.records == 0
    for partition in range(2):
        assert payloads(pair[1], topic, partition) == payloads(pair[0], topic, partition)
    assert assert_mirrored(pair, topic, topic, tmp_path / "m") == 400


def test_a_second_run_mirrors_what_is_new_and_the_map_names_its_origin(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    with WireClient(pair[0]) as client:
        client.create_topic(
            topic, 1, {"cleanup.policy": "delete", "max.message.bytes": "2000000", "retention.ms": "999999999999"}
        )
    fill(pair[0], topic, partitions=1)
    first = mirror(pair, topic, path, "--prefix", "copy.")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("200 records mirrored in ")
    assert "20 batches as they were, 0 rebuilt" in first.stdout
    with WireClient(pair[0]) as client:
        client.create_partitions(topic, 2)
    fill(pair[0], topic, seed=2)
    second = mirror(pair, topic, path, "--prefix", "copy.")
    assert second.stdout.startswith("400 records mirrored in "), second.stderr
    assert assert_mirrored(pair, topic, f"copy.{topic}", path) == 600
    with WireClient(pair[1]) as client:
        settings = client.settings(f"copy.{topic}")
    assert [settings[name].value for name in ("retention.ms", "max.message.bytes", "compression.type")] == [
        "-1",
        "2000000",
        "producer",
    ]
    assert State.read(path).origin(f"copy.{topic}", 1, offset=Offset(7)) == Origin(topic, 1, Offset(7))
    asked = subprocess.run(
        [*command(pair, topic, path)[:6], "--origin", f"copy.{topic}:0:399", "--map", f"copy.{topic}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert asked.stdout.splitlines() == [
        f"{topic}:0:399",
        "partition 0: source 0-399 is 0-399",
        "partition 1: source 0-199 is 0-199",
    ]
    with pytest.raises(PipelineError, match=r"is mirrored up to offset 399; offset 400 is not mirrored yet"):
        State.read(path).origin(f"copy.{topic}", 0, offset=Offset(400))


def test_kill_9_at_any_moment_neither_loses_nor_doubles(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path, chance = unique("mirror"), tmp_path / "m", random.Random(3)
    fill(pair[0], topic, batch_count=1500, count=4)
    kills, there = 0, 0
    while there < 11_000:
        more = there + chance.randrange(1, 3000)
        process = subprocess.Popen(command(pair, topic, path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            until(lambda: written(pair[1], topic) >= more or process.poll() is not None, "mirrored records")  # noqa: B023 (called here)
        finally:
            process.kill()
            _, printed = process.communicate(timeout=TIMEOUT_S)
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, printed
            break
        kills, there = kills + 1, written(pair[1], topic)
    assert kills >= 3, "the mirror was killed in the middle"
    last = mirror(pair, topic, path)
    assert last.returncode == 0, last.stderr
    assert assert_mirrored(pair, topic, topic, path) == 12_000


def written(bootstrap: str, topic: str) -> int:
    """Return the number of records that the target has."""
    with WireClient(bootstrap) as client:
        found = client.topics([topic])
        return sum(client.list_offset(topic, number, timestamp=LATEST) for name in found for number in range(2))


def arrived(path: Path, topic: str) -> int:
    """Return the number of records that have arrived according to the maps."""
    found = [read_arrived(one) for one in (path / "offsets" / topic).glob("*.map")]
    return sum(one.target for one in found if one is not None)


def test_the_mirror_waits_for_a_target_that_was_killed(tmp_path: Path, pair: tuple[str, str]) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    fill(pair[0], topic, batch_count=600, count=4)
    target = BrokerProcess(tmp_path / "broker")
    target.start()
    both = pair[0], target.bootstrap
    try:
        process = subprocess.Popen(
            command(both, topic, path, "--retry-s", "30"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for more in (100, 1500, 3000):
            until(lambda: written(target.bootstrap, topic) >= more or process.poll() is not None, "mirrored records")  # noqa: B023 (called here)
            target.kill()
            target.start()
        printed = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, printed
        assert assert_mirrored(both, topic, topic, path) == 4800
        target.kill()
        fill(pair[0], topic, batch_count=1)
        ended = mirror(both, topic, path, "--retry-s", "0.5")
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == (
            f"Error: no broker at {target.bootstrap}: Connection refused, for 0.5 s; run the same command again to continue\n"
        )
        target.start()
        assert mirror(both, topic, path).returncode == 0
        assert assert_mirrored(both, topic, topic, path) == 4820
    finally:
        target.close()


def test_ctrl_c_stops_a_mirror_that_follows_the_source(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    fill(pair[0], topic)
    process = subprocess.Popen(
        command(pair, topic, path, "--every", "0.05"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: arrived(path, topic) == 400, "400 records")
        fill(pair[0], topic, seed=5)
        until(lambda: arrived(path, topic) == 800, "800 records")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert (process.returncode, out, error) == (130, "", "mirror: stopped; run the same command again to continue\n")
    assert assert_mirrored(pair, topic, topic, path) == 800


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [future] = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    assert future.result(WAIT_S).low_watermark == before


def test_offsets_that_are_gone_stop_the_mirror_unless_loss_is_allowed(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    fill(pair[0], topic, partitions=1, batch_count=3)
    delete_records(pair[0], topic, 13)  # in the middle of a batch, before the first run
    assert run(None, options(pair, topic, path)).counts.records == 17
    fill(pair[0], topic, partitions=1, batch_count=4)
    delete_records(pair[0], topic, 45)
    news = f"15 offsets of {topic}-0 were deleted before they were mirrored, 30 to 44"
    with pytest.raises(PipelineError, match=f"^{news}; --allow-loss continues without them$"):
        run(None, options(pair, topic, path))
    result = run(None, options(pair, topic, path, is_loss_allowed=True))
    assert (result.counts.records, result.counts.rebuilt, result.counts.verbatim, result.lost) == (25, 1, 2, 15)
    found = read(pair[1], topic, 0)
    assert [content(one) for one in found[17:]] == [content(one) for one in read(pair[0], topic, 0)]
    state = State.read(path)
    assert [state.origin(topic, 0, offset=Offset(n)).offset for n in (0, 16, 17, 41)] == [13, 29, 45, 69]


def test_the_mirror_refuses_what_it_cannot_keep(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    fill(pair[0], topic, partitions=1)

    def refused(text: str, **others: Any) -> None:
        with pytest.raises(PipelineError, match=text):
            run(None, options(pair, topic, path, **others))

    refused("no topic nope at", topics=("nope",))
    refused(f"source and target are the same cluster: topic {topic} needs another name in the target", target=pair[0])
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").touch()
    refused("x is not empty and is not the folder of a mirror", path=tmp_path / "x")
    refused(r"'\(' is not a regular expression", topics=(), pattern="(")
    refused("topic other is renamed but not mirrored", renamed={"other": "x"})
    fill(pair[1], f"old.{topic}", partitions=1, batch_count=1)
    refused(f"old.{topic}-0 already has 10 records that this mirror did not write", prefix="old.")
    with WireClient(pair[1]) as client:
        client.create_topic(f"late.{topic}", 1, {"message.timestamp.type": "LogAppendTime"})
        client.create_topic(f"packed.{topic}", 1, {"compression.type": "gzip"})
    refused("would not keep timestamps: its message.timestamp.type is not CreateTime", prefix="late.")
    refused("would not keep batches as they are: its compression.type is not producer", prefix="packed.")


def test_the_mirror_looks_up_its_place_again_when_the_target_is_elsewhere(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, write, calls = unique("mirror"), PartitionWriter.write, iter(range(1000))
    fill(pair[0], topic)

    def sometimes(self: PartitionWriter, batch: memoryview, offset: int) -> None:
        if next(calls) in {7, 19}:
            raise WriteInterruptedError("OUT_OF_ORDER_SEQUENCE_NUMBER")
        write(self, batch, Offset(offset))

    monkeypatch.setattr(PartitionWriter, "write", sometimes)
    assert run(None, options(pair, topic, tmp_path / "m", workers=1)).counts.records == 400
    assert assert_mirrored(pair, topic, topic, tmp_path / "m") == 400


def test_the_mirror_stops_when_another_producer_writes(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    fill(pair[0], topic, partitions=1)
    run(None, options(pair, topic, path))
    with WireClient(pair[1]) as client:
        assert client.produce(topic, 0, build_batch([Record(Offset(0), T0, b"k", b"v")])) == 200
    for _ in range(2):
        with pytest.raises(
            PipelineError, match=f"{topic}-0 has a batch at offset 200 that this mirror did not write: another producer writes"
        ):
            run(None, options(pair, topic, path))
    assert arrived(path, topic) == 200


def test_a_folder_is_for_one_mirror(pair: tuple[str, str], tmp_path: Path) -> None:
    topic, path = unique("mirror"), tmp_path / "m"
    fill(pair[0], topic, partitions=1)
    run(None, options(pair, topic, path))
    with pytest.raises(PipelineError, match=f"topic {topic} already goes to {topic}, not to b.{topic}"):
        run(None, options(pair, topic, path, prefix="b."))
    with pytest.raises(PipelineError, match="mirrors from cluster"):
        run(None, options((pair[1], pair[0]), topic, path))
    state = State.write(path)
    with pytest.raises(PipelineError, match="m is in use: another mirror is running"):
        run(None, options(pair, topic, path))
    state.close()
    admin = AdminClient({"bootstrap.servers": pair[0]})
    admin.delete_topics([topic])[topic].result(WAIT_S)
    fill(pair[0], topic, partitions=1)
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted and created again since it was mirrored"):
        run(None, options(pair, topic, path))
