"""A volume without room: appends are refused, the reserve serves the files that must be written, and deleting continues."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.clock import ManualClock
from pybroker.config.topic import TopicConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import StoredOffset
from pybroker.log.files.filesystem import WriteBuffer
from pybroker.log.files.room import FULL_BYTES, LOG_BYTES, RESERVE_BYTES_MIN, RESERVE_FILE, ROOM_BYTES, Room
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.logs import FaultyFilesystem, append, batch

VOLUME_BYTES = 1 << 30
TP, OTHER = TopicPartition("events", 0), TopicPartition("events", 1)
TOPIC_ID = TopicId(b"the topic's id, 1"[:16])


class SmallVolume(FaultyFilesystem):
    """`free` bytes are left; files that are written whole and the reserve take from them."""

    keeps_reserves = True
    __slots__ = ("free", "reserved", "takes_all")

    def __init__(self, free: int = VOLUME_BYTES) -> None:
        super().__init__()
        self.takes_all = False  # whether another writer takes the room that is left
        self.free, self.reserved = free, 0

    def volume_space(self, path: str) -> tuple[int, int]:
        return VOLUME_BYTES, self.free

    def allocate(self, path: str, size: int) -> None:
        if size - self.reserved > self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.free -= size - self.reserved
        self.reserved = size
        Path(path).write_bytes(bytes(size))

    def remove(self, path: str) -> None:
        if path.endswith(RESERVE_FILE):
            self.free, self.reserved = self.free + self.reserved, 0
        super().remove(path)

    def pwrite(self, fd: int, data: WriteBuffer, position: int) -> int:  # type: ignore[override]  # os.pwrite takes any buffer
        if len(data) > self.free or self.takes_all:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, data, position)


class VolumeScene:
    """A manager of one directory on a small volume."""

    def __init__(self, folder: Path, volume: SmallVolume) -> None:
        self.volume, self.path = volume, str(folder / "data")
        self.clock = ManualClock(1_700_000_000_000)
        self.logs = LogManager(
            [self.path],
            cluster_id="cluster",
            node_id=BrokerId(1),
            services=LogServices(clock=self.clock),
            config_of=lambda _: TopicConfig(file_delete_delay_ms=0),
            filesystem=volume,
        )
        self.logs.start(lambda _: TOPIC_ID)

    def append(self, tp: TopicPartition = TP) -> int:
        log = self.logs.get(tp)
        assert log is not None
        return append(log, batch())

    def create(self, tp: TopicPartition = TP) -> None:
        self.logs.create(tp, TOPIC_ID, TopicConfig(file_delete_delay_ms=0))

    def look(self, free: int) -> None:
        self.volume.free = free
        self.logs.passes.look_for_room()


@pytest.fixture
def scene(tmp_path: Path) -> VolumeScene:
    made = VolumeScene(tmp_path, SmallVolume())
    made.create()
    return made


def test_appends_are_refused_while_the_volume_is_full_and_taken_again(scene: VolumeScene) -> None:
    assert scene.append() == 0
    scene.look(FULL_BYTES - 1)
    writes: list[str] = []
    scene.volume.fault = writes.append
    for _ in range(3):
        with pytest.raises(KafkaError, match="is full: no records can be taken") as caught:
            scene.append()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="is full"):
        scene.create(OTHER)
    assert writes == [], "nothing is tried on the disk"
    assert not scene.logs.has_room
    assert not scene.logs.directories[0].is_offline
    scene.look(ROOM_BYTES - 1)
    assert not scene.logs.has_room, "not at the first byte"
    scene.look(VOLUME_BYTES)
    assert scene.logs.has_room
    assert scene.append() == 1
    scene.create(OTHER)


def test_a_volume_that_the_next_second_would_fill_is_full(tmp_path: Path) -> None:
    volume = SmallVolume(100 << 20)
    room = Room(volume, str(tmp_path))
    room.begin()
    for free, is_full in ((70 << 20, False), (25 << 20, True), (40 << 20, True), (51 << 20, False)):
        volume.free = free
        room.look()
        assert room.is_full is is_full, free
    room.end()


def test_the_reserve_grows_with_the_logs_and_is_found_again(tmp_path: Path) -> None:
    volume = SmallVolume()
    room = Room(volume, str(tmp_path))
    room.begin()
    assert volume.reserved == RESERVE_BYTES_MIN
    room.look(10)
    assert volume.reserved == RESERVE_BYTES_MIN + 10 * LOG_BYTES == (tmp_path / RESERVE_FILE).stat().st_size
    room.end()
    volume.free = 0
    again = Room(volume, str(tmp_path))
    again.begin()
    assert again.is_full
    assert again.release()
    assert not again.release(), "only once"
    assert volume.free == RESERVE_BYTES_MIN + 10 * LOG_BYTES
    again.end()


def test_small_files_get_the_reserve_and_records_do_not(scene: VolumeScene) -> None:
    assert scene.append() == 0
    scene.volume.free = 0
    scene.logs.passes.checkpoint()
    (directory,) = scene.logs.directories
    assert not directory.is_offline
    assert scene.volume.reserved == 0, "it was used"
    scene.look(VOLUME_BYTES)
    assert scene.volume.reserved, "and is there again"
    scene.volume.free = 0  # before anyone has looked
    with pytest.raises(KafkaError):
        scene.append()
    assert directory.is_offline
    assert directory.is_out_of_room
    assert scene.volume.reserved, "a record does not get it"


PASSES: dict[str, tuple[str, Callable[[LogManager], None]]] = {
    "recovery points": (checkpoint.RECOVERY_POINT_FILE, lambda logs: logs.passes.checkpoint()),
    "start offsets": (checkpoint.LOG_START_OFFSET_FILE, lambda logs: logs.passes.checkpoint_start_offsets()),
    "high watermarks": (checkpoint.REPLICATION_OFFSET_FILE, lambda logs: logs.passes.write_high_watermarks(lambda _: Offset(2))),
    "retention": (checkpoint.LOG_START_OFFSET_FILE, lambda logs: logs.passes.clean_up(logs.services.clock.time_ms())),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_finds_no_room_for_its_file_leaves_the_old_one_and_is_made_again(
    scene: VolumeScene, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another writer on the volume takes the room of the reserve when it is released."""
    log = scene.logs.get(TP)
    assert log is not None
    for _ in range(3):
        scene.append()
    log.roll(scene.clock.time_ms())
    scene.look(0)
    log.increment_log_start_offset(Offset(3), high_watermark=Offset(3))
    file, begin = PASSES[name]
    path = Path(scene.path, file)
    before = path.read_bytes() if path.exists() else None
    scene.volume.takes_all = True
    for _ in range(12):
        begin(scene.logs)
    assert (path.read_bytes() if path.exists() else None) == before
    assert not scene.logs.directories[0].is_offline
    assert len(log.segments) == 2, "nothing is deleted before the start is durable"
    assert [one.getMessage().partition("(")[2] for one in caplog.records if "the next pass writes it" in one.getMessage()] == [
        "1 such files so far)",
        "10 such files so far)",
    ]
    scene.volume.takes_all = False
    scene.look(VOLUME_BYTES)
    begin(scene.logs)
    assert path.read_bytes() != before
    assert len(log.segments) == (1 if name == "retention" else 2)
    assert scene.append() == 3
    scene.logs.stop()


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_stop_on_a_full_volume_is_clean(scene: VolumeScene, tmp_path: Path, is_seen: bool) -> None:
    for _ in range(50):
        scene.append()
    if is_seen:
        scene.look(0)
    scene.volume.free = 0
    scene.logs.stop()
    assert (tmp_path / "data" / checkpoint.CLEAN_SHUTDOWN_FILE).exists()
    again = VolumeScene(tmp_path, scene.volume)
    assert again.logs.directories[0].was_clean
    found = again.logs.get(TP)
    assert found is not None
    assert found.log_end_offset == 50
    again.logs.stop()


