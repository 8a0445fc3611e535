"""Messages of magic 0 and 1 in data files: found, converted in every codec, and never cut as damage."""

from __future__ import annotations

import errno
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.recovery import old_formats
from pybroker.log.recovery.old_formats import OldFormatError
from pybroker.model import LeaderEpoch, Offset
from pybroker.records import legacy
from pybroker.records.batch import Record, TimestampType, batches
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from testing.scenes.logs import Disk, read_batches

if TYPE_CHECKING:
    from pybroker.log.files.filesystem import WriteBuffer

FS = Filesystem()
CODECS = [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4]
DATA = "00000000000000000000.log"


def some(offsets: list[int], *, magic: int = 1) -> list[Record]:
    return [
        Record(Offset(i), 1000 + i if magic else -1, None if i % 3 else b"k%d" % i, None if i % 5 == 4 else b"v" * i)
        for i in offsets
    ]


def records_of(path: Path) -> list[Record]:
    return [record for one in batches(path.read_bytes()) for record in one.records()]


def partition(folder: Path, **files: bytes) -> Path:
    """Make a directory with data files of these names, and an index that fits none of them."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / f"{int(name.removeprefix('at')):020}.log").write_bytes(data)
        (folder / f"{int(name.removeprefix('at')):020}.index").write_bytes(b"positions of old")
    return folder


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_everything_of_a_record_stays(tmp_path: Path, codec: CompressionType, magic: int) -> None:
    records = some([*range(10), 12, 40], magic=magic)  # the gaps are those of a compaction
    if codec:
        records = records[:10]
    old = build_message_set(records, magic=magic, compression=codec)
    folder = partition(tmp_path / "orders-0", at0=old)
    assert old_formats.has_old_messages(FS, f"{folder}/{DATA}")
    assert old_formats.convert(FS, str(folder)) == [DATA]
    assert records_of(folder / DATA) == records
    (first, *_) = batches((folder / DATA).read_bytes())
    assert (first.compression, first.partition_leader_epoch, first.is_valid) == (codec, LeaderEpoch(0), True)
    assert sorted(one.name for one in folder.iterdir()) == [DATA], "no index has positions of the old file, nothing is left over"
    assert old_formats.convert(FS, str(folder)) == [], "a second run finds nothing to do"


def test_append_times_stay(tmp_path: Path) -> None:
    for codec in (CompressionType.NONE, CompressionType.GZIP):
        old = build_message_set(
            some([0, 1]), magic=1, compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=5000
        )
        folder = partition(tmp_path / "orders-0", at0=old)
        old_formats.convert(FS, str(folder))
        (batch,) = batches((folder / DATA).read_bytes())
        assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 5000)
        assert {record.timestamp for record in batch.records()} == {5000}


def test_formats_may_follow_each_other_in_one_file(tmp_path: Path) -> None:
    new = build_batch(some([20, 21]), leader_epoch=LeaderEpoch(7))
    data = build_message_set(some([0, 1], magic=0), magic=0) + build_message_set(some([5]), magic=1) + bytes(new)
    folder = partition(tmp_path / "orders-0", at0=data, at30=build_message_set(some([30]), magic=1))
    old_formats.convert(FS, str(folder))
    converted = (folder / DATA).read_bytes()
    assert [one.base_offset for one in batches(converted)] == [0, 5, 20]
    assert converted.endswith(new), "a batch of magic 2 is copied as it is"
    (last,) = batches((folder / "00000000000000000030.log").read_bytes())
    assert last.partition_leader_epoch == 7, "no epoch falls within a log"


def test_many_messages_become_batches_of_a_bounded_size(tmp_path: Path) -> None:
    records = [Record(Offset(i), i, None, b"x" * 1000) for i in range(100)]
    folder = partition(tmp_path / "orders-0", at0=build_message_set(records, magic=1))
    old_formats.convert(FS, str(folder))
    sizes = [one.batch_length for one in batches((folder / DATA).read_bytes())]
    assert len(sizes) > 1
    assert max(sizes) <= old_formats.BATCH_BYTES
    assert records_of(folder / DATA) == records


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\xff" * 40, build_message_set(some([3]), magic=1)[:-1]])
def test_a_torn_end_is_left_for_the_recovery(tmp_path: Path, tail: bytes) -> None:
    folder = partition(tmp_path / "orders-0", at0=build_message_set(some([0, 1]), magic=1) + tail)
    old_formats.convert(FS, str(folder))
    data = (folder / DATA).read_bytes()
    assert data.endswith(tail)
    (folder / DATA).write_bytes(data[: -len(tail)])
    assert records_of(folder / DATA) == some([0, 1])


@pytest.mark.parametrize("is_last", [False, True])
def test_damage_before_other_messages_changes_nothing_and_is_named(tmp_path: Path, *, is_last: bool) -> None:
    data = bytearray(build_message_set(some([0, 1, 2]), magic=1))
    first = len(build_message_set(some([0]), magic=1))
    data[first + 12] ^= 0x55
    files = {"at0": bytes(data)} if is_last else {"at0": bytes(data[:-40]), "at3": build_message_set(some([3]), magic=1)}
    folder = partition(tmp_path / "orders-0", **files)
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    with pytest.raises(OldFormatError, match=rf"orders-0/{DATA} cannot be converted to format 2; it is damaged at byte {first}"):
        old_formats.convert(FS, str(folder))
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("has_new", [True, False])
def test_a_recovery_cuts_no_old_message(tmp_path: Path, *, was_clean: bool, has_new: bool) -> None:
    disk = Disk(tmp_path)
    disk.create().release()
    data = disk.log_path / DATA
    content = (bytes(build_batch(some([0]))) if has_new else b"") + build_message_set(some([1, 2]), magic=1)
    data.write_bytes(content)
    with pytest.raises(OldFormatError, match="has messages of format 1 at byte"):
        disk.open(was_clean=was_clean)
    assert data.read_bytes() == content
    old_formats.convert(FS, str(disk.log_path))
    log = disk.open(was_clean=was_clean)
    assert [record.offset for one in read_batches(log) for record in one.records()] == ([0] if has_new else []) + [1, 2]
    assert log.log_end_offset == 3
    log.release()


class CrashError(Exception):
    """The process ends here."""


class CrashingFilesystem(Filesystem):
    """A file system on which the process ends before the change of that number."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def _change(self) -> None:
        if not self.left:
            raise CrashError
        self.left -= 1

    def create_empty(self, path: str) -> None:
        self._change()
        super().create_empty(path)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def sync(self, fd: int) -> None:
        self._change()
        super().sync(fd)

    def sync_directory(self, path: str) -> None:
        self._change()
        super().sync_directory(path)


