"""Compaction must not remove the only durable record of a key, nor the only durable start of a leader epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pybroker.clock import ManualClock
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import read_stored
from pybroker.log.cleaner.cleanable import cleanable
from pybroker.log.cleaner.replace import replace
from pybroker.log.cleaner.rewrite import new_target
from pybroker.log.log import Log
from pybroker.model import LeaderEpoch, Offset
from pybroker.sharing.work import run_unshared
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import START_MS, TP, Disk, Producer, append, batch
from testing.simulation.disk import SimulatedDisk

Job = tuple[Callable[[], None], Callable[[OSError | None], None]]


def compacted(jobs: list[Job] | None = None) -> tuple[Log, SimulatedDisk]:
    filesystem = SimulatedDisk(ManualClock(START_MS))
    disk = Disk("/d", filesystem=filesystem, cleanup_policy=frozenset({"compact"}), segment_bytes=300)
    if jobs is not None:
        disk.directory.run_in_thread = lambda work, done: jobs.append((work, done))
    log = disk.create()
    for path in ("/", "/d"):
        filesystem.sync_directory(path)
    return log, filesystem


def test_what_is_not_on_the_disk_is_not_cleaned_by() -> None:
    jobs: list[Job] = []
    log, _ = compacted(jobs)
    for _ in range(8):
        append(log, batch(1, size=100))
    assert log.recovery_point == 0

    def cleanable_bytes() -> int:
        return cleanable(log, Offset(0), high_watermark=log.log_end_offset, now_ms=START_MS).cleanable_bytes

    assert cleanable_bytes() == 0
    while jobs:
        work, done = jobs.pop(0)
        work()
        done(None)
    assert log.recovery_point == log.segments.active.base_offset
    assert cleanable_bytes() == log.size - log.segments.active.size


def test_leader_epochs_are_durable_before_a_segment_is_replaced() -> None:
    log, filesystem = compacted()
    for epoch in (1, 4):
        append(log, batch(1, size=100), leader_epoch=epoch)
    log.roll(START_MS)
    log.epochs.assign(LeaderEpoch(7), log.log_end_offset)  # written again, and not durable yet
    expected = filesystem.read_file(log.epochs.path)
    first = log.segments[0]
    target = new_target(log, first.base_offset, START_MS)
    run_unshared("replace", replace(log, [first], target, truncations=log.truncations))
    after = filesystem.fork()
    after.crash()
    assert after.read_file(log.epochs.path) == expected


def test_the_recovery_point_is_durable_before_a_segment_is_replaced() -> None:
    """No recovery may read what was cleaned, where a producer may have no batch left and a gap is no loss."""
    disk = SimulatedDisk(ManualClock(START_MS))
    disk.make_directory("/d")
    disk.sync_directory("/")
    setting = CompactedLog(Path("/d"), filesystem=disk)
    for number in range(12):
        append(setting.log, batch(1, size=100, producer=Producer(number)))
    found: list[int] = []

    def look(kind: str, path: str) -> None:
        if kind == "rename" and path.partition(" ")[0].endswith(".log.cleaned"):
            after = disk.fork()
            after.crash()
            found.append(read_stored(after, f"/d/{checkpoint.RECOVERY_POINT_FILE}")[TP].offset)

    disk.on_operation = look
    setting.clean()
    assert found
    assert set(found) == {setting.log.segments.active.base_offset}
