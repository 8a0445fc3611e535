"""Retention inside a segment: where the log begins by time and by size, to the record."""

from __future__ import annotations

import errno
import random
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pybroker.log.log import Log
from pybroker.log.retention.record_retention import known_size, retained_size
from pybroker.log.retention.retention import advance
from pybroker.log.segments.segment import LogSegment
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.inflate import PIECE_BYTES
from pybroker.sharing.work import run_through
from testing.scenes.cut_log import CutLog
from testing.scenes.held_work import run_all
from testing.scenes.logs import START_MS, Disk, Producer, append, batch, delete_old_segments, read_batches

NEVER = 10**12
CODECS = list(CompressionType)


def filled(disk: Disk, *timestamps: Iterable[int], compression: CompressionType = CompressionType.NONE) -> Log:
    """Return a log with a batch for each row; times are in seconds from the start, and -1 is no timestamp."""
    log = disk.create()
    for row in timestamps:
        times = [at if at < 0 else START_MS + at * 1000 for at in row]
        append(log, batch(size=100, timestamps=times, compression=compression))
    return log


def visible(log: Log) -> list[int]:
    return [record.offset for one in read_batches(log) for record in one.records() if record.offset >= log.log_start_offset]


@pytest.mark.parametrize("codec", CODECS)
def test_by_time_the_active_segment_is_cut_at_the_record_in_every_codec(tmp_path: Path, codec: CompressionType) -> None:
    log = filled(Disk(tmp_path, retention_ms=10_000), [0, 1, 2], [3, 4, 5, 6], [7, 8], compression=codec)
    delete_old_segments(log, START_MS + 10_000)
    assert log.log_start_offset == 0, "a record of exactly that age stays"
    delete_old_segments(log, START_MS + 14_001)
    assert (log.log_start_offset, len(log.segments), visible(log)) == (5, 1, [5, 6, 7, 8])
    found = run_through(log.offset_for_timestamp(START_MS))
    assert found is not None
    assert (found.offset, found.timestamp) == (5, START_MS + 5000)
    with pytest.raises(KafkaError) as caught:
        log.read(Offset(4), bytes_max=1, upper_offset=Offset(9), min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    delete_old_segments(log, START_MS + 10**7)
    assert (log.log_start_offset, log.size, len(log.segments)) == (9, 0, 1)
    assert append(log, batch()) == 9


def test_a_record_of_the_future_keeps_what_follows_it(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, retention_ms=10_000), [0, 1], [10_000], [2, 3])
    delete_old_segments(log, START_MS + 100_000)
    assert visible(log) == [2, 3, 4]
    delete_old_segments(log, START_MS + 20_000_000)
    assert visible(log) == []


def test_records_without_timestamps_stay_as_long_as_the_next_record_that_has_one(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, retention_ms=10_000), [-1], [0], [-1, -1], [5], [-1])
    delete_old_segments(log, START_MS + 11_000)
    assert visible(log) == [2, 3, 4, 5]
    delete_old_segments(log, START_MS + 10**9)
    assert visible(log) == [5], "no record with a timestamp follows"
    log.config = Disk(tmp_path, retention_ms=10_000, retention_bytes=0).config
    delete_old_segments(log, START_MS + 10**9)
    assert visible(log) == []


def test_nothing_beyond_the_high_watermark_or_an_open_transaction_goes(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, retention_ms=0), [0], [0], [0])
    delete_old_segments(log, START_MS + NEVER, high_watermark=Offset(1))
    assert log.log_start_offset == 1
    producer = Producer(7)
    append(log, batch(producer=producer, is_transactional=True))
    append(log, batch())
    delete_old_segments(log, START_MS + NEVER)
    assert log.log_start_offset == 3


@pytest.mark.parametrize("changes", [{"retention_ms": -1}, {"retention_ms": 10_000, "cleanup_policy": ("compact",)}])
def test_settings_that_change_during_a_search_hold_at_once(tmp_path: Path, changes: dict[str, Any]) -> None:
    log = filled(Disk(tmp_path, retention_ms=10_000), [0, 1], [2, 3], [100])
    search = advance(log, START_MS + 50_000, log.log_end_offset)
    next(search)
    log.config = Disk(tmp_path, **changes).config
    run_all(search)
    assert log.log_start_offset == 0, "the next pass looks again"


