"""Data that a start gives up is named, counted and kept aside."""

from __future__ import annotations

import errno
import logging
import re
from pathlib import Path

import pytest

from pybroker.log.checkpoints.offset_checkpoint import StoredOffset
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.recovery.kept import records
from pybroker.log.results import LostRange
from pybroker.model import Offset
from pybroker.protocol.error_codes import KafkaError
from pybroker.records.batch import BatchView, batches
from pybroker.records.errors import CorruptRecordError
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, FaultyFilesystem, append, batch, content, read_batches, stored

KAFKA_S_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".deleted", ".cleaned", ".swap", "-checkpoint")


def fill(log: Log, count: int, *, size: int = 100) -> None:
    for i in range(count):
        append(log, batch(1 + i % 3, size=size, timestamp=START_MS + i))


def places(log: Log) -> list[tuple[Path, int, BatchView]]:
    return [(Path(one.path), position, header) for one in log.segments for position, header in one.scan(0)]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def kept_offsets(lost: LostRange) -> list[int]:
    assert lost.path is not None
    return [one.base_offset for one in batches(Path(lost.path).read_bytes()) if one.is_valid]


def first_at(log: Log, offset: int) -> int:
    """Return the base offset of the first batch of a read from `offset`."""
    fetched = log.read(Offset(offset), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    return next(batches(content(fetched))).base_offset


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_flipped_byte_gives_up_what_is_behind_it_and_keeps_every_intact_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 40)
    end_offset, everything = log.log_end_offset, [one.base_offset for one in read_batches(log)]
    assert len(log.segments) > 4
    path, position, victim = places(log)[8]
    holder = next(one for one in log.segments if Path(one.path) == path)
    bases = [one.base_offset for one in log.segments if one.base_offset > holder.base_offset]
    behind = [offset for offset in everything if offset > victim.base_offset]
    log.release()
    flip(path, position + 80)
    recovered = disk.open()
    assert recovered.log_end_offset == victim.base_offset
    ranges = [(one.first_offset, one.end_offset) for one in recovered.lost]
    assert ranges == list(zip([victim.base_offset, *bases], [*bases, end_offset], strict=True))
    assert [offset for one in recovered.lost for offset in kept_offsets(one)] == behind
    texts = [text for text in warnings(caplog) if "given up" in text]
    assert len(texts) == len(ranges)
    for lost, text in zip(
        recovered.lost, sorted(texts, key=lambda line: int(re.findall(r"offsets (\d+)", line)[0])), strict=True
    ):
        assert f"the offsets {lost.first_offset} to {lost.end_offset - 1} are given up" in text
        assert str(lost.path) in text
    assert append(recovered, batch()) == victim.base_offset
    recovered.close()
    again = disk.open(was_clean=True)
    assert (again.lost, again.log_end_offset) == ([], victim.base_offset + 1)
    assert all(Path(str(one.path)).exists() for one in recovered.lost), "no start removes what is kept"


def test_kept_files_give_their_records_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 40)
    expected = {record.offset: record for one in read_batches(log) for record in one.records()}
    found = places(log)
    (path, position, victim), (also, second, other) = found[8], found[30]
    log.release()
    flip(path, position + 80)
    flip(also, second + 9)
    recovered = disk.open()
    kept = [record for one in recovered.lost if one.path for record in records(one.path)]
    gone = {*range(victim.base_offset, victim.next_offset), *range(other.base_offset, other.next_offset)}
    assert kept == [record for offset, record in expected.items() if offset > victim.base_offset and offset not in gone]


def test_the_names_of_kept_files_mean_nothing_to_a_start(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 20)
    path, position, _ = places(log)[1]
    for _ in range(3):
        log.release()
        flip(path, position + 80)
        log = disk.open()
        fill(log, 20)
    kept = sorted(disk.log_path.glob("*.kept"))
    assert len(kept) > 6
    for name in (one.name for one in kept):
        assert not name.endswith(KAFKA_S_SUFFIXES)
        with pytest.raises(ValueError, match="invalid literal"):
            int(name.partition(".")[0])  # what Kafka takes for an offset; it leaves alone what is none


