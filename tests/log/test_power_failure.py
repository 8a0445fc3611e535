"""The power fails during a compaction or a deletion: whatever names are durable, nothing is lost and nothing comes back.

Before a directory is made durable, any part of the names that were changed, made and removed since the last time may be on the
disk. So the tests try a crash right before each such moment, with every such part.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from pybroker.clock import ManualClock
from pybroker.log.segments.segment_files import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from pybroker.model import Offset
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch, read_batches
from testing.simulation.disk import SimulatedDisk
from testing.simulation.subsets import crashed
from tests.log.test_cleaner_faults import check, committed, latest, transactional

ROOT = Path("/d")


def disk() -> SimulatedDisk:
    made = SimulatedDisk(ManualClock(START_MS))
    made.make_directory(str(ROOT))
    made.sync_directory("/")
    return made


def moments(where: SimulatedDisk) -> list[SimulatedDisk]:
    """Return a list that is filled, while the disk is used, with copies of it at each moment at which the most is not durable."""
    found: list[SimulatedDisk] = []

    def look(kind: str, _: str) -> None:
        if kind == "sync_directory":
            found.append(where.fork())

    where.on_operation = look
    return found


def restarted(where: SimulatedDisk) -> CompactedLog:
    return CompactedLog(ROOT, filesystem=where, segment_bytes=900)


def leftovers(where: SimulatedDisk, setting: CompactedLog) -> list[str]:
    names = [entry.name for entry in where.list(str(setting.disk.log_path))]
    return [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX))]


def test_a_compaction_is_done_or_not_done() -> None:
    used, before, found = compaction()
    outcomes = set()
    for number, moment in enumerate([*found, used.fork()]):
        for way, after in enumerate(crashed(moment, number)):
            is_tried_twice = way % 16 == 1
            again = moments(after) if is_tried_twice else []
            setting = restarted(after)
            check(setting.log, before)
            outcomes.add(len(committed(setting.log)))
            assert not leftovers(after, setting)
            for once_more in again:  # and the power fails at the next start as well
                once_more.crash(Random(way))
                check(restarted(once_more).log, before)
            if is_tried_twice:
                setting.clean()
                check(setting.log, before)
                assert len(committed(setting.log)) == len(latest(before))
    assert len(outcomes) > 2, "not done, done by half, done"


def compaction() -> tuple[SimulatedDisk, list[tuple[int, bytes | None, bytes | None]], list[SimulatedDisk]]:
    """Return a disk on which a log was compacted, what consumers saw before, and the disk at its moments."""
    used = disk()
    setting = transactional(ROOT, used)
    before = committed(setting.log)
    setting.restart(is_clean=True)  # so that no crash makes the indexes again
    used.sync_all()
    found = moments(used)
    setting.clean()
    used.on_operation = None
    assert len(committed(setting.log)) == len(latest(before))
    return used, before, found


def test_what_retention_deletes_goes_from_the_start_on() -> None:
    for way, (after, records) in enumerate(deleted_by_retention()):
        setting = Disk(ROOT, filesystem=after)
        logs = setting.manager()
        logs.start()
        (log,) = logs.all_logs()
        found = [one.base_offset for one in read_batches(log)]
        assert found == records[len(records) - len(found) :], f"way {way}: no gap"
        assert log.log_end_offset == 20


def deleted_by_retention() -> Iterator[tuple[SimulatedDisk, list[Offset]]]:
    used = disk()
    size = len(batch(size=100))
    files = Disk(ROOT, filesystem=used, segment_bytes=2 * size, retention_bytes=4 * size)
    logs = files.manager()
    logs.start()
    log = logs.create(TP, TOPIC_ID, files.config)
    for _ in range(20):
        append(log, batch(size=100))
    records = [one.base_offset for one in read_batches(log)]
    log.flush()
    logs.passes.checkpoint()
    used.sync_all()
    found = moments(used)
    logs.passes.clean_up(START_MS)
    assert (len(log.segments), log.log_start_offset) == (2, 16)
    logs.passes.checkpoint()
    found.append(used.fork())
    for number, moment in enumerate([*found, used.fork()]):
        for after in crashed(moment, number):
            yield after, records


def test_leader_epochs_that_are_made_again_are_all_there_or_none() -> None:
    """A crash in the middle leaves a file that is still known to be lost, not one that has a part of them and looks sound."""
    used = disk()
    log = (setting := Disk(ROOT, filesystem=used, segment_bytes=300)).create()
    for epoch in (0, 0, 2, 2, 5, 5):
        append(log, batch(1, size=100), leader_epoch=epoch)
    expected = list(log.epochs.entries)
    log.release()
    used.write_file(log.epochs.path, b"", sync=True)
    used.sync_all()
    copies: list[SimulatedDisk] = []
    used.on_operation = lambda *_: copies.append(used.fork())
    point = log.segments.active.base_offset
    assert setting.open(recovery_point=point).epochs.entries == expected
    assert len(copies) > 3
    for copy in copies:
        copy.kill()
        assert Disk(ROOT, filesystem=copy, segment_bytes=300).open(recovery_point=point).epochs.entries == expected


def test_the_cut_of_a_torn_batch_is_durable_before_anything_is_appended() -> None:
    """Otherwise the next loss of power may bring back the torn bytes, and a byte of a new batch may complete the old one."""
    where = disk()
    setting = Disk(ROOT, filesystem=where)
    log = setting.create()
    append(log, batch(size=100))
    append(log, batch(size=100))
    log.flush()
    path, size = log.segments.active.path, log.size
    log.release()
    fd = where.open(path, writable=True)
    where.truncate(fd, size - 1)
    where.sync(fd)
    where.close(fd)
    again = setting.open()
    assert again.log_end_offset == 1
    assert path not in where.unsynced()
    again.release()