def test_records_that_come_during_a_search_stay(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, retention_ms=10_000, segment_bytes=200), *([number] for number in range(20)))
    assert len(log.segments) > 10
    for wait in advance(log, START_MS + 10**8, log.log_end_offset):
        assert wait is None, "nothing is cold"
        append(log, batch(size=100))
    assert log.log_start_offset == 20
    assert visible(log) == list(range(20, log.log_end_offset))
    assert log.log_end_offset > 21


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.ZSTD])
def test_a_search_in_a_large_batch_holds_one_piece_of_it(tmp_path: Path, codec: CompressionType) -> None:
    log = Disk(tmp_path, retention_ms=10_000, max_message_bytes=10_000_000).create()
    times = [START_MS] * 7999 + [START_MS + 100_000]
    append(log, build_batch([Record(Offset(at), time, None, bytes(1000)) for at, time in enumerate(times)], compression=codec))
    search = advance(log, START_MS + 50_000, log.log_end_offset)
    tracemalloc.start()
    try:
        run_all(search)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * PIECE_BYTES
    assert log.log_start_offset == 7999


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_whose_young_records_are_deleted_already_is_passed(tmp_path: Path, codec: CompressionType) -> None:
    log = filled(Disk(tmp_path, retention_ms=10_000), [100, 0, 1], [-1], [50], compression=codec)
    log.increment_log_start_offset(Offset(1), high_watermark=log.log_end_offset)
    delete_old_segments(log, START_MS + 50_000)
    assert visible(log) == [3, 4]


def test_by_size_a_log_is_cut_between_batches_and_keeps_at_least_the_limit(tmp_path: Path) -> None:
    rows = [[0, 0]] * 10
    disk = Disk(tmp_path, retention_ms=-1, index_interval_bytes=300)
    log = filled(disk, *rows)
    size = log.size // 10
    for limit, start in ((10 * size, 0), (9 * size + 1, 0), (9 * size, 2), (4 * size + 1, 10), (1, 18), (0, 20)):
        log.config = Disk(tmp_path, retention_ms=-1, retention_bytes=limit).config
        delete_old_segments(log, START_MS)
        assert log.log_start_offset == start
        assert retained_size(log) == known_size(log) >= limit
    assert log.segments.active.size == 0


def test_size_counts_from_the_batch_that_holds_the_log_start_offset(tmp_path: Path) -> None:
    disk = Disk(tmp_path, retention_ms=-1)
    log = filled(disk, [0, 0], [0, 0], [0, 0])
    size = log.size // 3
    log.increment_log_start_offset(Offset(3), high_watermark=Offset(6))
    assert (retained_size(log), known_size(log), log.size) == (2 * size, 2 * size, 3 * size)
    log.config = Disk(tmp_path, retention_granularity="segment").config
    assert retained_size(log) == 3 * size, "as in Kafka"


def test_what_is_due_does_not_depend_on_the_times_of_files(tmp_path: Path) -> None:
    disk = Disk(tmp_path, retention_ms=10_000)
    log = filled(disk, [0], [1], [2], [-1])
    log.close()
    for path in disk.log_path.iterdir():
        disk.filesystem.set_modified_ms(str(path), 0)
    log = disk.open(was_clean=True)
    delete_old_segments(log, START_MS + 11_001)
    assert visible(log) == [2, 3]


def test_the_largest_timestamp_is_that_of_a_record_that_is_there(tmp_path: Path) -> None:
    log = filled(Disk(tmp_path, segment_bytes=450), [0, 90, 3], [4], [80, 70], [5])
    for start, (offset, second) in {0: (1, 90), 2: (4, 80), 5: (5, 70), 6: (6, 5)}.items():
        log.increment_log_start_offset(Offset(start), high_watermark=Offset(7))
        found = run_through(log.offset_of_max_timestamp())
        assert found is not None
        assert (found.offset, found.timestamp) == (offset, START_MS + second * 1000)
    log.increment_log_start_offset(Offset(7), high_watermark=Offset(7))
    assert run_through(log.offset_of_max_timestamp()) is None


def test_damage_leaves_the_deletion_of_whole_segments(tmp_path: Path) -> None:
    disk = Disk(tmp_path, retention_ms=10_000, segment_bytes=600)
    log = filled(disk, [0], [1], [2], [3], [30])
    log.segments[0].release()
    with Path(log.segments[0].path).open("r+b") as file:
        file.seek(16)
        file.write(b"\x09")
    delete_old_segments(log, START_MS + 30_000)
    assert log.log_start_offset >= log.segments[0].base_offset > 0


def expected_start(rows: list[list[int]], start: int, oldest: int) -> int:
    """Return the first offset that stays of records with these timestamps."""
    unstamped = -1
    times = [at for row in rows for at in row]
    for offset in range(start, len(times)):
        if times[offset] >= oldest:
            return offset if unstamped < 0 else unstamped
        if times[offset] >= 0:
            unstamped = -1
        elif unstamped < 0:
            unstamped = offset
    return len(times) if unstamped < 0 else unstamped