@pytest.mark.parametrize("cut", [1, 60, 61, 150])
def test_a_torn_end_is_one_warning_with_bytes_and_offsets(tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    fill(log, 6)
    path, position, torn = places(log)[-1]
    log.release()
    path.write_bytes(path.read_bytes()[: position + cut])
    recovered = disk.open()
    end = torn.next_offset if cut >= 61 else -1
    assert [(one.first_offset, one.end_offset, one.path) for one in recovered.lost] == [(torn.base_offset, end, None)]
    (line,) = warnings(caplog)
    assert f"the {cut} bytes after it hold no intact batch" in line
    assert f"byte {position}" in line
    assert not list(disk.log_path.glob("*.kept"))


def test_what_cannot_be_kept_is_not_cut(tmp_path: Path) -> None:
    filesystem = FaultyFilesystem()
    disk = Disk(tmp_path, filesystem=filesystem, segment_bytes=2000)
    log = disk.create()
    fill(log, 20)
    path, position, _ = places(log)[1]
    log.release()
    flip(path, position + 80)
    before = {one.name: one.read_bytes() for one in disk.log_path.glob("*.log")}
    filesystem.fail_with(errno.ENOSPC, "write")
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        disk.open()
    assert {one.name: one.read_bytes() for one in disk.log_path.glob("*.log")} == before


@pytest.mark.parametrize("call", range(12))
def test_a_crash_while_things_are_kept_loses_none_of_them(tmp_path: Path, call: int) -> None:
    class Crash(BaseException):
        pass

    filesystem = FaultyFilesystem()
    disk = Disk(tmp_path, filesystem=filesystem, segment_bytes=2000)
    log = disk.create()
    fill(log, 30)
    everything = {one.base_offset for one in read_batches(log)}
    path, position, victim = places(log)[4]
    log.release()
    flip(path, position + 80)
    calls = 0

    def fault(operation: str) -> None:
        nonlocal calls
        if operation in {"rename", "truncate", "sync"}:
            calls += 1
            if calls == call + 1:
                raise Crash

    filesystem.fault = fault
    try:
        log = disk.open()
    except Crash:
        filesystem.heal()
        log = disk.open()
    filesystem.heal()
    found = {one.base_offset for one in read_batches(log)}
    for kept in disk.log_path.glob("*.kept"):
        found |= {one.base_offset for one in batches(kept.read_bytes()) if one.is_valid}
    assert found == everything - {victim.base_offset}
    assert log.log_end_offset == victim.base_offset


@pytest.mark.parametrize("damage", ["torn", "garbage", "magic", "zeroes"])
def test_after_a_clean_stop_nothing_is_appended_behind_a_damaged_end(tmp_path: Path, damage: str) -> None:
    disk = Disk(tmp_path, segment_bytes=20_000)
    log = disk.create()
    fill(log, 30)
    path, position, last = places(log)[-1]
    log.close()
    data = bytearray(path.read_bytes())
    if damage == "torn":
        del data[-10:]
    elif damage == "magic":
        data[position + 16] = 9
    else:
        data += b"\xa5" * 200 if damage == "garbage" else bytes(200)
    path.write_bytes(data)
    log = disk.open(was_clean=True)
    end = last.base_offset if damage in {"torn", "magic"} else last.next_offset
    assert log.log_end_offset == end
    assert [one.first_offset for one in log.lost] == [end]
    fill(log, 5)
    expected = stored(log)
    assert [one.base_offset for one in batches(expected)] == [one.base_offset for one in read_batches(log)]
    log.close()
    assert stored(disk.open(was_clean=True)) == expected


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_missing_active_segment_is_noticed_by_the_checkpoints(tmp_path: Path, *, was_clean: bool) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 30)
    base, end = log.segments.active.base_offset, log.log_end_offset
    log.close()
    for path in disk.log_path.glob(f"{base:020d}*"):
        path.unlink()
    recovered = disk.open(was_clean=was_clean, known_end_offset=end)
    assert [(one.first_offset, one.end_offset) for one in recovered.lost] == [(base, end)]


