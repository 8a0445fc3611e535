"""Durability of a log: the files that a flush syncs, the work that waits for the flush, and the effect of a truncation."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.flush import SEGMENTS_PER_JOB
from pybroker.log.log import Log
from pybroker.log.segments.segments import Segments
from pybroker.model import Offset
from pybroker.protocol.error_codes import KafkaError
from pybroker.sharing.work import run_inline
from testing.scenes.logs import Disk, FaultyFilesystem, HeldThread, append, batch, delete_old_segments


class Watched(Filesystem):
    """A file system that remembers the synced files by name."""

    __slots__ = ("names", "synced")

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.synced: list[str] = []

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        fd = super().open(path, writable=writable, create=create)
        self.names[fd] = Path(path).name
        return fd

    def sync(self, fd: int) -> None:
        self.synced.append(self.names[fd])

    def sync_path(self, path: str) -> None:
        self.file_size(path)
        self.synced.append(Path(path).name)

    def sync_directory(self, path: str) -> None:
        self.synced.append(Path(path).name)

    def take(self) -> list[str]:
        synced, self.synced = self.synced, []
        return sorted(synced)


def slow(tmp_path: Path, **config: object) -> tuple[Disk, HeldThread, Log]:
    disk, thread = Disk(tmp_path, filesystem=Watched(), **config), HeldThread()
    disk.directory.run_in_thread = thread
    return disk, thread, disk.create()


def test_an_append_to_a_log_that_was_flushed_before_costs_one_fsync(tmp_path: Path) -> None:
    disk = Disk(tmp_path, filesystem=(filesystem := Watched()), flush_messages=1)
    log = disk.create()
    append(log, batch())
    first = filesystem.take()
    data = "00000000000000000000.log"
    assert data in first
    assert {"partition.metadata", "leader-epoch-checkpoint", "events-3"} <= {*first}
    assert tmp_path.name in first, "the name of the log's directory"
    assert not [name for name in first if name.endswith("index")]
    append(log, batch())
    assert filesystem.take() == [data]
    append(log, batch(), leader_epoch=1)
    assert filesystem.take() == [data, "events-3", "leader-epoch-checkpoint"]


def test_complete_segments_are_synced_with_their_indexes_though_their_data_was_synced_before(tmp_path: Path) -> None:
    disk = Disk(tmp_path, filesystem=(filesystem := Watched()), flush_messages=1, segment_bytes=300)
    log = disk.create()
    append(log, batch(1, size=150))
    filesystem.take()
    append(log, batch(1, size=150))
    assert len(log.segments) == 2
    assert {f"{0:020d}.index", f"{0:020d}.timeindex", f"{1:020d}.log", "events-3"} <= {*filesystem.take()}
    assert not log.flush_state.sealed
    assert log.safe_recovery_point == log.recovery_point == 2


def test_a_segment_whose_indexes_may_be_lost_is_recovered_again(tmp_path: Path) -> None:
    """The segment's data was durable before the segment was complete; the checkpoint must not cover all of it."""
    _, thread, log = slow(tmp_path, segment_bytes=300)
    append(log, batch(1, size=150))
    log.flush()
    thread.run_next()
    append(log, batch(1, size=150))
    assert (log.recovery_point, log.safe_recovery_point) == (1, 0)
    thread.run_next()
    assert log.safe_recovery_point == 1
    assert thread.jobs == []


def test_a_clean_stop_syncs_the_indexes_that_flushes_left_out(tmp_path: Path) -> None:
    disk = Disk(tmp_path, filesystem=(filesystem := Watched()), flush_messages=1)
    log = disk.create()
    append(log, batch())
    filesystem.take()
    assert log.recovery_point == log.log_end_offset
    log.close()
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= {*filesystem.take()}
    log = disk.open(was_clean=True)
    log.close()
    assert not [name for name in filesystem.take() if name.endswith(("index", ".log"))], "nothing was written"


