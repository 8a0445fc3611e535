"""Log directories: locks, ownership, clean and unclean stops, deletion."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from pybroker.config.topic import TopicConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import COMPANION_SUFFIX
from pybroker.log.directories.claims import InconsistentDirectoryError, LogDirectoryInUseError
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import MANY, LogManager
from pybroker.log.producers.producer_entry import ProducerEntry
from pybroker.model import ZERO_TOPIC_ID, BrokerId, Offset, ProducerId, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.held_work import HeldWork
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch, content, read_batches


def started(disk: Disk, **options: object) -> LogManager:
    manager = disk.manager(**options)
    manager.start()
    return manager


def test_a_second_broker_is_refused_until_the_first_has_stopped(tmp_path: Path) -> None:
    first = started(Disk(tmp_path))
    with pytest.raises(LogDirectoryInUseError, match=str(tmp_path)):
        Disk(tmp_path).manager().start()
    first.stop()
    started(Disk(tmp_path)).stop()


def test_another_broker_s_directory_is_refused_and_let_go(tmp_path: Path) -> None:
    started(Disk(tmp_path)).stop()
    other = LogManager(
        [str(tmp_path)],
        cluster_id="another",
        node_id=BrokerId(1),
        services=LogServices(clock=Disk(tmp_path).clock),
        config_of=lambda _: TopicConfig(),
    )
    with pytest.raises(InconsistentDirectoryError, match="another"):
        other.start()
    started(Disk(tmp_path)).stop()


@pytest.mark.parametrize("clean", [True, False])
def test_logs_come_back_with_their_offsets_and_topic_ids(tmp_path: Path, *, clean: bool) -> None:
    disk = Disk(tmp_path, segment_bytes=400)
    manager = started(disk)
    for partition in range(3):
        log = manager.create(TP._replace(partition=partition), TOPIC_ID, disk.config)
        for _ in range(4 + partition):
            append(log, batch(2, size=60))
    log.increment_log_start_offset(Offset(5), high_watermark=log.log_end_offset)
    manager.passes.checkpoint()
    manager.stop() if clean else manager.abandon()
    assert (tmp_path / ".kafka_cleanshutdown").exists() is clean
    again = started(disk)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    ends = {log.topic_partition.partition: (log.log_start_offset, log.log_end_offset) for log in again.all_logs()}
    assert ends == {0: (0, 8), 1: (0, 10), 2: (5, 12)}
    for found in again.all_logs():
        assert found.topic_id == TOPIC_ID
        assert found.recovery_point == found.log_end_offset if clean else found.recovery_point > 0
        assert read_batches(found, found.log_start_offset)[-1].next_offset == found.log_end_offset
    again.stop()


def test_a_stop_without_threads_is_clean(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    append(manager.create(TP, TOPIC_ID, disk.config), batch(3))
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        manager.stop()
    (directory,) = manager.directories
    assert not directory.is_offline
    again = started(Disk(tmp_path))
    assert [one.was_clean for one in again.directories] == [True]
    again.stop()


def test_names_of_topics_may_hold_dashes_and_digits(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    tps = [TopicPartition("a-1", 0), TopicPartition("a", 10), TopicPartition("-", 1), TopicPartition("__x.y_z-2-3", 4)]
    for tp in tps:
        manager.create(tp, TOPIC_ID, disk.config)
    (tmp_path / "not a partition").mkdir()
    (tmp_path / "topic-without-number-").mkdir()
    manager.stop()
    manager = started(disk)
    assert sorted(log.topic_partition for log in manager.all_logs()) == sorted(tps)
    manager.stop()


def test_the_directory_with_the_fewest_logs_takes_a_new_one(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = LogManager(
        [str(tmp_path / "a"), str(tmp_path / "b")],
        cluster_id="c",
        node_id=BrokerId(1),
        services=disk.services,
        config_of=lambda _: disk.config,
    )
    manager.start()
    for partition in range(6):
        manager.create(TopicPartition("t", partition), TOPIC_ID, disk.config)
    assert [len(list((tmp_path / name).glob("t-*"))) for name in "ab"] == [3, 3]
    ids = {directory.properties.directory_id for directory in manager.directories if directory.properties}
    assert len(ids) == 2
    manager.stop()


def test_a_deleted_log_frees_its_name_at_once_and_its_files_later(tmp_path: Path) -> None:
    disk = Disk(tmp_path, file_delete_delay_ms=1000)
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    append(log, batch(3))
    fetched = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(3), min_one_batch=True)
    manager.delete(TP)
    assert manager.get(TP) is None
    (renamed,) = tmp_path.glob("*-delete")
    assert renamed.name.startswith(f"{TP}.")
    other_id = TopicId(bytes(16)[:-1] + b"\7")
    fresh = manager.create(TP, other_id, disk.config)
    assert (fresh.log_end_offset, fresh.topic_id) == (0, other_id)
    manager.remove_due(START_MS + 999)
    assert renamed.exists()
    manager.remove_due(START_MS + 1000)
    assert not renamed.exists()
    assert len(b"".join(bytes(piece) for piece in fetched.records.pull(1 << 20))) == fetched.size  # type: ignore[union-attr]
    manager.delete(TP)
    manager.abandon()
    again = started(disk)
    assert list(again.all_logs()) == []
    again.remove_due(START_MS)
    assert not list(tmp_path.glob("*-delete")), "what a crash left half deleted goes after the start"


def test_the_log_of_an_older_topic_is_not_taken_for_the_new_one_s(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    assert manager.create(TP, TOPIC_ID, disk.config) is log
    with pytest.raises(KafkaError) as caught:
        manager.create(TP, TopicId(b"x" * 16), disk.config)
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    manager.stop()
    (disk.log_path / "partition.metadata").unlink()
    (tmp_path / (checkpoint.RECOVERY_POINT_FILE + COMPANION_SUFFIX)).unlink()  # as a Kafka before 2.8 leaves it
    manager = started(disk)
    found = manager.get(TP)
    assert found is not None
    assert found.topic_id == ZERO_TOPIC_ID
    manager.create(TP, TOPIC_ID, disk.config)
    manager.stop()
    assert checkpoint.read_partition_metadata(Filesystem(), str(disk.log_path)) == TOPIC_ID


def test_many_partitions_hold_no_descriptors_until_they_are_used(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for partition in range(100):
        manager.create(TopicPartition("many", partition), TOPIC_ID, disk.config)
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    manager.stop()
    assert len(list(tmp_path.glob("many-*"))) == 100


def test_complete_segments_give_their_descriptors_back_and_are_read_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=300)
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    for _ in range(20):
        append(log, batch(size=100))
    fetched = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(20), min_one_batch=True)
    before = [one.base_offset for one in read_batches(log)]
    opened = [segment.open_file is not None for segment in log.segments]
    assert all(opened)
    manager.passes.release_sealed()
    assert [segment.open_file is not None for segment in log.segments] == [False] * (len(opened) - 1) + [True]
    assert len(content(fetched)) == fetched.size
    assert [one.base_offset for one in read_batches(log)] == before
    manager.stop()


def test_high_watermarks_and_damaged_checkpoints(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    append(manager.create(TP, TOPIC_ID, disk.config), batch(3))
    manager.passes.write_high_watermarks({TP: Offset(2), TopicPartition("elsewhere", 0): Offset(7)}.get)
    assert manager.read_high_watermarks() == {TP: 2}
    manager.stop()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_text("rubbish")
    manager = started(disk)
    log = manager.get(TP)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    manager.stop()


def test_flush_ms_flushes_what_has_waited(tmp_path: Path) -> None:
    disk = Disk(tmp_path, flush_ms=100)
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    append(log, batch(3))
    manager.passes.flush_due(START_MS + 99)
    assert log.recovery_point == 0
    manager.passes.flush_due(START_MS + 100)
    assert log.recovery_point == 3
    manager.stop()


@pytest.mark.parametrize("name", ["0000000000000000003.log", "3.log", "000000000000000000003.log", "junk.log", "4.snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_files_of_other_names_are_left_alone(tmp_path: Path, name: str, *, clean: bool) -> None:
    """Nineteen digits are no segment's name, and nothing to fail on."""
    disk = Disk(tmp_path)
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    append(log, batch(3))
    foreign = Path(log.path) / name
    manager.stop() if clean else manager.abandon()
    foreign.write_bytes(b"not ours")
    manager = started(disk)
    again = manager.get(TP)
    assert again is not None
    assert (again.log_end_offset, foreign.read_bytes()) == (3, b"not ours")
    assert not any(directory.is_offline for directory in manager.directories)
    manager.stop()