def test_a_manager_knows_how_far_a_log_had_come(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    manager = disk.manager()
    manager.start()
    log = manager.create(TP, TOPIC_ID, disk.config)
    fill(log, 30)
    base, end = log.segments.active.base_offset, log.log_end_offset
    manager.stop()
    for path in disk.log_path.glob(f"{base:020d}*"):
        path.unlink()
    manager = disk.manager()
    manager.start()
    recovered = manager.get(TP)
    assert recovered is not None
    assert [(one.first_offset, one.end_offset) for one in recovered.lost] == [(base, end)]
    manager.abandon()


def test_a_missing_segment_is_noticed_by_its_index_or_by_the_reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 40)
    first, second = log.segments[1].base_offset, log.segments[3].base_offset
    ends = {one.base_offset: one.end_offset for one in log.segments}
    log.close()
    (disk.log_path / f"{first:020d}.log").unlink()
    for path in disk.log_path.glob(f"{second:020d}*"):
        path.unlink()
    log = disk.open(was_clean=True)
    assert [(one.first_offset, one.end_offset) for one in log.lost] == [(first, ends[first])]
    caplog.clear()
    for _ in range(2):
        assert first_at(log, second) == ends[second]
    (line,) = warnings(caplog)
    assert f"the offsets {second} to {ends[second] - 1} are in no file" in line
    log.release()
    recovered = disk.open(recovery_point=second + 1)  # so it was durable, as what comes next may be
    assert [(one.first_offset, one.end_offset) for one in recovered.lost] == [(second, ends[second])]
    assert recovered.log_end_offset == log.log_end_offset


@pytest.mark.parametrize("may_be_compacted", [False, True])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_log_ends_before_a_hole_that_a_loss_of_power_has_left(tmp_path: Path, policy: str, *, may_be_compacted: bool) -> None:
    """The disk had written later segments first: what stays is the beginning of what was sent, and the rest is kept aside.

    Our own cleaner leaves no gap above the recovery point.
    """
    disk = Disk(tmp_path, segment_bytes=2000, cleanup_policy=frozenset({policy}))
    log = disk.create()
    fill(log, 40)
    ends = {one.base_offset: one.end_offset for one in log.segments}
    base = log.segments[2].base_offset
    later = [one.base_offset for one in log.segments][3:]
    places_of = [(position, one) for path, position, one in places(log) if path.name == f"{base:020d}.log"]
    position, first_lost = places_of[2][0], places_of[2][1].base_offset
    everything = [one.base_offset for one in read_batches(log)]
    log.release()
    path = disk.log_path / f"{base:020d}.log"
    path.write_bytes(path.read_bytes()[:position])
    recovered = disk.open(recovery_point=log.segments[1].base_offset, may_be_compacted=may_be_compacted)
    if may_be_compacted:
        assert recovered.lost == []
        assert recovered.log_end_offset == log.log_end_offset
        return
    assert [one.base_offset for one in read_batches(recovered)] == [one for one in everything if one < first_lost]
    assert recovered.log_end_offset == first_lost
    ranges = {(one.first_offset, one.end_offset): one for one in recovered.lost}
    assert (first_lost, ends[base]) in ranges
    kept = [offset for one in later[:-1] for offset in kept_offsets(ranges[one, ends[one]])]
    assert kept == [one for one in everything if later[0] <= one < later[-1]]
    assert append(recovered, batch()) == first_lost


def test_a_segment_that_a_crash_brings_back_below_the_start_offset_makes_no_hole(tmp_path: Path) -> None:
    """Retention has removed the first two segments, and the power failed before the name of the first was durably gone."""
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 40)
    start, second, end = log.segments[2].base_offset, log.segments[1].base_offset, log.log_end_offset
    log.release()
    for path in disk.log_path.glob(f"{second:020d}.*"):
        path.unlink()
    recovered = disk.open(log_start_offset=start)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.lost) == (start, end, [])


