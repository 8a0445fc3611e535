"""Every intact batch survives an unclean stop, and nothing else does."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from pybroker.log.log import Log
from pybroker.model import LeaderEpoch, ProducerId
from pybroker.records.batch import set_offset_and_epoch
from pybroker.sharing.work import run_through
from testing.scenes.logs import START_MS, Disk, Producer, append, batch, read_batches, stored


def values(log: Log) -> list[tuple[int, bytes]]:
    return [(record.offset, record.value or b"") for one in read_batches(log) for record in one.records()]


def fill(log: Log, count: int, *, size: int = 100) -> None:
    for i in range(count):
        append(log, batch(1 + i % 3, size=size, timestamp=START_MS + i), leader_epoch=i // 10)


def test_a_log_cut_at_any_byte_of_its_last_two_batches_keeps_exactly_the_intact_ones(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "original")
    log = disk.create()
    fill(log, 4)
    last_two = read_batches(log)[-2:]
    sizes = [one.batch_length for one in last_two]
    end = log.size
    log.release()
    for cut in range(end - sum(sizes), end + 1):
        copy = Disk(tmp_path / "copy")
        shutil.copytree(disk.path, copy.path)
        data = copy.log_path / "00000000000000000000.log"
        data.write_bytes(data.read_bytes()[:cut])
        recovered = copy.open()
        lost = (cut < end) + (cut < end - sizes[1])
        expected = [last_two[1].next_offset, last_two[1].base_offset, last_two[0].base_offset][lost]
        assert recovered.log_end_offset == expected, cut
        assert recovered.size == [end, end - sizes[1], end - sum(sizes)][lost]
        assert [one.base_offset for one in read_batches(recovered)] == [one.base_offset for one in read_batches(recovered, 0)]
        assert append(recovered, batch()) == expected
        recovered.release()
        shutil.rmtree(copy.path)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 5000, bytes(range(256)) * 20, b"\xff" * 61])
def test_garbage_after_the_last_batch_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    fill(log, 10)
    before = stored(log)
    log.release()
    data = disk.log_path / "00000000000000000000.log"
    data.write_bytes(before + tail)
    recovered = disk.open()
    assert stored(recovered) == before
    assert recovered.log_end_offset == log.log_end_offset


def test_a_flipped_bit_ends_the_log_before_its_batch_and_drops_later_segments(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=2000)
    log = disk.create()
    fill(log, 40)
    assert len(log.segments) > 3
    victim = log.segments[1]
    intact_until = read_batches(log, victim.base_offset)[2].base_offset
    log.release()
    data = Path(victim.path)
    content = bytearray(data.read_bytes())
    sizes = [one.batch_length for one in read_batches(disk.open(was_clean=True), victim.base_offset)[:3]]
    content[sum(sizes) - 1] ^= 1
    data.write_bytes(content)
    recovered = disk.open()
    assert recovered.log_end_offset == intact_until
    assert [s.base_offset for s in recovered.segments] == [0, victim.base_offset]
    assert append(recovered, batch()) == intact_until


def test_without_a_clean_stop_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=3000)
    log = disk.create()
    rounds = random.Random(1)
    written: list[tuple[int, bytes]] = []
    for _ in range(12):
        for _ in range(rounds.randrange(1, 15)):
            append(log, batch(rounds.randrange(1, 4), size=rounds.randrange(300)))
        written = values(log)
        point = log.recovery_point
        log.release()  # as when the process is killed: what was written is in the page cache
        log = disk.open(recovery_point=point)
        assert values(log) == written
        assert log.log_end_offset == written[-1][0] + 1


def test_segments_below_the_recovery_point_are_not_read_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=1000)
    log = disk.create()
    fill(log, 30)
    log.flush()
    assert log.recovery_point == log.log_end_offset
    first = Path(log.segments[0].path)
    damaged = bytearray(first.read_bytes())
    damaged[70] ^= 1
    log.release()
    first.write_bytes(damaged)
    recovered = disk.open(recovery_point=log.recovery_point)
    assert recovered.log_end_offset == log.log_end_offset


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "garbage", "zeroes", "beyond"])
def test_indexes_are_rebuilt_when_they_are_missing_or_wrong(tmp_path: Path, suffix: str, damage: str, *, was_clean: bool) -> None:
    disk = Disk(tmp_path, segment_bytes=20_000, index_interval_bytes=500)
    log = disk.create()
    fill(log, 200)
    expected = values(log)
    log.close()
    indexes = {path.name: path.read_bytes() for path in disk.log_path.glob("*" + suffix)}
    assert len(indexes) > 2
    for name, data in indexes.items():
        path = disk.log_path / name
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(
                {"torn": data[:-3], "garbage": b"\xa5" * len(data), "zeroes": data + bytes(2400), "beyond": data + b"\x7f" * 24}[
                    damage
                ]
            )
    recovered = disk.open(was_clean=was_clean, recovery_point=log.recovery_point)
    assert values(recovered) == expected
    for offset, _ in expected:
        assert read_batches(recovered, offset)[0].last_offset >= offset
    assert run_through(recovered.offset_for_timestamp(START_MS + 50)) is not None
    fill(recovered, 50)
    recovered.close()
    for name, data in indexes.items():
        if name != f"{log.segments.active.base_offset:020d}{suffix}":
            assert (disk.log_path / name).read_bytes() in (data, data + bytes(2400)), name


def test_an_index_that_lies_in_its_middle_is_found_out_by_the_reader(tmp_path: Path) -> None:
    disk = Disk(tmp_path, index_interval_bytes=200)
    log = disk.create()
    fill(log, 100)
    expected = values(log)
    log.close()
    path = disk.log_path / "00000000000000000000.index"
    data = bytearray(path.read_bytes())
    for entry in range(8, len(data) - 8, 8):
        data[entry + 7] ^= 0x15  # positions in the middle of batches
    path.write_bytes(data)
    recovered = disk.open(was_clean=True)
    for offset, value in expected:
        found = read_batches(recovered, offset)[0]
        assert (offset, value) in [(record.offset, record.value) for record in found.records()]


def test_leftovers_of_deletions_and_rewrites_are_removed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    fill(log, 5)
    expected = values(log)
    log.release()
    for name in ("00000000000000000000.log.deleted", "00000000000000000009.log.cleaned", "00000000000000000099.index", "x.tmp"):
        (disk.log_path / name).write_bytes(b"rest")
    recovered = disk.open()
    assert values(recovered) == expected
    names = {path.name for path in disk.log_path.iterdir()}
    assert not any(name.endswith((".deleted", ".cleaned", ".tmp")) for name in names)
    assert "00000000000000000099.index" not in names


def test_a_finished_rewrite_takes_the_place_of_what_it_was_made_of(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=1000)
    log = disk.create()
    fill(log, 30)
    expected = values(log)
    first, second, third = (Path(segment.path) for segment in list(log.segments)[:3])
    end = log.segments[2].base_offset
    log.close()
    (disk.log_path / (first.name + ".swap")).write_bytes(first.read_bytes() + second.read_bytes())
    recovered = disk.open()
    assert [segment.base_offset for segment in recovered.segments][:2] == [0, end]
    assert values(recovered) == expected
    assert third.exists()
    assert not second.exists()


def test_a_log_that_ends_before_its_start_offset_begins_again_there(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    fill(log, 3)
    log.close()
    recovered = disk.open(log_start_offset=1000)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.size) == (1000, 1000, 0)
    assert append(recovered, batch()) == 1000


@pytest.mark.parametrize("damage", [b"", b"0\n9\n1 2\n", b"garbage", b"7\n0\n", None])
def test_leader_epochs_are_found_again_in_the_batches(tmp_path: Path, damage: bytes | None) -> None:
    disk = Disk(tmp_path, segment_bytes=1500)
    log = disk.create()
    fill(log, 45)
    epochs = list(log.epochs.entries)
    assert [entry.epoch for entry in epochs] == [0, 1, 2, 3, 4]
    log.close()
    path = disk.log_path / "leader-epoch-checkpoint"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert disk.open(recovery_point=log.log_end_offset if damage else 0).epochs.entries == epochs


@pytest.mark.parametrize("is_kept", [False, True], ids=["without the file of epochs", "with it"])
@pytest.mark.parametrize("was_clean", [False, True])
def test_a_damaged_leader_epoch_of_a_header_does_not_use_up_the_epochs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, was_clean: bool, is_kept: bool
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    fill(log, 15)
    data = bytearray(stored(log))
    last, epochs = read_batches(log)[-1], list(log.epochs.entries)
    log.close()
    at = len(data) - last.batch_length
    set_offset_and_epoch(data, base_offset=last.base_offset, leader_epoch=LeaderEpoch(0x7FFFFFFF), position=at)
    (disk.log_path / "00000000000000000000.log").write_bytes(data)
    if not is_kept:
        (disk.log_path / "leader-epoch-checkpoint").unlink()
    again = disk.open(was_clean=was_clean, recovery_point=log.log_end_offset if was_clean else 0)
    assert (again.epochs.largest_epoch, again.epochs.entries) == (1, epochs)
    assert stored(again) == data, "the records are intact"
    if not (was_clean and is_kept):
        assert f"00000000000000000000.log: the batch at offset {last.base_offset} has the leader epoch 2147483647" in caplog.text


@pytest.mark.parametrize("snapshots", ["kept", "lost", "corrupt"])
@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_a_restart_with_and_without_snapshots(tmp_path: Path, snapshots: str, *, clean: bool) -> None:
    disk = Disk(tmp_path, segment_bytes=1500)
    log = disk.create()
    for i in range(20):
        for producer in (Producer(7), Producer(8, 2)):
            append(log, batch(2, producer=producer, sequence=2 * i, size=50))
    expected = {p.producer_id: (p.producer_epoch, p.last_sequence, p.batches[-1]) for p in log.producers.producers.values()}
    assert expected[ProducerId(7)][1] == 39
    if clean:
        log.close()
    else:
        log.release()
    files = list(disk.log_path.glob("*.snapshot"))
    assert len(files) > 2
    for path in files:
        if snapshots == "lost":
            path.unlink()
        elif snapshots == "corrupt":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    log = disk.open(was_clean=clean and snapshots == "kept", recovery_point=log.recovery_point)
    assert {
        p.producer_id: (p.producer_epoch, p.last_sequence, p.batches[-1]) for p in log.producers.producers.values()
    } == expected
    duplicate = log.append_as_leader(
        memoryview(batch(2, producer=Producer(7), sequence=38, size=50)), leader_epoch=LeaderEpoch(0), now_ms=START_MS
    )
    assert duplicate.is_duplicate
    assert duplicate.first_offset == 76
    assert append(log, batch(1, producer=Producer(8, 2), sequence=40)) == 80