def test_a_crash_at_each_step_leaves_old_or_new_files_and_the_next_run_finishes(tmp_path: Path) -> None:
    files = {f"at{at}": build_message_set(some([at, at + 1]), magic=1) for at in (0, 5)}
    whole = partition(tmp_path / "whole", **files)
    old_formats.convert(FS, str(whole))
    wanted = {one.name: one.read_bytes() for one in whole.iterdir()}
    for step in range(100):
        folder = partition(tmp_path / f"step{step}", **files)
        before = {one.name: one.read_bytes() for one in folder.iterdir()}
        try:
            old_formats.convert(CrashingFilesystem(step), str(folder))
        except CrashError:
            for name, content in wanted.items():
                now = (folder / name).read_bytes()
                assert now in (before[name], content)
                index = folder / name.replace(".log", ".index")
                assert now == before[name] or not index.exists(), "no old index stands beside a new file"
            old_formats.convert(FS, str(folder))
            assert {one.name: one.read_bytes() for one in folder.iterdir()} == wanted
        else:
            assert step == 2 * 8, "each of both files takes as many changes"
            return


def damaged_first(where: int, value: int, *, rest: bytes = b"") -> bytes:
    data = bytearray(build_message_set(some([0, 1, 2, 3]), magic=1))
    data[where] = value
    return bytes(data) + rest


