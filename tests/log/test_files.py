"""The formats on disk, byte for byte, and slices of data files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.indexes.offset_index import OffsetIndex
from pybroker.log.indexes.time_index import TimeIndex
from pybroker.log.indexes.transaction_index import AbortedTransaction, TransactionIndex
from pybroker.log.leader_epoch_cache import LeaderEpochCache
from pybroker.log.segments import file_records
from pybroker.log.segments.file_records import FileRecords, SegmentFile
from pybroker.model import BrokerId, LeaderEpoch, Offset, ProducerId, TopicPartition, topic_id_parse

FS = Filesystem()


# --- indexes ---


def test_an_offset_index_has_kafka_s_bytes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = OffsetIndex(FS, str(path), base_offset=Offset(1000), bytes_max=80)
    assert index.lookup(Offset(5000)) == (1000, 0)
    index.append(Offset(1007), 300)
    index.append(Offset(1300), 0x01020304)
    index.write()
    assert path.read_bytes().hex() == "000000070000012c0000012c01020304"
    index.append(Offset(1400), 0x01020305)
    found = {offset: index.lookup(Offset(offset)) for offset in (1006, 1007, 1299, 1300, 1399, 1400, 9999)}
    assert found == {
        1006: (1000, 0),
        1007: (1007, 300),
        1299: (1007, 300),
        1300: (1300, 0x01020304),
        1399: (1300, 0x01020304),
        1400: (1400, 0x01020305),
        9999: (1400, 0x01020305),
    }
    with pytest.raises(CorruptIndexError):
        index.append(Offset(1400), 0x01020306)


def test_a_time_index_has_kafka_s_bytes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = TimeIndex(FS, str(path), base_offset=Offset(1000), bytes_max=120)
    index.maybe_append(1_700_000_000_000, Offset(1005))
    index.maybe_append(1_700_000_000_000, Offset(1009))  # no news
    index.maybe_append(1_700_000_000_001, Offset(1010))
    index.write()
    assert path.read_bytes().hex() == "0000018bcfe56800000000050000018bcfe568010000000a"
    assert index.lookup(1_699_999_999_999) == (-1, 1000)
    assert index.lookup(1_700_000_000_000) == (1_700_000_000_000, 1005)
    assert index.lookup(1_800_000_000_000) == (1_700_000_000_001, 1010)


@pytest.mark.parametrize("written", [0, 1, 5, 600, 1024, 1500])
def test_entries_in_the_file_and_in_memory_are_searched_as_one(tmp_path: Path, written: int) -> None:
    index = OffsetIndex(FS, str(tmp_path / "index"), base_offset=Offset(0), bytes_max=1 << 20)
    for i in range(1500):
        index.append(Offset(10 * i + 5), 100 * i + 7)
        if i + 1 == written:
            index.write()
    for offset in range(0, 15_010, 3):
        slot = (offset - 5) // 10
        assert index.lookup(Offset(offset)) == ((10 * min(slot, 1499) + 5, 100 * min(slot, 1499) + 7) if slot >= 0 else (0, 0))
    for cut in (12_345, 6_000, 777, 6, 5, 0):
        index.truncate_to(Offset(cut))
        assert index.count == max((cut + 4) // 10, 0)
        assert index.lookup(Offset(10**6)) == ((10 * index.count - 5, 100 * index.count - 93) if index.count else (0, 0))
    index.append(Offset(3), 50)
    assert index.lookup(Offset(4)) == (3, 50)


def collected(index: TransactionIndex, fetch_offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
    """Return all that `collect` yields, and what it returns."""
    found: list[AbortedTransaction] = []
    pieces = index.collect(fetch_offset=Offset(fetch_offset), upper_offset=Offset(upper_offset))
    try:
        while True:
            found += next(pieces)
    except StopIteration as end:
        return found, end.value


def test_a_transaction_index_has_kafka_s_bytes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = TransactionIndex(FS, str(path), Offset(100))
    assert (index.entries, path.exists()) == ([], False)
    entries = [
        AbortedTransaction(ProducerId(1), Offset(90), Offset(110), Offset(105)),
        AbortedTransaction(ProducerId(2), Offset(105), Offset(120), Offset(121)),
        AbortedTransaction(ProducerId(1), Offset(130), Offset(140), Offset(141)),
    ]
    for entry in entries:
        index.append(entry)
    data = path.read_bytes()
    assert data[:34].hex() == "00000000000000000001000000000000005a000000000000006e0000000000000069"
    assert collected(index, 0, 1000) == (entries, False)
    assert collected(index, 111, 1000) == (entries[1:], False)
    assert collected(index, 0, 121) == (entries[:2], True)
    assert collected(index, 0, 100) == (entries[:1], True)
    path.write_bytes(data[:-1])
    assert TransactionIndex(FS, str(path), Offset(100)).entries == entries[:2]
    path.write_bytes(b"\0\1" + data[2:])
    with pytest.raises(CorruptIndexError):
        _ = TransactionIndex(FS, str(path), Offset(100)).entries
    path.write_bytes(data)
    again = TransactionIndex(FS, str(path), Offset(100))
    again.truncate_to(Offset(140))
    assert path.read_bytes() == data[:68]
    with pytest.raises(CorruptIndexError):
        again.append(entries[0])


# --- text files ---


def test_checkpoints_have_kafka_s_text(tmp_path: Path) -> None:
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    offsets = {TopicPartition("b", 0): Offset(7), TopicPartition("a", 10): Offset(0), TopicPartition("a", 2): Offset(2**40)}
    checkpoint.write_offsets(FS, path, offsets)
    text = Path(path).read_text()
    assert text == "0\n3\na 2 1099511627776\na 10 0\nb 0 7\n"
    assert checkpoint.read_offsets(FS, path) == offsets
    for cut in range(len(text)):
        Path(path).write_text(text[:cut])
        with pytest.raises(checkpoint.CorruptCheckpointError):
            checkpoint.read_offsets(FS, path)
    assert checkpoint.read_offsets(FS, str(tmp_path / "none")) == {}
    assert not list(tmp_path.glob("*.tmp"))


def test_partition_metadata_and_meta_properties_have_kafka_s_text(tmp_path: Path) -> None:
    topic_id = topic_id_parse("rvVCZTdbTqqbFQ2jsDXqpQ")
    checkpoint.write_partition_metadata(FS, str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: rvVCZTdbTqqbFQ2jsDXqpQ\n"
    assert checkpoint.read_partition_metadata(FS, str(tmp_path)) == topic_id
    (tmp_path / "meta.properties").write_text(
        "#\n#Fri Nov 20 23:19:44 UTC 2026\nnode.id=3\nversion=1\ncluster.id=abc\ndirectory.id=GhBBi2PqSHKVyuZoHcHKJA\n"
    )
    expected = checkpoint.MetaProperties(cluster_id="abc", node_id=BrokerId(3), directory_id="GhBBi2PqSHKVyuZoHcHKJA")
    assert checkpoint.read_meta_properties(FS, str(tmp_path)) == expected
    checkpoint.write_meta_properties(FS, str(tmp_path), expected)
    assert checkpoint.read_meta_properties(FS, str(tmp_path)) == expected
    (tmp_path / "meta.properties").write_text("version=7\n")
    with pytest.raises(checkpoint.CorruptCheckpointError):
        checkpoint.read_meta_properties(FS, str(tmp_path))


def test_the_marker_of_a_clean_stop_counts_once(tmp_path: Path) -> None:
    assert not checkpoint.take_clean_shutdown(FS, str(tmp_path))
    checkpoint.write_clean_shutdown(FS, str(tmp_path))
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert checkpoint.take_clean_shutdown(FS, str(tmp_path))
    assert not checkpoint.take_clean_shutdown(FS, str(tmp_path))


def test_leader_epochs_have_kafka_s_text_and_contradictions_go(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochCache(FS, str(path))
    for epoch, offset in ((0, 0), (2, 10), (2, 12), (5, 30)):
        cache.assign(LeaderEpoch(epoch), Offset(offset))
    assert path.read_text() == "0\n3\n0 0\n2 10\n5 30\n"
    cache.assign(LeaderEpoch(4), Offset(20))
    assert cache.entries == [(0, 0), (2, 10), (4, 20)]
    cache.truncate_from_end(Offset(20))
    cache.truncate_from_start(Offset(5))
    assert cache.entries == [(0, 5), (2, 10)]
    cache.truncate_from_start(Offset(10))
    assert cache.entries == [(2, 10)]
    cache.truncate_from_start(Offset(15))
    again = LeaderEpochCache(FS, str(path))
    assert again.load()
    assert again.entries == [(2, 15)]


# --- slices ---


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_records, "MAP_STEP", 4096)
    monkeypatch.setattr(file_records, "MAP_THRESHOLD", 512)


def pull_all(part: FileRecords, bytes_max: int) -> bytes:
    pieces = []
    while pulled := part.pull(bytes_max):
        assert all(0 < len(piece) <= bytes_max for piece in pulled)
        pieces += [bytes(piece) for piece in pulled]
    return b"".join(pieces)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("is_growing", [True, False])
@pytest.mark.parametrize("bytes_max", [1000, 3000, 1 << 20])
def test_a_slice_yields_its_bytes_whatever_is_mapped(tmp_path: Path, bytes_max: int, *, is_growing: bool) -> None:
    content = bytes(i * 7 % 251 for i in range(15_000))
    file = SegmentFile(FS, str(tmp_path / "data"), create=True, is_growing=is_growing)
    for start in range(0, 15_000, 1000):
        file.append(content[start : start + 1000])
        for position in (0, start // 2, max(start - 300, 0)):
            size = start + 1000 - position
            part = FileRecords(file, position, size)
            assert pull_all(part, bytes_max) == content[position : position + size]
            assert part.pull(100) == ()
            assert part.read(100, 50) == content[position + 100 : position + 150]
            assert pull_all(part.slice(200, 10**6), bytes_max) == content[position + 200 : start + 1000]
    assert (file.mapped == 15_000) is not is_growing


@pytest.mark.usefixtures("small_steps")
def test_views_outlive_truncation_deletion_and_their_file_object(tmp_path: Path) -> None:
    path = tmp_path / "data"
    content = bytes(i % 253 for i in range(20_000))
    file = SegmentFile(FS, str(path), create=True, is_growing=True)
    file.append(content)
    (view,) = FileRecords(file, 0, 20_000).pull(20_000)
    assert isinstance(view, memoryview)
    unsent = FileRecords(file, 100, 15_000)
    shorter = file.truncate(1000)
    assert path.read_bytes() == content[:1000]
    shorter.append(b"other")
    assert bytes(view) == content[: len(view)]
    assert pull_all(unsent, 4000) == content[100:15_100]
    path.unlink()
    assert FileRecords(shorter, 990, 15).read(0, 15) == content[990:1000] + b"other"
    del file, unsent
    assert bytes(view) == content[: len(view)]


def test_a_slice_of_a_file_cut_in_place_reports_the_cut(tmp_path: Path) -> None:
    file = SegmentFile(FS, str(tmp_path / "data"), create=True)
    file.append(b"x" * 100)
    part = FileRecords(file, 50, 50)
    assert file.truncate(60) is file
    with pytest.raises(OSError, match="shorter"):
        part.pull(100)


def test_cold_bytes_are_warmed_by_the_function_that_is_returned(tmp_path: Path) -> None:
    class ColdFilesystem(Filesystem):
        __slots__ = ("warmed",)

        def __init__(self) -> None:
            self.warmed: set[int] = set()

        def is_resident(self, fd: int, position: int) -> bool:
            return position // file_records.PROBE_STEP in self.warmed or position == 0

        def pread(self, fd: int, length: int, position: int) -> bytes:
            self.warmed.add(position // file_records.PROBE_STEP)
            return super().pread(fd, length, position)

    filesystem = ColdFilesystem()
    file = SegmentFile(filesystem, str(tmp_path / "data"), create=True)
    file.append(bytes(500_000))
    part = FileRecords(file, 0, 500_000)
    warm = part.cold()
    assert warm is not None
    warm()
    assert part.cold() is None
    assert file.coldness(100, 499_000) is None


def test_a_file_system_that_cannot_read_without_waiting_is_asked_once_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def preadv(fd: int, *_: object) -> int:
        asked.append(fd)
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr("os.preadv", preadv)
    monkeypatch.setattr("pybroker.log.files.filesystem._NOWAIT", 8)
    path = str(tmp_path / "data")
    for _ in range(2):
        fd = FS.open(path, writable=True, create=True)
        assert all(FS.is_resident(fd, position) for position in (0, 1, 2))
        FS.close(fd)
    assert asked == [fd, fd]


def test_a_small_slice_in_memory_is_copied_for_the_response(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(200)))
    file = SegmentFile(FS, str(path), is_growing=True)
    part = FileRecords(file, 50, 100)
    assert part.copied(99) is None
    assert part.copied(100) == bytes(range(50, 150))
    assert pull_all(part, 1000) == bytes(range(50, 150))
    file.truncate(120)
    assert part.copied(100) is None


def test_a_small_slice_that_is_not_in_memory_is_not_copied(tmp_path: Path) -> None:
    class Cold(Filesystem):
        def is_resident(self, fd: int, position: int) -> bool:
            return False

    path = tmp_path / "log"
    path.write_bytes(bytes(100))
    assert FileRecords(SegmentFile(Cold(), str(path)), 0, 100).copied(1000) is None