def test_a_directory_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    started(Disk(tmp_path)).stop()
    (tmp_path / "meta.properties").write_bytes(b"\xff\x00")
    with pytest.raises(KafkaError, match=r"has no version: its owner is unknown\. Repair the file"):
        started(Disk(tmp_path))


class SlowDisk:
    """A thread runner whose thread gets to its work when the test wants it."""

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.queue.append((work, done))

    def run_next(self) -> None:
        work, done = self.queue.pop(0)
        work()
        done(None)


def test_segments_that_roll_faster_than_the_disk_are_synced_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(Filesystem, "sync", lambda _self, fd: synced.append(fd))
    slow = SlowDisk()
    disk = Disk(tmp_path, segment_bytes=300)
    disk.directory.run_in_thread = slow
    log = disk.create()
    for _ in range(40):
        append(log, batch(1, size=100))
    assert len(log.segments) == 40
    assert len(slow.queue) == 1, "the flush under way, and none behind it"
    slow.run_next()  # what was there when it was asked for: the first segment
    slow.run_next()  # all the rest
    assert slow.queue == []
    assert log.recovery_point == 39
    assert 3 * 39 <= len(synced) <= 3 * 41 + 2, "data and two indexes of each segment, and in each flush the youngest snapshot"


def test_what_a_deleted_log_has_many_of_is_freed_in_slices(tmp_path: Path) -> None:
    disk, held, freed = Disk(tmp_path, segment_bytes=100), HeldWork(), list[None]()

    class WatchedEntry(ProducerEntry):
        def __del__(self) -> None:
            freed.append(None)

    manager = disk.manager(run_work=held)
    manager.start()
    log = manager.create(TP, TOPIC_ID, disk.config)
    for _ in range(5 * MANY):
        append(log, batch())
    segments = [weakref.ref(segment) for segment in log.segments]
    for number in range(5 * MANY):
        log.producers.producers[ProducerId(number)] = WatchedEntry(ProducerId(number))
    manager.delete(TP, TOPIC_ID)
    del log
    alive = []
    while held.proceed():
        alive.append((sum(one() is not None for one in segments), 5 * MANY - len(freed)))
    assert alive[0] > alive[1] > alive[-1] == (0, 0)
    assert any(0 < count < 5 * MANY for _, count in alive), "the producers are not freed all at once"
    small = manager.create(TP, TOPIC_ID, disk.config)
    append(small, batch())
    manager.delete(TP, TOPIC_ID)
    assert not held.jobs
    manager.stop()