def test_a_stop_that_cannot_be_clean_logs_what_the_next_start_does(scene: VolumeScene, caplog: pytest.LogCaptureFixture) -> None:
    scene.append()
    scene.volume.free = 0
    with pytest.raises(KafkaError):
        scene.append()
    scene.logs.stop()
    assert "is full and does not stop cleanly: the next start recovers its 1 logs" in caplog.text


def test_a_directory_that_went_offline_keeps_its_reserve_for_the_next_start(scene: VolumeScene, tmp_path: Path) -> None:
    scene.append()
    (directory,) = scene.logs.directories
    checkpoint_pass = directory.checkpoint(checkpoint.RECOVERY_POINT_FILE).writer({TP: StoredOffset(TOPIC_ID, Offset(1))})
    scene.volume.free = 0
    with pytest.raises(KafkaError):
        scene.append()
    with pytest.raises(OSError, match="No space"):
        checkpoint_pass()
    scene.logs.stop()
    assert Path(scene.path, RESERVE_FILE).exists()
    again = VolumeScene(tmp_path, scene.volume)
    assert again.logs.get(TP) is not None
    assert not again.logs.directories[0].is_offline
    again.logs.stop()


def test_deleting_continues_where_only_room_is_missing(scene: VolumeScene, tmp_path: Path) -> None:
    scene.create(OTHER)
    scene.append()
    scene.volume.free = 0
    with pytest.raises(KafkaError):
        scene.append()
    assert not scene.logs.is_dead
    scene.logs.delete(TP, TOPIC_ID)
    scene.logs.remove_due(scene.clock.time_ms())
    assert sorted(path.name for path in (tmp_path / "data").iterdir() if path.is_dir()) == [str(OTHER)]
    scene.logs.stop()


def test_a_broken_disk_is_left_alone(scene: VolumeScene, tmp_path: Path) -> None:
    scene.append()
    scene.volume.fail_with(errno.EIO, "write")
    with pytest.raises(KafkaError):
        scene.append()
    scene.volume.heal()
    assert scene.logs.is_dead
    scene.logs.delete(TP, TOPIC_ID)
    scene.logs.remove_due(scene.clock.time_ms())
    assert (tmp_path / "data" / str(TP)).is_dir()
    scene.logs.stop()


@pytest.mark.parametrize("topic_id", [TOPIC_ID, TopicId(b"x" * 16)])
def test_the_log_of_a_deleted_topic_goes_where_it_could_not_be_loaded(
    scene: VolumeScene, tmp_path: Path, topic_id: TopicId
) -> None:
    scene.append()
    scene.logs.abandon()
    broken = SmallVolume()
    broken.fail_with(errno.ENOSPC, "rename", "write", "create", "truncate")
    again = VolumeScene(tmp_path, broken)
    assert again.logs.get(TP) is None
    assert again.logs.directories[0].is_out_of_room
    broken.heal()
    again.logs.delete(TP, topic_id)
    assert (tmp_path / "data" / str(TP)).exists() is (topic_id != TOPIC_ID)
    again.logs.stop()


def test_nothing_is_made_in_a_directory_that_is_not_ours(tmp_path: Path) -> None:
    room = Room(SmallVolume(), str(tmp_path))
    room.look(5)
    assert list(tmp_path.iterdir()) == []
    room.begin()
    room.end()
    (tmp_path / RESERVE_FILE).unlink()
    room.look(5)
    assert list(tmp_path.iterdir()) == []