@pytest.mark.parametrize("seed", range(25))
def test_random_logs_begin_where_the_model_does(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = Disk(
        tmp_path, segment_bytes=rng.choice((500, 2000, 1 << 20)), index_interval_bytes=rng.choice((0, 300)), retention_ms=0
    )
    log, rows = disk.create(), []
    for number in range(rng.randint(1, 60)):
        count = rng.randint(1, 4)
        row = [max(rng.choice((number, number + rng.randint(-9, 9), 200)), 0) for _ in range(count)]
        if rng.random() < 0.3:
            row = [-1] * count
        rows.append(row)
        times = [at if at < 0 else START_MS + at for at in row]
        append(log, batch(size=rng.randint(1, 80), timestamps=times, compression=rng.choice(CODECS)))
    now, start = 0, 0
    while now < 210:
        now += rng.randint(1, 30)
        start = expected_start(rows, start, now)
        delete_old_segments(log, START_MS + now)
        assert log.log_start_offset == start, f"seed {seed}, {now}, {rows}"
        if rng.random() < 0.3:
            log.close()
            log = disk.open(was_clean=True, log_start_offset=start)


@pytest.mark.parametrize("codec", CODECS)
def test_the_space_below_the_start_is_given_back_when_half_of_the_segment_is_gone(tmp_path: Path, codec: CompressionType) -> None:
    scene = CutLog(tmp_path)
    log = scene.log
    scene.fill(codec)
    before = log.size
    expected = [(one.base_offset, bytes(one.data)) for one in read_batches(log)]
    scene.logs.passes.clean_up(START_MS + 40_000)
    scene.give_back()
    assert (log.log_start_offset, log.size, len(log.segments)) == (90, before, 1), "less than half is gone"
    scene.logs.passes.clean_up(START_MS + 90_000)
    scene.give_back()
    assert log.log_start_offset == 240
    assert log.segments[0].base_offset == 240
    assert log.size < before / 3
    assert retained_size(log) == known_size(log) == log.size
    assert append(log, batch(timestamp=START_MS + 100_000)) == 300
    assert [(one.base_offset, bytes(one.data)) for one in read_batches(log)][:-1] == expected[80:]
    found = run_through(log.offset_for_timestamp(START_MS + 95_000))
    assert found is not None
    assert found.offset == 285
    scene.logs.remove_due(START_MS + 10**9)
    assert len(scene.names(".log")) == 2, scene.names(".log")
    scene.logs.stop()
    log = scene.disk.open(was_clean=True, log_start_offset=240)
    assert visible(log) == list(range(240, 301))


def cut_at_240(scene: CutLog) -> dict[str, bytes]:
    """Give back what is below the log start offset, 240, and stop. Returns the files of before, each by its name."""
    scene.fill()
    scene.logs.passes.clean_up(START_MS + 90_000)
    old = {path.name: path.read_bytes() for path in scene.disk.log_path.glob("*0.*")}
    scene.give_back()
    scene.logs.stop()
    return old


def test_an_old_segment_that_comes_back_is_removed_at_the_start(tmp_path: Path) -> None:
    scene = CutLog(tmp_path)
    old = cut_at_240(scene)
    for was_clean in (True, False):
        for name, data in old.items():
            (scene.disk.log_path / name).write_bytes(data)
        log = scene.disk.open(was_clean=was_clean, log_start_offset=240)
        assert visible(log) == list(range(240, 300))
        assert not log.lost
        log.release()


def test_an_unfinished_copy_of_a_segment_is_dropped(tmp_path: Path) -> None:
    scene = CutLog(tmp_path)
    old = cut_at_240(scene)
    for path in list(scene.disk.log_path.glob("*240.*")):
        path.rename(f"{path}.swap")
    for name, data in old.items():
        if not name.startswith("00000000000000000300"):
            (scene.disk.log_path / name).write_bytes(data)
    log = scene.disk.open(was_clean=False, log_start_offset=240)
    assert visible(log) == list(range(240, 300))
    assert not log.lost
    assert log.segments[0].base_offset == 0


def test_a_volume_without_room_for_the_copy_stays_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = CutLog(tmp_path)
    log = scene.log
    scene.fill()
    scene.logs.passes.clean_up(START_MS + 90_000)

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(LogSegment, "write_noted", no_room)
        scene.give_back()
    assert not log.log_directory.is_offline
    assert not [name for name in scene.names(".log") if name.endswith(".cleaned")]
    scene.give_back()
    assert log.segments[0].base_offset == 240
