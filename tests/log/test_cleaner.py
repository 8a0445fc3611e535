"""Compaction: the rules decide what stays, a crash at any moment loses nothing, and no reader or writer is disturbed."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.log.checkpoints import checkpoint
from pybroker.log.cleaner import chunks
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.cleaner.progress import Progress
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType
from testing.scenes.compacted_log import CleanerClock, CompactedLog, Pair, records, settings_of
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, Producer, read_batches

if TYPE_CHECKING:
    from pybroker.log.manager.checkpoint_pass import Collection

DAY_MS = 86_400_000


class Crash(BaseException):
    """The end of the process, which no code may catch."""


class Crashing(Filesystem):
    """A file system that crashes before the n-th rename, removal or sync of a directory after it is armed."""

    def __init__(self) -> None:
        self.left = -1

    def _count(self) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._count()
        super().sync_directory(path)


def fill(setting: CompactedLog, rounds: int = 6, keys: int = 4, size: int = 40) -> dict[bytes, tuple[int, bytes]]:
    """Write every key in each round, close the segment; each key's last offset and value."""
    last: dict[bytes, tuple[int, bytes]] = {}
    for n in range(rounds):
        for k in range(keys):
            key, value = b"key-%d" % k, b"%d-" % n * size
            last[key] = (setting.put((key, value)), value)
    setting.roll()
    return last


def test_the_last_record_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    last = fill(setting)
    size = setting.log.size
    setting.clean()
    assert setting.records() == sorted((offset, key, value) for key, (offset, value) in last.items())
    assert setting.log.size < size / 4
    assert (setting.log.log_start_offset, setting.log.log_end_offset) == (0, 24)
    assert setting.cleaner.recopy_percent in range(10, 30)
    assert setting.put((b"key-0", b"new")) == 24
    segments = len(setting.log.segments)
    setting.roll()
    setting.clean()
    assert len(setting.log.segments) < segments, "small ones are joined"
    for is_clean in (True, False):
        before = setting.records()
        setting.restart(is_clean=is_clean)
        assert setting.records() == before
        assert setting.log.log_end_offset == 25


