"""Open data files: their number is bounded, they are closed in turn, and code that uses them never misses them."""

from __future__ import annotations

import errno
import gc
import mmap
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.log.files import open_files
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.files.open_files import OPEN_FILES, OpenFiles
from pybroker.log.segments import file_records
from pybroker.log.segments.file_records import FileRecords, SegmentFile
from pybroker.model import Offset, TopicPartition
from testing.scenes.logs import TOPIC_ID, Disk, append, batch, read_batches


@pytest.fixture(autouse=True)
def _own_bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave out the files that other tests of this process left open, and put the bound back."""
    gc.collect()
    for name in ("_descriptors", "_maps"):
        monkeypatch.setattr(OPEN_FILES, name, set())
    monkeypatch.setattr(OPEN_FILES, "held_max", OPEN_FILES.held_max)
    monkeypatch.setattr(OPEN_FILES, "_owners", OrderedDict())
    yield
    gc.collect()


def open_data_files(path: Path) -> int:
    links = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(link.is_relative_to(path) and link.suffix == ".log" for link in links)


def test_partitions_that_are_written_in_turn_keep_no_more_files_open_than_allowed(tmp_path: Path) -> None:
    OPEN_FILES.held_max = 10
    disk = Disk(tmp_path)
    manager = disk.manager()
    manager.start()
    logs = [manager.create(TopicPartition("many", number), TOPIC_ID, disk.config) for number in range(50)]
    for turn in range(4):
        for log in logs:
            assert append(log, batch()) == turn
            assert OPEN_FILES.held <= 12
    assert open_data_files(tmp_path) == OPEN_FILES.held <= 12
    assert all([one.base_offset for one in read_batches(log)] == [0, 1, 2, 3] for log in logs)
    manager.stop()
    assert open_data_files(tmp_path) == OPEN_FILES.held == 0


def test_what_is_written_all_the_time_stays_open(tmp_path: Path) -> None:
    OPEN_FILES.held_max = 40
    disk = Disk(tmp_path)
    manager = disk.manager()
    manager.start()
    busy = manager.create(TopicPartition("busy", 0), TOPIC_ID, disk.config)
    append(busy, batch())
    file = busy.segments.active.open_file
    for number in range(200):
        append(manager.create(TopicPartition("many", number), TOPIC_ID, disk.config), batch())
        append(busy, batch())
    assert busy.segments.active.open_file is file is not None
    manager.stop()


def test_a_start_keeps_no_file_open(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=300)
    manager = disk.manager()
    manager.start()
    for number in range(20):
        log = manager.create(TopicPartition("many", number), TOPIC_ID, disk.config)
        for _ in range(5):
            append(log, batch())
    manager.stop()
    for end in ("clean", "unclean"):
        again = disk.manager()
        again.start()
        assert open_data_files(tmp_path) == 0, end
        found = again.get(TopicPartition("many", 7))
        assert found is not None
        assert found.log_end_offset == 5
        again.abandon()


def test_a_slice_outlives_that_its_file_is_let_go_of(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    data = [batch(10, size=5_000) for _ in range(3)]
    append(log, data[0])
    fetched = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(10), min_one_batch=True)
    log.segments.active.let_go()
    append(log, data[1])
    assert isinstance(fetched.records, FileRecords)
    assert fetched.records.read(0, fetched.size) == data[0]
    assert [one.base_offset for one in read_batches(log)] == [0, 10]


def test_views_of_a_file_that_was_let_go_of_outlive_a_truncation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that shrinks under a view kills the process that touches it, also when the view is of an earlier object."""
    monkeypatch.setattr(file_records, "MAP_STEP", 4096)
    monkeypatch.setattr(file_records, "MAP_THRESHOLD", 512)
    log = Disk(tmp_path).create()
    for _ in range(8):
        append(log, batch(1, size=5_000))
    before = Path(log.segments.active.path).read_bytes()
    fetched = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(8), min_one_batch=True)
    assert isinstance(fetched.records, FileRecords)
    (view,) = fetched.records.pull(1 << 20)
    later = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(8), min_one_batch=True)
    log.segments.active.let_go()
    log.truncate_to(Offset(1))
    assert bytes(view) == before[: len(view)]
    assert isinstance(later.records, FileRecords)
    assert b"".join(bytes(piece) for piece in later.records.pull(len(view))) == before[: len(view)]
    assert append(log, batch()) == 1


def test_a_slice_that_was_not_read_yet_outlives_a_truncation_after_its_file_was_let_go_of(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    data = [batch(10, size=5_000) for _ in range(3)]
    for one in data:
        append(log, one)
    fetched = log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(30), min_one_batch=True)
    log.segments.active.let_go()
    log.truncate_to(Offset(10))
    assert isinstance(fetched.records, FileRecords)
    assert fetched.records.read(0, fetched.size) == b"".join(data)


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_what_cannot_be_mapped_is_read(tmp_path: Path, code: int) -> None:
    class NoMaps(Filesystem):
        def map(self, fd: int, length: int) -> mmap.mmap:
            raise OSError(code, os.strerror(code))

    content = bytes(i % 251 for i in range(200_000))
    (tmp_path / "data").write_bytes(content)
    part = FileRecords(SegmentFile(NoMaps(), str(tmp_path / "data")), 10, 150_000)
    pieces = []
    while pulled := part.pull(70_000):
        pieces += [bytes(piece) for piece in pulled]
    assert b"".join(pieces) == content[10:150_010]


def test_maps_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "MAPS_MAX", 1)
    (tmp_path / "data").write_bytes(bytes(100_000))
    files = [SegmentFile(Filesystem(), str(tmp_path / "data")) for _ in range(3)]
    assert [type(file.view(100_000, 0)) for file in files] == [memoryview, bytes, bytes]
    assert OPEN_FILES.held == 4
    del files
    assert OPEN_FILES.held == 0


def test_an_open_that_finds_no_descriptor_closes_idle_files_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Disk(tmp_path, segment_bytes=150).create()
    for _ in range(20):
        append(log, batch())
    read_batches(log)
    assert open_data_files(tmp_path) == 20
    real, failures = os.open, [errno.EMFILE, errno.ENFILE]

    def scarce(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if failures:
            raise OSError(failures.pop(), "no descriptor")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr("pybroker.log.files.filesystem.os.open", scarce)
    failures.pop()
    assert len(Filesystem().read_file(log.segments[3].path)) == log.segments[3].size
    assert open_data_files(tmp_path) < 20
    failures += [errno.EMFILE, errno.EMFILE]
    with pytest.raises(OSError, match="no descriptor"):
        Filesystem().read_file(log.segments[3].path)
    assert len(read_batches(log)) == 20


def test_a_file_cut_by_others_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(100_000))
    file = SegmentFile(Filesystem(), str(tmp_path / "data"))
    os.truncate(tmp_path / "data", 1_000)
    with pytest.raises(OSError, match="100000 bytes"):
        file.view(90_000, 0)


def test_the_work_of_making_room_is_bounded() -> None:
    class Owner:
        def __init__(self) -> None:
            self.size = 0
            self.is_open = True

        def let_go(self) -> None:
            self.is_open = False

    files = OpenFiles(held_max=0)
    owners = [Owner() for _ in range(1_000)]
    for number, owner in enumerate(owners):
        files.opened(number)  # and never closed: as when all are being sent
        files.keep(owner)
    assert files.let_go_count <= 4 * len(owners)
    assert files.let_go(10) <= 10
    owners.clear()
    assert files.let_go(10) == 0