def test_a_sealed_segment_that_lost_its_end_refuses_what_was_there(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=4000, index_interval_bytes=300)
    log = disk.create()
    fill(log, 60)
    segment = log.segments[1]
    found = list(segment.scan(0))
    position, gone = found[len(found) // 2]
    end = segment.end_offset
    log.close()
    path = Path(segment.path)
    path.write_bytes(path.read_bytes()[:position])
    log = disk.open(was_clean=True)
    assert first_at(log, segment.base_offset) == segment.base_offset
    for offset in range(gone.base_offset, end):
        with pytest.raises(CorruptRecordError, match="CORRUPT_MESSAGE"):
            log.read(Offset(offset), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    assert first_at(log, end) == end


def test_a_file_that_shrinks_while_the_broker_runs_is_damage_and_no_broken_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=4000)
    log = disk.create()
    fill(log, 60)
    segment = log.segments[1]
    (_, first), *_, (position, gone) = segment.scan(0)
    with Path(segment.path).open("r+b") as file:
        file.truncate(position + 20)
    assert first_at(log, first.base_offset) == first.base_offset
    with pytest.raises(CorruptRecordError):
        log.read(gone.base_offset, bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    assert first_at(log, segment.end_offset) == segment.end_offset
    assert not disk.directory.is_offline


def test_a_start_offset_beyond_the_end_keeps_the_files(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 20)
    everything = [one.base_offset for one in read_batches(log)]
    log.close()
    recovered = disk.open(was_clean=True, log_start_offset=1000)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.size) == (1000, 1000, 0)
    (lost,) = recovered.lost
    assert (lost.first_offset, lost.end_offset) == (0, 1000)
    kept = b"".join(path.read_bytes() for path in sorted(Path(str(lost.path)).glob("*.log")))
    assert [one.base_offset for one in batches(kept)] == everything


def test_of_overlapping_segments_the_rewritten_one_wins(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000, cleanup_policy=frozenset({"compact"}))
    log = disk.create()
    for i in range(40):
        append(log, batch(1 + i % 3, size=100, timestamp=START_MS + i))
    expected = [one.base_offset for one in read_batches(log)]
    first, second, *_ = log.segments
    log.release()
    Path(first.path).write_bytes(Path(first.path).read_bytes() + Path(second.path).read_bytes())
    disk.filesystem.set_modified_ms(first.path, disk.filesystem.modified_ms(second.path))
    recovered = disk.open(recovery_point=log.log_end_offset)
    assert [one.base_offset for one in read_batches(recovered)] == expected
    assert second.base_offset not in recovered.segments.base_offsets
    assert recovered.lost == []


def test_a_batch_that_claims_the_next_segment_s_offsets_hides_none_of_them(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000, cleanup_policy=frozenset({"compact"}))
    log = disk.create()
    for i in range(40):
        append(log, batch(1 + i % 3, size=100, timestamp=START_MS + i))
    first, second, *_ = log.segments
    *_, (position, last) = first.scan(0)
    expected = [one.base_offset for one in read_batches(log, second.base_offset)]
    log.close()
    data = bytearray(Path(first.path).read_bytes())
    data[position : position + 8] = (second.base_offset + 1).to_bytes(8)
    Path(first.path).write_bytes(data)
    disk.filesystem.set_modified_ms(second.path, disk.filesystem.modified_ms(first.path) + 5)
    recovered = disk.open(recovery_point=log.log_end_offset)
    assert [one.base_offset for one in read_batches(recovered, second.base_offset)] == expected
    with pytest.raises(CorruptRecordError):
        recovered.read(last.base_offset, bytes_max=1, upper_offset=recovered.log_end_offset, min_one_batch=True)


def test_epochs_of_a_log_whose_first_records_were_compacted_away_are_not_rebuilt_at_each_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(tmp_path, segment_bytes=2000, cleanup_policy=frozenset({"compact"}))
    log = disk.create()
    for i in range(10):
        append(log, batch(2, size=100, timestamp=START_MS + i))
    *_, (position, _) = list(log.segments[0].scan(0))[:3]
    log.close()
    path = Path(log.segments[0].path)
    path.write_bytes(path.read_bytes()[position:])  # what compaction may leave
    for name in ("00000000000000000000.index", "00000000000000000000.timeindex", "leader-epoch-checkpoint"):
        (disk.log_path / name).unlink()
    disk.open(was_clean=True).close()
    assert any("Rebuilding the leader epochs" in text for text in warnings(caplog))
    caplog.clear()
    log = disk.open(was_clean=True)
    assert warnings(caplog) == []
    assert log.epochs.entries[0].start_offset == 0, "the epoch may have begun there, so a replica that has to truncate must do so"


@pytest.mark.parametrize(
    ("damage", "policy", "ends_at_hole", "is_lost"),
    [
        ("none", "delete", True, True),
        ("none", "compact", True, True),
        ("compacted by ours", "compact", True, True),
        ("recovery point", "delete", False, True),
        ("compacted by another", "delete", False, False),
        ("no recovery point", "compact", False, False),
        ("recovery point of another", "compact", False, False),
        ("recovery point of another", "delete", True, True),
    ],
)
def test_a_start_ends_a_log_at_a_hole_only_where_it_knows_that_nothing_behind_was_durable(
    tmp_path: Path, damage: str, policy: str, *, ends_at_hole: bool, is_lost: bool
) -> None:
    disk = Disk(tmp_path, segment_bytes=2000, cleanup_policy=frozenset({policy}))
    manager = disk.manager()
    manager.start()
    log = manager.create(TP, TOPIC_ID, disk.config)
    fill(log, 40)
    base, end, hole = log.segments[2].base_offset, log.log_end_offset, log.segments[3].base_offset
    log.recovery_point = log.segments[1].base_offset
    manager.passes.checkpoint()
    entry = f"0\n1\n{TP.topic} {TP.partition} {end}\n"
    point = tmp_path / "recovery-point-offset-checkpoint"
    if damage == "recovery point":
        point.write_text("0\n7\n")
    elif damage == "recovery point of another":
        (tmp_path / "recovery-point-offset-checkpoint.topic-ids").unlink()
    elif damage == "compacted by ours":
        manager.directories[0].checkpoint("cleaner-offset-checkpoint").writer({TP: StoredOffset(TOPIC_ID, end)})()
    elif damage != "none":
        (tmp_path / "cleaner-offset-checkpoint").write_text(entry)
        point.unlink() if damage == "no recovery point" else (tmp_path / f"{point.name}.topic-ids").unlink()
    manager.abandon()
    path = disk.log_path / f"{base:020d}.log"
    path.write_bytes(b"")
    manager = disk.manager()
    manager.start()
    recovered = manager.get(TP)
    assert recovered is not None
    assert ((base, hole) in [(one.first_offset, one.end_offset) for one in recovered.lost]) == is_lost
    assert recovered.log_end_offset == (base if ends_at_hole else end)
    manager.abandon()


class _Ending(Filesystem):
    """The process ends before the n-th operation that changes a name or a size."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _count(self) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def truncate(self, fd: int, size: int) -> None:
        self._count()
        super().truncate(fd, size)

    def sync_directory(self, path: str) -> None:
        self._count()
        super().sync_directory(path)


@pytest.mark.parametrize("left", range(12))
def test_a_recovery_that_is_ended_again_and_again_keeps_one_copy(tmp_path: Path, left: int) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 20)
    path, position, _ = places(log)[4]
    log.release()
    flip(path, position + 70)
    for _ in range(3):
        try:
            Disk(tmp_path, filesystem=_Ending(left), segment_bytes=2000).open()
        except KeyboardInterrupt:
            continue
    Disk(tmp_path, segment_bytes=2000).open().release()
    kept = [offset for one in disk.log_path.glob("*.kept") for offset in (r.offset for r in records(str(one)))]
    assert len(kept) == len(set(kept)) > 0
    assert not list(disk.log_path.glob("*.tmp"))