def test_what_waits_is_settled_by_whatever_flush_covers_it(tmp_path: Path) -> None:
    _, thread, log = slow(tmp_path, flush_messages=2)
    settled: list[int] = []
    log.on_settled = lambda: settled.append(log.settled_end_offset)
    append(log, batch())
    assert (log.is_settled, log.settled_end_offset, thread.jobs) == (True, 1, [])
    append(log, batch())
    append(log, batch())
    assert (log.is_settled, log.settled_end_offset) == (False, 1)
    append(log, batch())
    assert log.settled_end_offset == 1
    thread.run_next()
    assert (log.is_settled, log.settled_end_offset) == (False, 2), "what came while the disk worked"
    assert settled == [2]
    thread.run_next()
    assert (log.is_settled, log.settled_end_offset, settled) == (True, 4, [2, 4])


def test_a_truncation_forgets_what_waits(tmp_path: Path) -> None:
    _, thread, log = slow(tmp_path, flush_messages=1)
    for _ in range(3):
        append(log, batch())
    log.truncate_to(Offset(0))
    assert (log.is_settled, log.settled_end_offset) == (True, 0)
    append(log, batch())
    assert (log.is_settled, log.settled_end_offset) == (False, 0)
    thread.run_next()  # of what was there before
    assert (log.is_settled, log.recovery_point) == (False, 0)
    thread.run_next()
    assert (log.is_settled, log.recovery_point, thread.jobs) == (True, 1, [])


def test_a_truncation_in_the_middle_of_what_waits(tmp_path: Path) -> None:
    _, thread, log = slow(tmp_path, flush_messages=1)
    for _ in range(3):
        append(log, batch())
    log.truncate_to(Offset(2))
    assert (log.is_settled, log.settled_end_offset) == (False, 0)
    thread.run_all()
    assert (log.is_settled, log.settled_end_offset, log.recovery_point) == (True, 2, 2)


def test_retention_takes_nothing_that_waits(tmp_path: Path) -> None:
    disk, thread, log = slow(tmp_path, flush_messages=1, retention_ms=1, segment_bytes=300)
    for _ in range(3):
        append(log, batch(1, size=150))
    disk.clock.advance(10_000)
    assert delete_old_segments(log, disk.clock.time_ms()) == 0
    thread.run_all()
    assert delete_old_segments(log, disk.clock.time_ms()) == 3


def test_a_segment_that_is_deleted_while_its_flush_waits_is_no_broken_disk(tmp_path: Path) -> None:
    disk, thread, log = slow(tmp_path, flush_messages=2)
    append(log, batch())
    log.segments.active.release()  # as when there are too many open files: the flush opens it again
    log.flush()
    append(log, batch())
    log.truncate_fully_and_start_at(Offset(10))
    append(log, batch(2))
    while thread.jobs:
        run(thread)
    assert not disk.directory.is_offline
    assert (log.is_settled, log.recovery_point) == (True, 12)


def run(thread: HeldThread) -> None:
    """Run the next job, and report the failure that it has."""
    work, done = thread.jobs.pop(0)
    run_inline(work, done)


def test_a_flush_that_could_not_be_tried_is_tried_again(tmp_path: Path) -> None:
    """There is no descriptor left: the disk is sound, and the directory stays online."""
    disk, thread, log = slow(tmp_path, flush_messages=1)
    append(log, batch())
    thread.run_next(OSError(errno.EMFILE, "too many open files"))
    assert not log.is_settled
    assert thread.jobs == []
    assert disk.directory.take_retry(disk.clock.time_ms() + 999) is None
    work = disk.directory.take_retry(disk.clock.time_ms() + 1000)
    assert work is not None
    work()
    disk.filesystem.take()  # type: ignore[attr-defined]  # of Watched
    thread.run_next()
    assert log.is_settled
    assert {"events-3", "partition.metadata", "leader-epoch-checkpoint"} <= {*disk.filesystem.take()}


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("flush_messages", [1, 2**63 - 1])
def test_what_was_recovered_is_made_durable_where_that_was_promised(tmp_path: Path, was_clean: bool, flush_messages: int) -> None:
    disk, thread, log = slow(tmp_path, flush_messages=flush_messages)
    append(log, batch())
    if was_clean:
        disk.directory.run_in_thread = run_inline
        log.close()
    log.release()
    disk.directory.run_in_thread = thread
    thread.jobs.clear()
    filesystem = disk.filesystem
    assert isinstance(filesystem, Watched)
    filesystem.take()
    log = disk.open(was_clean=was_clean)
    was_promised = flush_messages == 1 and not was_clean
    assert (log.is_settled, log.settled_end_offset, thread.jobs) == (True, 1, []), "clients see it at once"
    assert log.recovery_point == (1 if was_promised or was_clean else 0)
    assert ("00000000000000000000.log" in filesystem.take()) == was_promised


