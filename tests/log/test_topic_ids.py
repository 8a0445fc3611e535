"""State by topic id: a new topic inherits nothing of an older one of its name, and no checkpoint throws a log away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import (
    COMPANION_SUFFIX,
    BelievedOffset,
    OffsetCheckpoint,
    StoredOffset,
    read_stored,
)
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.manager.manager import LogManager
from pybroker.model import Offset, TopicId, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.scenes.compacted_log import settings_of
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch, read_batches

FS = Filesystem()
NEW_ID = TopicId(b"a later topic id")
OTHER = TopicPartition("others", 0)
DAY_MS = 86_400_000


def started(disk: Disk) -> LogManager:
    manager = disk.manager()
    manager.start()
    return manager


def the_log(manager: LogManager) -> Log:
    log = manager.get(TP)
    assert log is not None
    return log


def span(log: Log) -> tuple[int, int]:
    return log.log_start_offset, log.log_end_offset


# --- what a new topic would inherit ---


def topic_made_again(disk: Disk, records: int) -> LogManager:
    """Delete a topic's records up to 500 and, after a checkpoint, the topic; then make the topic again and write to it."""
    manager = started(disk)
    old = manager.create(TP, TOPIC_ID, disk.config)
    append(old, batch(500))
    old.increment_log_start_offset(Offset(500), high_watermark=Offset(500))
    old.flush()
    manager.passes.checkpoint()
    manager.passes.write_high_watermarks({TP: Offset(500)}.get)
    manager.delete(TP)
    append(manager.create(TP, NEW_ID, disk.config), batch(records))
    return manager


@pytest.mark.parametrize("records", [300, 700])
@pytest.mark.parametrize("clean", [True, False])
def test_a_topic_made_again_keeps_its_records_and_starts_at_0(tmp_path: Path, records: int, *, clean: bool) -> None:
    disk = Disk(tmp_path)
    manager = topic_made_again(disk, records)
    manager.stop() if clean else manager.abandon()
    again = started(disk)
    assert span(the_log(again)) == (0, records)
    assert read_batches(the_log(again))[-1].next_offset == records
    assert again.read_high_watermarks() == {}, "the old topic's 500 is not the new one's"
    again.stop()


def test_a_topic_made_again_has_no_recovery_point_of_the_old_one(tmp_path: Path) -> None:
    """Recovery looks at the new topic's unflushed segments: here at a torn end that lies below the old recovery point."""
    disk = Disk(tmp_path)
    manager = topic_made_again(disk, 300)
    append(the_log(manager), batch(10))
    manager.abandon()
    data = disk.log_path / "00000000000000000000.log"
    data.write_bytes(data.read_bytes()[:-7])
    again = started(disk)
    assert span(the_log(again)) == (0, 300)
    again.abandon()


