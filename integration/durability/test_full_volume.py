"""The only volume is full: the broker runs, what frees space works, and then it takes records again, all with stock clients."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from pybroker.broker.lifecycle import NO_ROOM
from pybroker.log.files.room import LOG_BYTES, RESERVE_BYTES_MIN, RESERVE_FILE
from pybroker.protocol.error_codes import ErrorCode
from testing.clients.stock import CLIENTS, create_topic, delete_topic, wait
from testing.hosts.small_disk import SmallDisk, small_disk
from testing.places import ROOT
from testing.process.broker import BrokerProcess, is_kafka
from testing.samples import Sample
from testing.waiting import WAIT_S
from testing.wire.one_request import Wire

pytestmark = pytest.mark.skipif(is_kafka(), reason="looks into our data directories")

DISK_BYTES = 12 << 20
RESERVE_BYTES = RESERVE_BYTES_MIN + 5 * LOG_BYTES  # of the five partitions
KEPT, LARGE = "kept", "large"
SAMPLES = [Sample(b"key", b"value %d" % n, 1_700_000_000_000 + n, ()) for n in range(20)]
HEALTH_CHECK = ROOT / "container" / "healthcheck.py"
FULL = "appends are refused until"
SETTINGS = {
    "log.segment.bytes": "200000",
    "log.segment.delete.delay.ms": "50",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "offsets.topic.num.partitions": "2",
}


class FullVolumeScene:
    """A broker with a volume of its own, or with one directory more. `kept` has records, `large` fills the volume."""

    def __init__(self, folder: Path, disk: SmallDisk, *, more: bool) -> None:
        self.disk = disk
        self.broker = BrokerProcess(folder, SETTINGS)
        self.broker.data_dir = Path(f"{disk.path},{folder / 'second'}" if more else disk.path)
        self.broker.start()
        self.count = 0

    @property
    def is_healthy(self) -> bool:
        """Return whether the image's health check passes.

        While no log directory has room, the check must give that as its reason.
        """
        command = [sys.executable, "-I", "-S", str(HEALTH_CHECK)]
        check = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert check.returncode == 0 or check.stderr == f"not ready: {NO_ROOM}\n"
        return check.returncode == 0

    @property
    def holds_its_reserve(self) -> bool:
        """Return whether the reserve has grown with the logs on the volume."""
        logs = sum(path.is_dir() for path in self.disk.seen.glob("*-[0-9]"))
        reserve = self.disk.seen / RESERVE_FILE
        return logs > 0 and reserve.stat().st_size == RESERVE_BYTES_MIN + logs * LOG_BYTES

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def produce(self, partition: int = 0) -> None:
        """Produce with every client, each of which tries again as long as the error is retriable."""
        for client in CLIENTS:
            client.produce(self.bootstrap, KEPT, SAMPLES)
            self.count += len(SAMPLES)

    def check(self) -> None:
        """Assert that every acknowledged record is there once."""
        for client in CLIENTS:
            received = client.consume(self.bootstrap, KEPT, self.count)
            assert [one.offset for one in received] == list(range(self.count))
            assert [one.sample.value for one in received] == [sample.value for sample in SAMPLES] * (self.count // len(SAMPLES))

    def fill_by_producer(self) -> None:
        """Produce until the broker refuses."""
        errors: list[confluent_kafka.KafkaError] = []
        config = {"bootstrap.servers": self.bootstrap, "retries": 0, "acks": "all", "linger.ms": 0}
        producer = confluent_kafka.Producer(config)
        for number in range(1000):
            if errors:
                break
            producer.produce(
                LARGE, bytes(50_000), partition=number % 4, on_delivery=lambda error, _: error and errors.append(error)
            )
            producer.flush(30)
        assert [error.code() for error in errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
        self.fill()

    def fill(self) -> None:
        """Fill the volume, but leave the room of the reserve while the broker has released it: a recovery needs that room."""
        reserve = self.disk.seen / RESERVE_FILE
        self.disk.fill(0 if reserve.exists() else RESERVE_BYTES)

    def refused(self) -> int:
        """Return the error that one small batch gets."""
        errors: list[confluent_kafka.KafkaError] = []
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "retries": 0, "acks": "all"})
        producer.produce(KEPT, b"refused", partition=0, on_delivery=lambda error, _: error and errors.append(error))
        producer.flush(30)
        return int(errors[0].code()) if errors else 0

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < deadline, f"never: {what}; {self.broker.log_text[-3000:]}"
            time.sleep(0.05)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullVolumeScene]:
    with small_disk(tmp_path / "small", DISK_BYTES) as disk:
        monkeypatch.setenv("PYBROKER_TEST_COMMAND", disk.inside())
        monkeypatch.setenv("PYBROKER_READY_FILE", str(tmp_path / "ready"))
        made = FullVolumeScene(tmp_path, disk, more=getattr(request, "param", False))
        try:
            create_topic(made.bootstrap, KEPT, 1, {"retention.ms": "-1"})
            create_topic(made.bootstrap, LARGE, 4)
            made.until(lambda: made.holds_its_reserve, "the reserve is as large as these logs need")  # by a check each second
            yield made
        finally:
            made.broker.close()


@pytest.mark.parametrize("is_kill", [False, True], ids=["stop", "kill"])
def test_a_volume_that_a_producer_filled_is_free_after_a_start_and_a_deletion(scene: FullVolumeScene, is_kill: bool) -> None:
    scene.produce()
    scene.fill_by_producer()
    assert scene.broker.is_running
    if is_kill:
        scene.broker.kill()
    else:
        assert scene.broker.stop() < 10
    scene.broker.start()
    scene.fill()  # a stop may have used the reserve, so that there was a little room again
    scene.until(lambda: not scene.is_healthy, "full again")
    assert scene.broker.log_text.count(FULL) >= 1
    scene.check()
    assert scene.refused() == ErrorCode.KAFKA_STORAGE_ERROR
    assert scene.broker.is_running
    delete_topic(scene.bootstrap, LARGE)
    scene.produce()
    scene.check()
    assert scene.is_healthy
    scene.broker.stop()
    scene.broker.start()
    assert "after an unclean stop" not in scene.broker.log_text.rpartition("Stopping")[2]
    scene.produce()
    scene.check()
    assert "unexpected" not in scene.broker.log_text


def test_a_topic_is_deleted_while_the_directory_is_offline_for_want_of_room(scene: FullVolumeScene) -> None:
    scene.produce()
    scene.fill_by_producer()
    delete_topic(scene.bootstrap, LARGE)
    scene.until(lambda: scene.disk.free_bytes > 1 << 20, "the space of the topic is free")
    scene.broker.stop()
    scene.broker.start()
    scene.check()
    scene.produce()
    scene.check()
    assert "-stray" not in scene.broker.log_text


@pytest.mark.parametrize("scene", [True], indirect=True, ids=["the store's directory of two"])
@pytest.mark.parametrize("is_kill", [False, True], ids=["stop", "kill"])
def test_a_broker_serves_with_its_metadata_store_on_the_full_volume(scene: FullVolumeScene, is_kill: bool) -> None:
    scene.produce()
    scene.disk.fill(0)
    scene.until(lambda: FULL in scene.broker.log_text, "the volume is seen to be full")
    create_topic(scene.bootstrap, "elsewhere", 3)
    assert not list(scene.disk.seen.glob("elsewhere-*"))
    if is_kill:
        scene.broker.kill()
    else:
        scene.broker.stop()
    scene.broker.start()
    scene.check()
    delete_topic(scene.bootstrap, "elsewhere")
    delete_topic(scene.bootstrap, LARGE)
    scene.disk.empty()
    scene.produce()
    scene.check()


def test_settings_deleted_records_and_retention_free_a_full_volume(scene: FullVolumeScene) -> None:
    scene.produce()
    producer = confluent_kafka.Producer({"bootstrap.servers": scene.bootstrap, "batch.num.messages": 1})
    errors: list[object] = []
    for number in range(40):
        producer.produce(LARGE, bytes(50_000), partition=number % 4, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * 40
    scene.disk.fill(0)
    scene.until(lambda: FULL in scene.broker.log_text, "the volume is seen to be full")
    assert scene.refused() == ErrorCode.KAFKA_STORAGE_ERROR
    assert not scene.is_healthy
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        wait(admin.create_topics([NewTopic("impossible", 1, 1)])["impossible"])
    assert caught.value.args[0].code() == ErrorCode.KAFKA_STORAGE_ERROR
    assert "impossible" not in admin.list_topics(timeout=30).topics
    wait(next(iter(admin.delete_records([confluent_kafka.TopicPartition(LARGE, 0, 7)]).values())))
    before = scene.disk.free_bytes
    change = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, LARGE, incremental_configs=[change])
    wait(admin.incremental_alter_configs([resource])[resource])
    scene.until(lambda: scene.disk.free_bytes > before + (1 << 20), "retention has freed space")
    scene.produce()
    scene.check()
    scene.broker.stop()
    scene.broker.start()
    scene.check()
    assert "goes offline" not in scene.broker.log_text


def test_changes_of_metadata_are_whole_or_refused_on_a_full_volume(scene: FullVolumeScene) -> None:
    """Send CreateTopics, AlterConfigs and InitProducerId until no more fits; then free space, and start the broker again."""
    scene.disk.fill(0)
    wire = Wire(scene.bootstrap)
    created = {name: wire.create_topic(name, 1, {}) for name in (f"topic-{n}" for n in range(30))}
    long_text = ",".join(f"{n}:{n}" for n in range(1000, 1200))
    configured = [
        wire.configure(KEPT, "leader.replication.throttled.replicas", long_text + f",{n}:1" * (n + 1)) for n in range(200)
    ]
    producer_ids = [wire.producer_id() for _ in range(2500)]
    assert set(created.values()) | set(configured) <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(set(producer_ids)) == len(producer_ids)
    wire.close()
    scene.broker.kill()
    scene.broker.start()
    topics = AdminClient({"bootstrap.servers": scene.bootstrap}).list_topics(timeout=30).topics
    assert {name for name in topics if name.startswith("topic-")} == {name for name, error in created.items() if not error}
    wire = Wire(scene.bootstrap)
    assert min(wire.producer_id() for _ in range(3)) > max(producer_ids)
    for name in topics:
        assert wire.delete_topic(name) == 0
    wire.close()
    scene.disk.empty()
    scene.broker.stop()
    scene.broker.start()
    scene.count = 0
    create_topic(scene.bootstrap, KEPT, 1, {"retention.ms": "-1"})
    scene.produce()
    scene.check()