def test_what_was_recovered_and_cannot_be_made_durable_is_not_served(tmp_path: Path) -> None:
    disk, _, log = slow(tmp_path, flush_messages=1)
    append(log, batch())
    log.release()
    disk.filesystem = faulty = FaultyFilesystem()
    disk.directory = LogDirectory(str(tmp_path), faulty)
    faulty.fail_with(errno.EIO, "sync")
    with pytest.raises(KafkaError):
        disk.open()
    assert disk.directory.is_offline


SEGMENTS = 2 * SEGMENTS_PER_JOB + 50


def with_many_segments(tmp_path: Path) -> tuple[HeldThread, Log]:
    """Return a log whose flush has done the first of its segments, while many more were completed."""
    _, thread, log = slow(tmp_path, segment_bytes=100)
    for _ in range(SEGMENTS + 2):
        append(log, batch())
    assert len(log.segments) == SEGMENTS + 2
    assert len(thread.jobs) == 1
    thread.run_next()
    taken(log)
    return thread, log


def taken(log: Log) -> list[str]:
    """Return the synced data files and directories, in order of their names."""
    assert isinstance(log.filesystem, Watched)
    return [name for name in log.filesystem.take() if not name.endswith("index")]


def test_a_flush_of_very_many_segments_has_several_jobs_and_the_recovery_point_moves_after_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, log = with_many_segments(tmp_path)
    monkeypatch.setattr(Segments, "__iter__", None)  # to walk all segments for each that is due would take quadratic time
    first = 1
    for count in (SEGMENTS_PER_JOB, SEGMENTS_PER_JOB):
        assert log.safe_recovery_point == log.recovery_point == 1
        thread.run_next()
        assert taken(log) == [f"{offset:020d}.log" for offset in range(first, first + count)]
        first += count
    thread.run_next()
    assert {f"{offset:020d}.log" for offset in range(first, SEGMENTS + 1)} | {"events-3"} <= {*taken(log)}
    assert log.recovery_point == log.safe_recovery_point == SEGMENTS + 1
    assert (thread.jobs, log.flush_state.sealed) == ([], {})


def test_a_flush_in_several_jobs_ends_where_the_log_ended_when_it_began(tmp_path: Path) -> None:
    thread, log = with_many_segments(tmp_path)
    thread.run_next()
    append(log, batch())
    thread.run_next()
    thread.run_next()
    assert log.recovery_point == log.safe_recovery_point == SEGMENTS + 1
    assert {"00000000000000000252.log"} & {*log.filesystem.names.values()}  # type: ignore[attr-defined]  # those of Watched
    thread.run_next()
    assert (log.recovery_point, thread.jobs, log.flush_state.sealed) == (SEGMENTS + 2, [], {})


def test_a_flush_in_several_jobs_begins_again_after_a_truncation(tmp_path: Path) -> None:
    thread, log = with_many_segments(tmp_path)
    thread.run_next()
    log.truncate_to(Offset(50))
    append(log, batch())
    append(log, batch())
    thread.run_next()
    assert log.recovery_point == 1, "what was cut and written again is not durable"
    taken(log)
    thread.run_next()
    assert {f"{offset:020d}.log" for offset in range(1, 50)} <= {*taken(log)}
    while thread.jobs:
        thread.run_next()
    assert log.recovery_point == log.segments.active.base_offset
    assert not log.flush_state.sealed


def test_segments_that_are_deleted_between_two_jobs_of_a_flush_are_left_out(tmp_path: Path) -> None:
    thread, log = with_many_segments(tmp_path)
    thread.run_next()
    log.increment_log_start_offset(Offset(220), high_watermark=log.log_end_offset)
    log.delete_below_start()
    while thread.jobs:
        thread.run_next()
    assert log.recovery_point == log.safe_recovery_point == SEGMENTS + 1
    assert not log.flush_state.sealed
    assert f"{SEGMENTS:020d}.log" in taken(log)