def test_a_topic_made_again_is_compacted_from_its_start(tmp_path: Path) -> None:
    """A key that was written and deleted below the old topic's first dirty offset stays deleted."""
    compact = frozenset({"compact"})
    disk = Disk(tmp_path, cleanup_policy=compact, segment_bytes=500, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
    manager = started(disk)
    cleaner_path = f"{tmp_path}/{checkpoint.CLEANER_OFFSET_FILE}"
    OffsetCheckpoint(FS, cleaner_path).writer({TP: StoredOffset(TOPIC_ID, Offset(30))})()
    log = manager.create(TP, NEW_ID, disk.config)
    for value in (b"secret", None, *[b"%d" % number for number in range(40)]):
        key = b"user-7" if value in (b"secret", None) else b"others"
        append(log, build_batch([Record(Offset(0), START_MS, key, value)]))
    manager.stop()
    again = started(disk)
    later: list[Callable[[], None]] = []
    cleaner = LogCleaner(
        again,
        config=settings_of,
        high_watermark=lambda _: the_log(again).log_end_offset,
        later=lambda _, work: later.append(work),
    )
    cleaner.start()
    looks = 0
    while later and looks < 50:
        looks += 1
        later.pop(0)()
        disk.clock.advance(DAY_MS)
    left = [(record.key, record.value) for one in read_batches(the_log(again)) for record in one.records()]
    assert (b"user-7", b"secret") not in left
    assert read_stored(FS, cleaner_path)[TP].topic_id == NEW_ID
    again.stop()


# --- ids that are lost ---


def without_id(disk: Disk, damage: bytes | None) -> LogManager:
    """Start with the log's `partition.metadata` torn (its bytes) or missing (None)."""
    file = disk.log_path / checkpoint.PARTITION_METADATA_FILE
    file.unlink() if damage is None else file.write_bytes(damage)
    manager = disk.manager()
    manager.start(lambda tp: TOPIC_ID if tp == TP else None)
    return manager


@pytest.mark.parametrize("damage", [None, b"", b"version: 0\ntopic_"])
def test_a_log_that_was_never_flushed_and_lost_its_id_is_not_taken_for_the_topic_of_its_name(
    tmp_path: Path, damage: bytes | None
) -> None:
    """The log's first flush would have made the id durable, so the power failed before, and the name may be a newer topic's."""
    disk = Disk(tmp_path)
    manager = started(disk)
    append(manager.create(TP, NEW_ID, disk.config), batch(5))
    manager.abandon()
    again = without_id(disk, damage)
    assert again.get(TP) is None
    (stray,) = tmp_path.glob("*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    again.abandon()


@pytest.mark.parametrize("damage", [None, b""])
def test_a_lost_id_is_in_the_checkpoint_of_a_log_that_was_flushed(tmp_path: Path, damage: bytes | None) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    append(manager.create(TP, TOPIC_ID, disk.config), batch(5))
    manager.passes.checkpoint()
    manager.abandon()
    again = without_id(disk, damage)
    assert (the_log(again).topic_id, span(the_log(again))) == (TOPIC_ID, (0, 5))
    assert checkpoint.read_partition_metadata(FS, str(disk.log_path)) == TOPIC_ID
    again.abandon()


def test_the_checkpoint_of_an_older_topic_claims_that_the_log_is_its_own(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    append(manager.create(TP, NEW_ID, disk.config), batch(5))
    manager.passes.checkpoint()
    manager.abandon()
    again = without_id(disk, b"")
    assert again.get(TP) is None
    assert len(list(tmp_path.glob("*-stray"))) == 1
    again.abandon()


@pytest.mark.parametrize("checkpointed", [f"0\n1\n{TP.topic} {TP.partition} 0\n".encode(), b"no checkpoint"])
def test_a_log_without_id_is_taken_where_another_program_may_have_left_it(tmp_path: Path, checkpointed: bytes) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    append(manager.create(TP, NEW_ID, disk.config), batch(5))
    manager.abandon()
    (tmp_path / checkpoint.RECOVERY_POINT_FILE).write_bytes(checkpointed)
    again = without_id(disk, None)
    assert span(the_log(again)) == (0, 5)
    again.abandon()


# --- checkpoints that cannot be ---


def with_start_offset(disk: Disk, write: Callable[[str], None]) -> LogManager:
    """Make a log of 300 records in three segments, then let another program write log-start-offset-checkpoint."""
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    for _ in range(30):
        append(log, batch(10, size=10))
    manager.stop()
    write(f"{disk.path}/{checkpoint.LOG_START_OFFSET_FILE}")
    return started(disk)


def test_a_start_offset_beyond_the_end_that_another_program_wrote_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = with_start_offset(Disk(tmp_path), lambda path: checkpoint.write_offsets(FS, path, {TP: Offset(1000)}))
    assert span(the_log(manager)) == (0, 300)
    assert "the log start offset 1000 of its checkpoint is ignored" in caplog.text
    assert not list(tmp_path.glob("*-stray"))
    manager.stop()


def test_a_start_offset_that_another_program_wrote_is_believed_within_the_log(tmp_path: Path) -> None:
    manager = with_start_offset(Disk(tmp_path), lambda path: checkpoint.write_offsets(FS, path, {TP: Offset(120)}))
    assert span(the_log(manager)) == (120, 300)
    manager.stop()


def write_all(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


@pytest.mark.parametrize("damage", [b"rubbish", b"0\n1\nevents 3\n", b"\xff\xfe", b""])
def test_a_damaged_start_offset_is_ignored(tmp_path: Path, damage: bytes) -> None:
    manager = with_start_offset(Disk(tmp_path), lambda path: write_all(path, damage))
    assert span(the_log(manager)) == (0, 300)
    manager.stop()


def test_a_lost_end_continues_at_the_certain_start_and_keeps_the_segments_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint is this topic's, so offsets up to 1000 were given: giving them again would be worse than a gap."""
    disk = Disk(tmp_path, segment_bytes=1000)
    manager = with_start_offset(
        disk, lambda path: OffsetCheckpoint(FS, path).writer({TP: StoredOffset(TOPIC_ID, Offset(1000))})()
    )
    log = the_log(manager)
    assert span(log) == (1000, 1000)
    assert append(log, batch(1)) == 1000
    (stray,) = tmp_path.glob(f"{TP}.*-stray")
    assert f"kept in {stray}" in caplog.text
    assert checkpoint.read_partition_metadata(FS, str(stray)) == TOPIC_ID
    sizes = {one.name: one.stat().st_size for one in stray.glob("*.log")}
    assert len(sizes) > 1
    kept = Disk(tmp_path / "other")
    kept.log_path.mkdir(parents=True)
    for one in stray.iterdir():
        one.rename(kept.log_path / one.name)
    assert kept.open().log_end_offset == 300, "all of it is there"
    manager.stop()


# --- one writer per file ---


def test_an_entry_is_believed_for_its_own_topic_id_only(tmp_path: Path) -> None:
    path = f"{tmp_path}/a-checkpoint"
    OffsetCheckpoint(FS, path).writer({TP: StoredOffset(TOPIC_ID, Offset(7))})()
    assert Path(path).read_text() == f"0\n1\n{TP.topic} {TP.partition} 7\n", "Kafka's format"
    fresh = OffsetCheckpoint(FS, path)
    assert fresh.offset_for(TP, TOPIC_ID) == BelievedOffset(Offset(7), is_certain=True)
    assert fresh.offset_for(TP, NEW_ID) is None
    assert fresh.offset_for(OTHER, TOPIC_ID) is None
    assert fresh.offset_for(TP, TopicId(bytes(16))) == BelievedOffset(Offset(7), is_certain=False)


def test_what_another_program_wrote_is_of_no_certain_topic(tmp_path: Path) -> None:
    path = f"{tmp_path}/a-checkpoint"
    OffsetCheckpoint(FS, path).writer({TP: StoredOffset(TOPIC_ID, Offset(7))})()
    checkpoint.write_offsets(FS, path, {TP: Offset(9)})
    assert OffsetCheckpoint(FS, path).offset_for(TP, NEW_ID) == BelievedOffset(Offset(9), is_certain=False)
    Path(path).unlink()
    assert OffsetCheckpoint(FS, path).offset_for(TP, TOPIC_ID) is None, (
        "a removed file means that its offsets are to be forgotten"
    )


@pytest.mark.parametrize("damage", [b"", b"0\n", b"0\nzz\nx", b"1\n00000000\n", b"0\n00000000\n1 2\n0\n"])
def test_a_damaged_companion_leaves_uncertain_entries(tmp_path: Path, damage: bytes) -> None:
    path = f"{tmp_path}/a-checkpoint"
    OffsetCheckpoint(FS, path).writer({TP: StoredOffset(TOPIC_ID, Offset(7))})()
    Path(path + COMPANION_SUFFIX).write_bytes(damage)
    assert OffsetCheckpoint(FS, path).offset_for(TP, NEW_ID) == BelievedOffset(Offset(7), is_certain=False)


def test_a_crash_between_companion_and_file_leaves_the_newer_entries(tmp_path: Path) -> None:
    path = f"{tmp_path}/a-checkpoint"
    one = OffsetCheckpoint(FS, path)
    one.writer({TP: StoredOffset(TOPIC_ID, Offset(7))})()
    before = Path(path).read_bytes()
    one.writer({TP: StoredOffset(NEW_ID, Offset(7)), OTHER: StoredOffset(TOPIC_ID, Offset(5))})()
    Path(path).write_bytes(before)
    assert read_stored(FS, path) == {TP: StoredOffset(NEW_ID, Offset(7)), OTHER: StoredOffset(TOPIC_ID, Offset(5))}


def test_an_older_content_never_replaces_a_newer(tmp_path: Path) -> None:
    path = f"{tmp_path}/a-checkpoint"
    one = OffsetCheckpoint(FS, path)
    older, newer = (one.writer({TP: StoredOffset(TOPIC_ID, Offset(offset))}) for offset in (1, 2))
    newer()
    older()
    assert read_stored(FS, path) == {TP: StoredOffset(TOPIC_ID, Offset(2))}


class WaitsInRename(Filesystem):
    """A file system whose first rename waits until the test lets it continue, as on a busy disk."""

    __slots__ = ("go_on", "is_waiting", "renames")

    def __init__(self) -> None:
        self.renames = 0
        self.is_waiting, self.go_on = threading.Event(), threading.Event()

    def rename(self, source: str, target: str) -> None:
        self.renames += 1
        if self.renames == 1:
            self.is_waiting.set()
            assert self.go_on.wait(60)
        super().rename(source, target)


def test_two_threads_that_write_one_checkpoint_do_not_meet(tmp_path: Path) -> None:
    """The loop writes it at the end of a move, and the directory's thread writes it with the pass."""
    slow, path = WaitsInRename(), f"{tmp_path}/a-checkpoint"
    one = OffsetCheckpoint(slow, path)
    first, second = (one.writer({TP: StoredOffset(TOPIC_ID, Offset(offset))}) for offset in (1, 2))
    failures: list[OSError] = []

    def run(write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=[write]) for write in (first, second)]
    threads[0].start()
    assert slow.is_waiting.wait(60)
    threads[1].start()
    slow.go_on.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert read_stored(FS, path) == {TP: StoredOffset(TOPIC_ID, Offset(2))}
    assert not list(tmp_path.glob("*.tmp"))


def test_two_writers_of_any_file_have_temporary_files_of_their_own(tmp_path: Path) -> None:
    slow, path = WaitsInRename(), f"{tmp_path}/any"
    failures: list[OSError] = []

    def run() -> None:
        try:
            slow.replace_file(path, b"first", sync=False)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert slow.is_waiting.wait(60)
    slow.replace_file(path, b"second", sync=False)
    slow.go_on.set()
    thread.join(60)
    assert failures == []
    assert Path(path).read_bytes() == b"first", "its rename was the later"


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    counting, path = WaitsInRename(), f"{tmp_path}/a-checkpoint"
    counting.go_on.set()
    one = OffsetCheckpoint(counting, path)
    for offset in (1, 1, 1, 2):
        one.writer({TP: StoredOffset(TOPIC_ID, Offset(offset))})()
    assert counting.renames == 4


def test_entries_of_deleted_partitions_go_with_the_next_pass(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    for tp in (TP, OTHER):
        log = manager.create(tp, TOPIC_ID, disk.config)
        append(log, batch(5))
        log.increment_log_start_offset(Offset(3), high_watermark=Offset(5))
    manager.passes.checkpoint()
    manager.passes.write_high_watermarks({TP: Offset(5), OTHER: Offset(5)}.get)
    manager.delete(TP)
    manager.passes.checkpoint()
    manager.passes.write_high_watermarks({TP: Offset(5), OTHER: Offset(5)}.get)
    for name in (checkpoint.RECOVERY_POINT_FILE, checkpoint.LOG_START_OFFSET_FILE, checkpoint.REPLICATION_OFFSET_FILE):
        assert list(read_stored(FS, f"{tmp_path}/{name}")) == [OTHER]
    manager.stop()


def test_start_offsets_have_a_pass_of_their_own(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    log = manager.create(TP, TOPIC_ID, disk.config)
    append(log, batch(5))
    log.increment_log_start_offset(Offset(3), high_watermark=Offset(5))
    manager.passes.checkpoint_start_offsets()
    assert read_stored(FS, f"{tmp_path}/{checkpoint.LOG_START_OFFSET_FILE}") == {TP: StoredOffset(TOPIC_ID, Offset(3))}
    assert not (tmp_path / checkpoint.RECOVERY_POINT_FILE).exists()
    manager.abandon()


def test_temporary_files_that_a_crash_left_are_removed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    started(disk).stop()
    left = [tmp_path / f"{name}.7.tmp" for name in (*checkpoint.OFFSET_FILES, checkpoint.META_PROPERTIES_FILE)]
    foreign = tmp_path / "notes.tmp"
    for path in (*left, foreign):
        path.write_text("half")
    started(disk).stop()
    assert not any(path.exists() for path in left)
    assert foreign.exists(), "not ours"


def test_a_new_log_never_empties_a_file_that_has_something(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    manager = started(disk)
    disk.log_path.mkdir()
    data = disk.log_path / "00000000000000000000.log"
    data.write_bytes(b"somebody's")
    with pytest.raises(Exception, match="exists and is not empty"):
        manager.create(TP, TOPIC_ID, disk.config)
    assert data.read_bytes() == b"somebody's"
    manager.abandon()