@given(data=st.data())
@settings(max_examples=30)
def test_what_stays_is_what_a_model_keeps(data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        key = st.sampled_from([b"", b"a", b"b", b"c", b"d"])
        codec = data.draw(st.sampled_from(list(CompressionType)))
        setting = CompactedLog(folder, segment_bytes=data.draw(st.integers(300, 900)), delete_retention_ms=1000)
        written: dict[int, Pair] = {}
        for _ in range(data.draw(st.integers(1, 4))):
            for pairs in data.draw(
                st.lists(st.lists(st.tuples(key, st.none() | st.binary(max_size=30)), min_size=1, max_size=4))
            ):
                first = setting.put(*pairs, compression=codec)
                written |= dict(enumerate(pairs, first))
            setting.roll()
            setting.clean()
            latest = {k: offset for offset, (k, _) in written.items()}
            wanted = {offset: pair for offset, pair in written.items() if latest[pair[0]] == offset}
            assert {o: (k, v) for o, k, v in setting.records()} == wanted
            found = {batch.last_offset for segment in setting.log.segments for _, batch in segment.scan(0)}
            end = setting.log.log_end_offset
            for offset in {0, end, *written, *(one + 1 for one in written)}:  # every offset can be asked for
                fetched = setting.log.read(Offset(offset), bytes_max=1 << 20, upper_offset=end, min_one_batch=True)
                assert bool(fetched.size) == any(one >= offset for one in found)
        before = setting.records()
        setting.restart()
        assert setting.records() == before
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("is_cut_short", [False, True])
def test_gaps_of_a_compaction_are_no_loss_after_the_topic_is_compacted_no_more(
    tmp_path: Path, is_cut_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill, also before the cleaner's last checkpoint, would otherwise cost all behind the first segment that became empty."""
    setting = CompactedLog(tmp_path, segment_bytes=500)
    setting.put((b"other", b"stays"))
    for n in range(3):
        for _ in range(5):
            setting.put((b"key", b"%d-" % n * 20))
        setting.roll()
    setting.put((b"key", b"last"))
    setting.roll()
    if is_cut_short:
        collect = Progress.checkpoint

        def left(self: Progress, directory: LogDirectory) -> Collection:
            write = yield from collect(self, directory)
            return (lambda: None) if len(setting.records()) == 2 else write

        monkeypatch.setattr(Progress, "checkpoint", left)
    setting.clean()
    setting.put((b"more", b"not cleaned"))
    segments = setting.log.segments
    ends = [segment.read_end()[0] for segment in segments]
    assert any(end < following.base_offset for end, following in zip(ends, list(segments)[1:], strict=False)), "there is a gap"
    before = setting.records()
    setting.disk.config = dataclasses.replace(setting.disk.config, cleanup_policy=frozenset({"delete"}))
    for _ in range(2):
        setting.restart()
        assert setting.records() == before


def test_a_tombstone_goes_after_its_time_and_not_before(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, delete_retention_ms=DAY_MS)
    setting.put((b"a", b"1"), (b"b", b"1"))
    tombstone = setting.put((b"a", None))
    setting.roll()
    setting.clean()
    assert setting.records() == [(1, b"b", b"1"), (tombstone, b"a", None)]
    (marked,) = [one for one in read_batches(setting.log) if one.delete_horizon_ms is not None]
    assert marked.delete_horizon_ms == START_MS + DAY_MS
    assert next(marked.records()).timestamp == START_MS, "its time has not changed"
    assert marked.is_valid
    for days, is_there in ((0.9, True), (0.2, False)):
        setting.disk.clock.advance(int(days * DAY_MS))
        setting.put((b"c", b"%d" % is_there))
        setting.roll()
        setting.clean()
        assert ((tombstone, b"a", None) in setting.records()) == is_there


def test_what_may_not_be_cleaned_yet_stays(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    fill(setting)
    everything = setting.records()
    setting.high_watermark = 0
    setting.clean()
    assert setting.records() == everything, "nothing is replicated"
    setting.high_watermark = 9
    setting.clean()
    first_kept = next(one.base_offset for one in setting.log.segments if one.base_offset > 0)
    assert first_kept <= 9
    assert [one for one in everything if one[0] >= 9] == [one for one in setting.records() if one[0] >= 9]
    assert len(setting.records()) < len(everything)


def test_young_records_stay_until_their_lag_is_over(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, min_compaction_lag_ms=1000)
    last = fill(setting)
    everything = setting.records()
    setting.disk.clock.advance(999)
    setting.clean()
    assert setting.records() == everything
    setting.disk.clock.advance(1)
    setting.clean()
    assert len(setting.records()) == len(last)


def test_a_log_is_cleaned_when_its_share_or_its_age_asks_for_it(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000)
    fill(setting)
    everything = setting.records()
    setting.clean()
    assert setting.records() == everything
    assert setting.cleaner.max_dirty_percent == 100
    setting.disk.clock.advance(5001)
    setting.clean()
    assert len(setting.records()) == 4
    assert setting.cleaner.max_dirty_percent == 0


def test_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, segment_bytes=1 << 20)
    for n in range(5):
        setting.put((b"a", b"%d" % n))
    setting.clean()
    assert len(setting.records()) == 5
    setting.roll()
    setting.put((b"a", b"last"))
    setting.clean()
    assert setting.records() == [(4, b"a", b"4"), (5, b"a", b"last")], "keys of the active segment are not looked at"


@pytest.mark.parametrize("off", [{"log.cleaner.enable": "false"}, {"log.cleaner.threads": "0"}])
def test_other_topics_and_a_switched_off_cleaner_change_nothing(tmp_path: Path, off: dict[str, str]) -> None:
    setting = CompactedLog(tmp_path, overrides=off)
    fill(setting)
    setting.clean()
    assert len(setting.records()) == 24
    setting.settings = settings_of()
    setting.log.config = Disk(tmp_path, cleanup_policy=frozenset({"delete"})).config
    setting.clean()
    assert len(setting.records()) == 24


def test_records_without_a_key_go(tmp_path: Path) -> None:
    """Such records are from before the topic was compacted."""
    setting = CompactedLog(tmp_path)
    setting.append_without_a_key(Record(Offset(1), START_MS, b"k", b"y"))
    setting.roll()
    setting.clean()
    assert setting.records() == [(1, b"k", b"y")]


def test_with_little_memory_it_takes_several_passes(tmp_path: Path) -> None:
    keys = 3000
    setting = CompactedLog(tmp_path, segment_bytes=20_000, overrides={"log.cleaner.dedupe.buffer.size": str(1 << 17)})
    for n in range(2):
        for first in range(0, keys, 10):
            setting.put(*((b"key-%d" % k, b"%d" % n) for k in range(first, first + 10)))
    setting.roll()
    setting.clean()
    assert [(key, value) for _, key, value in setting.records()] == [(b"key-%d" % k, b"1") for k in range(keys)]


def test_the_last_batch_of_a_producer_stays_without_its_records(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    one, other = Producer(7), Producer(8)
    setting.put((b"a", b"1"), producer=one)
    setting.put((b"a", b"2"), (b"b", b"2"), producer=one, sequence=1)
    setting.put((b"b", b"3"), producer=other)
    setting.put((b"a", b"4"))
    setting.roll()
    setting.clean()
    assert setting.records() == [(3, b"b", b"3"), (4, b"a", b"4")]
    emptied = read_batches(setting.log)[0]
    assert (emptied.base_offset, emptied.last_offset, emptied.record_count, emptied.producer_id) == (1, 2, 0, 7)
    for path in setting.disk.log_path.glob("*.snapshot"):
        path.unlink()
    setting.restart()
    assert setting.put((b"a", b"2"), (b"b", b"2"), producer=one, sequence=1) == 1, "a repetition is known as one"
    assert setting.put((b"a", b"5"), producer=one, sequence=3) == 5
    setting.roll()
    setting.clean()
    assert all(batch.record_count for batch in read_batches(setting.log)), "it has written something newer"


def test_the_last_batch_of_what_is_cleaned_marks_where_that_ends(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    setting.put((b"a", b"1"))
    setting.append_without_a_key()
    setting.roll()
    setting.put((b"a", b"2"))
    setting.clean()
    assert [(batch.base_offset, batch.record_count) for batch in read_batches(setting.log)] == [(0, 1), (1, 0), (2, 1)]
    setting.roll()
    setting.clean()
    assert [(batch.base_offset, batch.record_count) for batch in read_batches(setting.log)] == [(2, 1)]


def test_records_of_aborted_transactions_go_and_are_no_newer_versions(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, delete_retention_ms=1000)
    aborting, committing = Producer(1), Producer(2)
    setting.put((b"a", b"before"), (b"b", b"before"))
    setting.put((b"a", b"aborted"), producer=aborting, is_transactional=True)
    setting.put((b"b", b"committed"), producer=committing, is_transactional=True)
    setting.end_transaction(aborting, ControlType.ABORT)
    setting.end_transaction(committing, ControlType.COMMIT)
    setting.put((b"c", b"later"), producer=aborting, sequence=1, is_transactional=True)
    setting.end_transaction(aborting, ControlType.COMMIT)
    setting.roll()
    setting.log.producers.on_high_watermark(setting.log.log_end_offset)
    assert [one.producer_id for one in setting.log.aborted_transactions(fetch_offset=Offset(0), upper_offset=Offset(100))] == [1]
    setting.clean()
    assert setting.records() == [(0, b"a", b"before"), (3, b"b", b"committed"), (6, b"c", b"later")]
    kinds = [(batch.base_offset, batch.is_control, batch.record_count) for batch in read_batches(setting.log)]
    assert (4, True, 1) in kinds, "a reader that is behind may still need the marker"
    for _ in range(3):  # first it is seen that nothing is left, then the time passes
        setting.disk.clock.advance(2000)
        setting.put((b"z", b"z"))
        setting.roll()
        setting.clean()
    markers = [batch.base_offset for batch in read_batches(setting.log) if batch.is_control and batch.record_count]
    assert markers == [5, 7], "of the committed ones a record is still there"


def test_an_open_transaction_holds_cleaning_back(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    setting.put((b"a", b"1"))
    setting.roll()
    setting.put((b"a", b"2"), producer=Producer(1), is_transactional=True)
    setting.roll()
    fill(setting)
    before = setting.records()
    setting.clean()
    assert setting.records() == before


@pytest.mark.parametrize("last", [0, 1])
def test_a_crash_at_any_rename_leaves_the_old_or_the_new(tmp_path: Path, last: int) -> None:
    """Each crash is tried alone, and with another right behind it."""
    outcomes = set()
    for left in range(300):
        folder = tmp_path / f"{left}"
        folder.mkdir()
        filesystem = Crashing()
        setting = CompactedLog(folder, filesystem=filesystem, segment_bytes=1000)
        wanted = fill(setting, rounds=4)
        everything = setting.records()
        filesystem.left = left
        try:
            setting.clean()
        except Crash:
            is_done = False
        else:
            is_done = True
        for again in range(last + 1):
            filesystem.left = again if again < last else -1
            try:
                setting.restart()
            except Crash:
                setting.logs.abandon()
        filesystem.left = -1
        found = setting.records()
        latest = sorted((offset, key, value) for key, (offset, value) in wanted.items())
        assert set(latest) <= set(found) <= set(everything)
        assert len(found) == len(set(found)), "nothing twice"
        outcomes.add(len(found))
        assert not setting.names(".cleaned"), "leftovers are gone"
        assert not setting.names(".swap")
        setting.clean()
        assert setting.records() == latest
        setting.logs.abandon()
        if is_done:
            break
    assert is_done
    assert len(outcomes) >= 2, "crashes before and after"


def test_where_it_came_to_is_kept_and_forgotten_with_the_topic(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    fill(setting)
    setting.clean()
    path = tmp_path / checkpoint.CLEANER_OFFSET_FILE
    assert path.read_text() == "0\n1\nevents 3 24\n"
    setting.restart()
    setting.log.config = setting.disk.config
    inode = next(setting.disk.log_path.glob("*0.log")).stat().st_ino
    setting.clean()
    assert next(setting.disk.log_path.glob("*0.log")).stat().st_ino == inode, "nothing to do"
    setting.logs.delete(TP)
    setting.log = setting.logs.create(TP, type(TOPIC_ID)(bytes(range(1, 17))), setting.disk.config)
    last = fill(setting, rounds=8)
    setting.clean()
    assert len(setting.records()) == len(last), "the new topic's beginning was never clean"
    path.write_text("nonsense")
    setting.restart()
    assert len(setting.records()) == len(last)


def test_a_damaged_batch_is_kept_and_the_log_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    setting = CompactedLog(tmp_path)
    fill(setting)
    path = next(setting.disk.log_path.glob("*0.log"))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    setting.clean()
    assert path.read_bytes() == data
    assert "is not compacted any more" in caplog.text
    assert setting.cleaner.uncleanable_count == 1
    assert not setting.names(".cleaned")


def test_it_gives_way_to_deletion_and_to_a_shorter_log(tmp_path: Path) -> None:
    for turns in range(1, 60, 4):
        folder = tmp_path / f"{turns}"
        folder.mkdir()
        setting = CompactedLog(folder, steps=4)
        last = fill(setting)
        for _ in range(turns):
            setting.turn()
        setting.log.truncate_to(Offset(13))
        kept = {key for _, key, _ in setting.records()}
        setting.clean()
        setting.put((b"end", b"x"))
        assert setting.records()[-1] == (13, b"end", b"x")
        assert {key for _, key, _ in setting.records()} == kept | {b"end"}
        assert kept <= last.keys()
        setting.restart()
        assert setting.log.log_end_offset == 14
        fill(setting)
        for _ in range(turns):
            setting.turn()
        setting.logs.delete(TP)
        setting.clean()
        assert setting.logs.get(TP) is None


def test_a_reader_finishes_the_slice_that_it_has(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path)
    fill(setting)
    fetched = setting.log.read(Offset(0), bytes_max=1 << 20, upper_offset=Offset(24), min_one_batch=True)
    assert not isinstance(fetched.records, bytes)
    before = fetched.records.read(0, fetched.size)
    setting.clean()
    setting.disk.clock.advance(DAY_MS)
    setting.logs.remove_due(setting.disk.clock.time_ms())
    assert not setting.names(".deleted")
    assert fetched.records.read(0, fetched.size) == before


def test_it_keeps_to_its_rate(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, segment_bytes=1 << 20, overrides={"log.cleaner.io.max.bytes.per.second": "1000000"})
    for _ in range(40):
        setting.put((b"k", b"v" * 50_000))
    setting.roll()
    waited = setting.turn()
    while not setting.is_idle:
        waited += setting.turn()
    assert 3.5 < waited - 15 < 5, "2 MB are read twice"


def test_a_compacted_log_moves_with_its_gaps(tmp_path: Path) -> None:
    disk = Disk(tmp_path, cleanup_policy=frozenset({"compact"}), segment_bytes=500, min_cleanable_dirty_ratio=0.0)
    folders = [tmp_path / "a", tmp_path / "b"]
    logs = LogManager(
        [str(folder) for folder in folders],
        cluster_id="a-cluster",
        node_id=BrokerId(1),
        services=disk.services,
        config_of=lambda _: disk.config,
    )
    logs.start()
    turns: list[Callable[[], None]] = []
    setting = CompactedLog.__new__(CompactedLog)
    setting.clock = CleanerClock(START_MS)
    setting.disk, setting.logs, setting.log = disk, logs, logs.create(TP, TOPIC_ID, disk.config)
    cleaner = LogCleaner(
        logs,
        config=settings_of,
        high_watermark=lambda _: setting.log.log_end_offset,
        later=lambda _, __: None,
    )
    setting.put((b"first", b"x"))
    fill(setting)
    setting.put((b"key-0", b"gone"))
    setting.put((b"key-0", b"gone"))
    setting.put((b"key-0", None))
    setting.roll()
    cleaner.start()
    for _ in range(2):
        cleaner.look()
        disk.clock.advance(2 * DAY_MS)
        setting.log.config = disk.config
    before, end = setting.records(), setting.log.log_end_offset
    moves = DirectoryMoves(logs, later=turns.append, on_moved=lambda tp, log: None)
    moves.start(TP, logs.directories[1])
    while turns:
        turns.pop(0)()
    moved = logs.get(TP)
    assert moved is not None
    assert moved.log_directory.path == str(folders[1])
    assert records(moved) == before
    assert moved.log_end_offset == end


def test_memory_for_keys_is_counted_honestly() -> None:
    import tracemalloc  # noqa: PLC0415

    from pybroker.log.cleaner.key_offsets import KeyOffsets  # noqa: PLC0415
    from pybroker.records.batch import BatchView  # noqa: PLC0415

    batches = [
        build_batch([Record(Offset(i), START_MS, b"key-%d-%d" % (n, i), b"") for i in range(100)], base_offset=Offset(0))
        for n in range(400)
    ]
    tracemalloc.start()
    try:
        keys = KeyOffsets(4 << 20)
        added = 0
        while not keys.is_full:
            batch = BatchView(memoryview(batches[added]))
            list(keys.add(batch, batch.record_section()))
            added += 1
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 4 << 20
    assert chunks.CHUNK < 1 << 20
