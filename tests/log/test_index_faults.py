"""Indexes that change or cannot be read while the log is in use: no reader is misled, and none ends the process."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes import entry_file
from pybroker.log.indexes.offset_index import OffsetIndex
from pybroker.log.log import Log
from pybroker.log.segments import batch_scan
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import run_through
from testing.scenes.logs import START_MS, Disk, FaultyFilesystem, append, batch, read_batches

COUNT = 1_200


def indexed_log(disk: Disk) -> Log:
    """Make a log of three segments whose indexes have several windows each."""
    log = disk.create()
    for number in range(COUNT):
        append(log, batch(timestamp=START_MS + 10 * number, size=10))
    for segment in log.segments:
        segment.offset_index.write()
        segment.time_index.write()
    assert len(log.segments) == 3
    assert log.segments[0].offset_index.count > 300
    return log


def fresh_disk(path: Path, filesystem: Filesystem | None = None) -> Disk:
    return Disk(path, filesystem=filesystem, segment_bytes=40_000, index_interval_bytes=60)


def forget_windows(log: Log) -> None:
    """Let go of the windows, as when other indexes have been read since: the next lookup goes to the file."""
    for segment in log.segments:
        segment.offset_index.release()
        segment.time_index.release()
        segment.tail.forget()


def check_all(log: Log) -> None:
    for offset in range(0, COUNT, 7):
        fetched = log.read(Offset(offset), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
        assert not isinstance(fetched.records, bytes)
        assert int.from_bytes(fetched.records.read(0, 8), "big") == offset
        found = run_through(log.offset_for_timestamp(START_MS + 10 * offset - 3))
        assert found is not None
        assert found.offset == offset


@pytest.mark.parametrize("kept", [-1, 0, 7, 8 * 40, 8 * 250])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_that_gets_shorter_while_it_is_used_is_rebuilt(tmp_path: Path, suffix: str, kept: int) -> None:
    log = indexed_log(fresh_disk(tmp_path))
    check_all(log)
    forget_windows(log)
    for segment in log.segments:
        path = Path(f"{segment.path.removesuffix('log')}{suffix}")
        if kept < 0:
            path.unlink()
        else:
            os.truncate(path, kept)
    check_all(log)
    forget_windows(log)
    check_all(log)
    sealed = log.segments[0]
    sizes = {kind: Path(f"{sealed.path.removesuffix('log')}{kind}").stat().st_size for kind in ("index", "timeindex")}
    assert sizes == {"index": sealed.offset_index.count * 8, "timeindex": sealed.time_index.count * 12}
    assert sealed.offset_index.count > 300


@pytest.mark.parametrize("kept", [0, 8 * 40])
def test_a_truncation_notices_an_index_that_got_shorter(tmp_path: Path, kept: int) -> None:
    log = indexed_log(fresh_disk(tmp_path))
    forget_windows(log)
    os.truncate(f"{log.segments[1].path.removesuffix('log')}timeindex", kept)
    os.truncate(f"{log.segments[1].path.removesuffix('log')}index", kept)
    cut = log.segments[1].base_offset + 200
    assert log.truncate_to(cut)
    assert [one.base_offset for one in read_batches(log)] == list(range(cut))
    assert append(log, batch()) == cut


def test_a_page_of_an_index_that_cannot_be_read_is_a_storage_error(tmp_path: Path) -> None:
    filesystem = FaultyFilesystem()
    disk = fresh_disk(tmp_path, filesystem)
    log = indexed_log(disk)
    forget_windows(log)
    filesystem.fail_with(errno.EIO, "read")
    with pytest.raises(KafkaError) as caught:
        log.read(Offset(100), bytes_max=1, upper_offset=Offset(COUNT), min_one_batch=True)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert disk.directory.is_offline


def test_a_rebuild_that_failed_begins_from_the_start(tmp_path: Path) -> None:
    filesystem = FaultyFilesystem()
    log = indexed_log(fresh_disk(tmp_path, filesystem))
    segment = log.segments[0]
    youngest = segment.max_timestamp
    forget_windows(log)
    os.truncate(f"{segment.path.removesuffix('log')}index", 0)
    reads = 0

    def fault(operation: str) -> None:
        nonlocal reads
        reads += operation == "read"
        if reads == 5:
            raise OSError(errno.EMFILE, "no descriptor is left")

    filesystem.fault = fault
    with pytest.raises(OSError, match="no descriptor"):
        segment.find_batch(Offset(100))
    filesystem.heal()
    assert segment.max_timestamp == youngest
    check_all(log)
    assert segment.offset_index.count > 300


def test_no_descriptor_stays_open_and_little_memory_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_file, "WINDOWS_MAX", 3)
    monkeypatch.setattr(entry_file, "WINDOW_BYTES", 80)
    entry_file._YOUNGEST.clear()
    before = set(Path("/proc/self/fd").iterdir())
    indexes = []
    for number in range(3):
        index = OffsetIndex(Filesystem(), str(tmp_path / f"{number}.index"), base_offset=Offset(0), bytes_max=1 << 20)
        for entry in range(100):
            index.append(Offset(10 * entry + 5), entry)
        index.write()
        indexes.append(index)
    for offset in range(5, 1_000, 10):
        for index in indexes:
            assert index.lookup(Offset(offset)) == (offset, offset // 10)
    assert set(Path("/proc/self/fd").iterdir()) <= before, "what others have left open may go meanwhile"
    assert sum(len(index._windows) for index in indexes) <= 3


def test_one_entry_for_several_batches_of_a_follower_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = Disk(tmp_path / "source").create()
    for number in range(60):
        append(source, batch(2, timestamp=START_MS + number))
    disk = fresh_disk(tmp_path / "copy")
    copy = disk.create()
    sent = b"".join(bytes(one.data) for one in read_batches(source))
    size = len(sent) // 60
    for first in range(0, 60, 5):
        copy.append_as_follower(memoryview(bytearray(sent[first * size : (first + 5) * size])), START_MS)
    copy.flush()
    copy.close()
    log = disk.open(was_clean=True)
    with caplog.at_level(logging.WARNING):
        for offset in range(120):
            fetched = log.read(Offset(offset), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
            assert not isinstance(fetched.records, bytes)
            assert int.from_bytes(fetched.records.read(0, 8), "big") == offset // 2 * 2
    assert not caplog.records


@pytest.mark.parametrize("ends_at", [4, 5, 6, 8, 30])
def test_an_entry_that_ends_where_no_batch_does_is_noticed(tmp_path: Path, ends_at: int) -> None:
    log = Disk(tmp_path).create()
    for number in range(10):
        append(log, batch(4, timestamp=START_MS + number))
    segment = log.segments.active
    with pytest.raises(CorruptDataError, match=f"where the index has {ends_at}"):
        batch_scan.find(segment.file, 0, segment.size, Offset(35), first_last_offset=Offset(ends_at))
