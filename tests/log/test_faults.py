"""A disk that fails: the directory goes offline, what was acknowledged stays."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pybroker.log.log import Log
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.logs import START_MS, TP, Disk, FaultyFilesystem, TornFilesystem, append, batch, read_batches, stored


def fails(log: Log) -> None:
    with pytest.raises(KafkaError) as caught:
        append(log, batch())
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_takes_the_directory_offline_and_loses_nothing(tmp_path: Path, code: int) -> None:
    filesystem = FaultyFilesystem()
    disk = Disk(tmp_path, filesystem=filesystem)
    log = disk.create()
    reported: list[str] = []
    disk.directory.on_failure = lambda directory: reported.append(directory.path)
    append(log, batch(3))
    before = stored(log)
    filesystem.fail_with(code, "write")
    fails(log)
    assert reported == [str(tmp_path)]
    assert disk.directory.is_offline
    filesystem.heal()
    fails(log)  # offline until the broker starts again
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        log.read(Offset(0), bytes_max=1, upper_offset=Offset(3), min_one_batch=True)
    assert reported == [str(tmp_path)]
    log.close()
    recovered = Disk(tmp_path).open()
    assert stored(recovered) == before
    assert recovered.log_end_offset == 3


@pytest.mark.parametrize("room", [0, 1, 60, 61, 90])
def test_a_disk_that_fills_up_within_a_batch_leaves_no_part_of_it(tmp_path: Path, room: int) -> None:
    filesystem = TornFilesystem()
    log = Disk(tmp_path, filesystem=filesystem).create()
    append(log, batch(3))
    before = stored(log)
    filesystem.room = room
    fails(log)
    assert stored(log) == before


def test_a_torn_batch_that_cannot_even_be_cut_is_cut_at_the_next_start(tmp_path: Path) -> None:
    filesystem = TornFilesystem()
    log = Disk(tmp_path, filesystem=filesystem).create()
    append(log, batch(3))
    before = stored(log)
    filesystem.room = 50
    filesystem.fail_with(errno.EIO, "truncate")
    fails(log)
    assert len(stored(log)) == len(before) + 50
    recovered = Disk(tmp_path).open()
    assert stored(recovered) == before


def test_short_writes_are_continued(tmp_path: Path) -> None:
    filesystem = FaultyFilesystem()
    disk = Disk(tmp_path, filesystem=filesystem, segment_bytes=2000, index_interval_bytes=100)
    log = disk.create()
    filesystem.short = True
    data = [batch(2, size=150) for _ in range(20)]
    for one in data:
        append(log, one)
    assert stored(log) == b"".join(data)
    log.close()
    assert [one.base_offset for one in read_batches(disk.open(was_clean=True))] == list(range(0, 40, 2))


def test_a_failed_fsync_takes_the_directory_offline_and_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    filesystem = FaultyFilesystem()
    disk = Disk(tmp_path, filesystem=filesystem)
    log = disk.create()
    append(log, batch())
    filesystem.fail_with(errno.EIO, "sync")
    log.flush()
    assert disk.directory.is_offline
    assert log.recovery_point == 0


def test_flush_messages_flushes(tmp_path: Path) -> None:
    log = Disk(tmp_path, flush_messages=5).create()
    append(log, batch(4))
    assert log.recovery_point == 0
    append(log, batch(1))
    assert log.recovery_point == 5
    append(log, batch(4))
    assert (log.recovery_point, log.unflushed_messages) == (5, 4)


def test_a_flush_under_way_means_nothing_for_what_a_truncation_replaced(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    waiting = []
    disk.directory.run_in_thread = lambda work, done: waiting.append((work, done))
    log = disk.create()
    for _ in range(4):
        append(log, batch())
    log.flush()
    log.truncate_to(Offset(1))
    for _ in range(5):
        append(log, batch())
    work, done = waiting.pop()
    work()
    done(None)
    assert log.recovery_point <= 1


def test_one_bad_directory_does_not_stop_the_others(tmp_path: Path) -> None:
    filesystem = FaultyFilesystem()
    disk = Disk(tmp_path / "a", filesystem=filesystem)
    manager = disk.manager()
    manager.start()
    log = manager.create(TP, bytes(range(16)), disk.config)  # type: ignore[arg-type]  # a topic id is bytes
    append(log, batch())
    filesystem.fail_with(errno.EIO, "write")
    fails(log)
    filesystem.heal()
    manager.passes.clean_up(START_MS)
    with pytest.raises(KafkaError, match="offline"):
        manager.create(TP._replace(partition=9), bytes(range(16)), disk.config)  # type: ignore[arg-type]
    manager.stop()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists(), "the next start must recover"