DAMAGE = {
    "size too large": (8, 0x7F),
    "size too small": (11, 0),
    "size into the next": (11, 60),
    "magic": (16, 9),
    "batch": (16, 2),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("has_later", [False, True])
@pytest.mark.parametrize("was_clean", [False, True])
def test_damage_hides_no_old_message(tmp_path: Path, name: str, *, has_later: bool, was_clean: bool) -> None:
    disk = Disk(tmp_path)
    disk.create().release()
    data, later = disk.log_path / DATA, disk.log_path / "00000000000000000004.log"
    content = damaged_first(*DAMAGE[name])
    data.write_bytes(content)
    if has_later:
        later.write_bytes(bytes(build_batch(some([4]))))
    assert old_formats.has_old_messages(FS, str(data))
    with pytest.raises(OldFormatError, match=f"{DATA} cannot be converted to format 2; it is damaged at byte"):
        old_formats.convert(FS, str(disk.log_path))
    if not (was_clean and has_later):  # a clean start reads the last file alone
        with pytest.raises(OldFormatError, match="has messages of format 1 at byte"):
            disk.open(was_clean=was_clean)
    assert data.read_bytes() == content


def test_old_messages_behind_damage_of_a_later_file_are_kept_in_place(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.create().release()
    first = bytearray(build_batch(some([0])))
    first[-1] ^= 1
    (disk.log_path / DATA).write_bytes(first)
    later = disk.log_path / "00000000000000000001.log"
    content = b"\xff" * 50 + build_message_set(some([1, 2]), magic=0)
    later.write_bytes(content)
    with pytest.raises(OldFormatError, match="has messages of format 0 at byte 50"):
        disk.open(was_clean=False)
    assert later.read_bytes() == content


def test_bytes_of_messages_inside_a_batch_are_no_messages_of_the_log(tmp_path: Path) -> None:
    inner = build_message_set(some([0, 1]), magic=1)
    whole = bytes(build_batch([Record(Offset(0), 0, None, bytes(inner))]))
    data = tmp_path / DATA
    for tail in (b"", b"\0" * 5000, b"\xff" * 5000, whole[:40]):
        data.write_bytes(whole + tail)
        assert not old_formats.has_old_messages(FS, str(data))


def test_the_search_reads_each_byte_a_bounded_number_of_times(tmp_path: Path) -> None:
    message = bytearray(build_message_set([Record(Offset(0), 0, None, b"x" * (1 << 20))], magic=1))
    for at in range(100, 1 << 20, 64):  # each looks like the head of a message that reaches to the end of the file
        length = len(message) - at - 26 - 8
        if length > 100:
            message[at : at + 34] = (
                b"\0" * 8 + (length + 22).to_bytes(4) + b"\0" * 4 + b"\1\0" + b"\0" * 8 + b"\xff" * 4 + length.to_bytes(4)
            )
    data = tmp_path / DATA
    data.write_bytes(b"\xff" * 10 + message[8:])
    reads = 0

    class Counting(Filesystem):
        def pread(self, fd: int, length: int, position: int) -> bytes:
            nonlocal reads
            reads += length
            return super().pread(fd, length, position)

    assert old_formats.has_old_messages(Counting(), str(data)), "what cannot be settled is not cut"
    assert reads < 100 << 20


@pytest.mark.parametrize("kind", ["offset", "codec", "size"])
def test_a_whole_message_that_cannot_be_converted_is_no_torn_end(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = build_message_set(some([0, 1, 2]), magic=1)
    last = bytearray(build_message_set(some([2 if kind == "offset" else 3]), magic=1))
    if kind == "codec":
        last[17] |= 7
        last[12:16] = zlib.crc32(last[16:]).to_bytes(4)
    elif kind == "size":
        last = bytearray(build_message_set(some([3]), magic=1, compression=CompressionType.GZIP))
        monkeypatch.setattr(legacy.records, "__kwdefaults__", {"bytes_max": 10})
    folder = partition(tmp_path / "orders-0", at0=bytes(start + last))
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    with pytest.raises(OldFormatError, match=f"what is at byte {len(start)} has the right checksum, but"):
        old_formats.convert(FS, str(folder))
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_a_full_disk_gets_its_room_back(tmp_path: Path) -> None:
    class FullDisk(Filesystem):
        def write_fully(self, fd: int, data: WriteBuffer, position: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        pwrite = write_fully  # type: ignore[assignment]

    folder = partition(tmp_path / "orders-0", at0=build_message_set(some([0, 1]), magic=1))
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    with pytest.raises(OSError, match="No space left"):
        old_formats.convert(FullDisk(), str(folder))
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


@pytest.mark.parametrize("has_later", [False, True])
def test_a_damaged_batch_between_old_messages_is_not_copied(tmp_path: Path, *, has_later: bool) -> None:
    first, damaged = build_message_set(some([0]), magic=1), build_batch(some([1]))
    damaged[-1] ^= 1
    later = build_message_set(some([2]), magic=1) if has_later else b""
    folder = partition(tmp_path / "orders-0", at0=first + bytes(damaged) + later)
    if has_later:
        with pytest.raises(OldFormatError, match=f"it is damaged at byte {len(first)}: .*the checksum of a batch is wrong"):
            old_formats.convert(FS, str(folder))
        assert (folder / DATA).read_bytes() == first + bytes(damaged) + later
    else:
        old_formats.convert(FS, str(folder))
        assert (folder / DATA).read_bytes().endswith(damaged), "the recovery settles a torn end"


def test_messages_inside_a_damaged_batch_do_not_keep_a_recovery_from_its_work(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.create().release()
    inner = bytes(build_message_set(some([0, 1]), magic=1))
    damaged = build_batch([Record(Offset(1), 0, None, inner)])
    damaged[17] ^= 1
    data = disk.log_path / DATA
    for tail in (b"", bytes(build_batch(some([2])))):
        data.write_bytes(bytes(build_batch(some([0]))) + damaged + tail)
        assert not old_formats.has_old_messages(FS, str(data)), "so an adoption has nothing to convert"
        log = disk.open(was_clean=False)
        assert log.log_end_offset == 1
        log.release()
