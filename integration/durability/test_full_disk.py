"""One of two data directories is full: its partitions are offline, the others are served, and no acknowledged record is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from testing.error_codes import error_code
from testing.hosts.small_disk import SmallDisk, small_disk
from testing.process.broker import BrokerProcess, is_kafka
from testing.wire.one_request import Read, Wire, values

pytestmark = pytest.mark.skipif(is_kafka(), reason="looks into our data directories")

TOPIC, PARTITIONS, GROUPS = "wide", 4, 8
T0_MS = 1_700_000_000_000
DISK_BYTES, DEVICE_BYTES = 4 << 20, 20 << 20
OFFLINE = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


class SmallDiskScene:
    """A broker with two directories, the second of them small, and what the broker acknowledged."""

    def __init__(self, folder: Path, disk: SmallDisk) -> None:
        self.disk, self.large = disk, folder / "large"
        self.broker = BrokerProcess(folder, {"offsets.topic.num.partitions": "4", "log.segment.bytes": "100000"})
        self.broker.data_dir = Path(f"{self.large},{disk.path}")
        self.broker.start()
        self.wire = Wire(self.broker.bootstrap)
        self.records: dict[int, dict[int, bytes]] = {n: {} for n in range(PARTITIONS)}
        self.offsets: dict[str, int] = {}
        assert self.wire.create_topic(TOPIC, PARTITIONS, {}) == 0
        self.small = [n for n in range(PARTITIONS) if (disk.seen / f"{TOPIC}-{n}").is_dir()]
        assert 0 < len(self.small) < PARTITIONS, "both directories have some"

    def restart(self, *, is_kill: bool = False, meanwhile: Callable[[], None] | None = None) -> None:
        self.wire.close()
        if is_kill:
            self.broker.kill()
        else:
            self.broker.stop()
        if meanwhile is not None:
            meanwhile()
        self.broker.start()
        self.wire = Wire(self.broker.bootstrap)

    def produce(self, partition: int, size: int) -> int:
        """Produce a batch of five records, and return the error."""
        texts = [b"%d:%d:" % (partition, len(self.records[partition]) + n) + bytes(size) for n in range(5)]
        error, first = self.wire.produce(TOPIC, partition, values(0, [(None, text) for text in texts], T0_MS))
        if not error:
            self.records[partition] |= dict(enumerate(texts, first))
        return error

    def commit(self, group: str, *, wait_s: float = 60) -> int:
        offset = self.offsets.get(group, 0) + 1
        error = self.wire.commit(group, TOPIC, 0, offset, wait_s=wait_s)
        if not error:
            self.offsets[group] = offset
        return error

    def check(self, *, may_be_offline: bool = False, may_be_shorter: bool = False) -> None:
        """Assert that each acknowledged record can be read at its offset, and that the offsets have no gap.

        A partition on the small disk may be offline. It may also be shorter, where only the page cache had the records.
        """
        for partition, wanted in self.records.items():
            read: Read = self.wire.read_all(TOPIC, partition)
            if may_be_offline and partition in self.small and read.error == ErrorCode.KAFKA_STORAGE_ERROR:
                continue
            assert read.error == 0, f"partition {partition}: {error_code(read.error).name}"
            found: dict[int, bytes | None] = {record.offset: record.value for record in read.records}
            assert list(found) == list(range(len(found))), "the offsets have no gap"
            if may_be_shorter and partition in self.small:
                assert found == {offset: wanted[offset] for offset in found}
                self.records[partition] = {offset: wanted[offset] for offset in found}
            else:
                assert {offset: found.get(offset) for offset in wanted} == wanted
        for group, offset in self.offsets.items():
            error, found_offset = self.wire.committed(group, TOPIC, 0, wait_s=0 if may_be_offline else 60)
            if not may_be_offline or error not in OFFLINE:
                assert (error, found_offset) == (0, offset)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDiskScene]:
    is_device = getattr(request, "param", False)
    with small_disk(tmp_path / "small", DEVICE_BYTES if is_device else DISK_BYTES, is_device=is_device) as disk:
        monkeypatch.setenv("PYBROKER_TEST_COMMAND", disk.inside())
        made = SmallDiskScene(tmp_path, disk)
        try:
            yield made
        finally:
            made.wire.close()
            made.broker.close()


def by_produce(scene: SmallDiskScene) -> None:
    """Fill the disk until a batch does not fit whole."""
    scene.disk.fill(150_000)
    while not (error := scene.produce(scene.small[0], 5_000)):
        assert scene.disk.free_bytes > 0
    assert error == ErrorCode.KAFKA_STORAGE_ERROR


def by_commit(scene: SmallDiskScene) -> None:
    """Fill the disk until an offset does not fit, of a group whose coordinator is on that disk."""
    scene.disk.fill(0)
    errors: set[int] = set()
    for _ in range(500):
        errors |= {scene.commit(f"group-{n}", wait_s=0) for n in range(GROUPS) if f"group-{n}" in scene.offsets}
        if errors - {0}:
            break
    assert errors - {0} <= OFFLINE
    assert errors - {0}, "there was no room, but the offset was committed"


def by_creation(scene: SmallDiskScene) -> None:
    """Fill the disk until a directory for a new partition, or a file in it, cannot be made."""
    scene.disk.fill(0)
    errors = {scene.wire.create_topic(f"new-{n}", 4, {}) for n in range(40)}
    assert errors <= {0, ErrorCode.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize(
    ("fill_up", "is_kill"), [(by_produce, False), (by_produce, True), (by_commit, True), (by_creation, True)]
)
def test_a_directory_without_room_goes_offline_alone(
    scene: SmallDiskScene, fill_up: Callable[[SmallDiskScene], None], is_kill: bool
) -> None:
    for partition in range(PARTITIONS):
        assert scene.produce(partition, 100) == 0
    for number in range(GROUPS):
        assert scene.commit(f"group-{number}") == 0
    fill_up(scene)
    assert scene.broker.is_running
    large = [n for n in range(PARTITIONS) if n not in scene.small]

    def serves_the_rest() -> None:
        assert [scene.produce(partition, 5_000) for partition in large] == [0] * len(large)
        assert {scene.produce(partition, 50_000) for partition in scene.small} == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert [scene.produce(partition, 100) for partition in large] == [0] * len(large)
        scene.check(may_be_offline=True)
        assert scene.broker.is_running

    serves_the_rest()
    scene.restart(is_kill=is_kill)  # the disk is as full as before
    serves_the_rest()
    scene.disk.empty()
    scene.restart(is_kill=is_kill)
    scene.check()
    assert [scene.produce(partition, 5_000) for partition in range(PARTITIONS)] == [0] * PARTITIONS
    assert {scene.commit(f"group-{number}") for number in range(GROUPS)} == {0}
    scene.check()
    assert "unexpected" not in scene.broker.log_text


@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize("scene", [True], indirect=True, ids=["device"])
def test_a_device_that_fails_at_the_sync_loses_no_synced_record(scene: SmallDiskScene, is_synced: bool) -> None:
    """Let the sync fail after writes that succeeded.

    With flush.messages=1 no record is acknowledged before its sync, so none is lost. Otherwise the sync comes when a segment is
    full, and the last records may be lost, because only the page cache had them.
    """
    if is_synced:
        assert scene.wire.configure(TOPIC, "flush.messages", "1") == 0
    for partition in range(PARTITIONS):
        assert scene.produce(partition, 100) == 0
    scene.disk.fill(0)
    victim, *_ = scene.small
    for _ in range(500):
        error = scene.produce(victim, 5_000)
        if error:
            break
    assert error == ErrorCode.KAFKA_STORAGE_ERROR
    large = [n for n in range(PARTITIONS) if n not in scene.small]
    assert [scene.produce(partition, 5_000) for partition in large] == [0] * len(large)
    assert {scene.produce(partition, 100) for partition in scene.small} == {ErrorCode.KAFKA_STORAGE_ERROR}
    scene.check(may_be_offline=True)
    assert scene.broker.is_running
    scene.disk.empty()
    scene.restart(meanwhile=scene.disk.mount_again)
    scene.check(may_be_shorter=not is_synced)
    assert [scene.produce(partition, 100) for partition in range(PARTITIONS)] == [0] * PARTITIONS
    scene.check()
