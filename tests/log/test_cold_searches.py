"""Searches by time wait for the disk in a thread alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.log.log import Log
from pybroker.log.retention import retention
from pybroker.log.segments import segment_reading
from pybroker.model import Offset
from pybroker.records.compression import CompressionType
from pybroker.sharing.work import InThread, Work
from testing.scenes.cold_files import ColdFilesystem
from testing.scenes.logs import START_MS, Disk, append, batch

BATCHES = 2_000


@pytest.fixture
def filesystem(monkeypatch: pytest.MonkeyPatch) -> ColdFilesystem:
    monkeypatch.setattr("pybroker.log.cold_lookup.HOT_TAIL", 4 << 10)
    return ColdFilesystem()


def filled(tmp_path: Path, filesystem: ColdFilesystem, **settings: Any) -> Log:
    """Return a log whose batches are a millisecond apart, every tenth of which is compressed."""
    disk = Disk(tmp_path, filesystem=filesystem, segment_bytes=1 << 19, **{"index_interval_bytes": 1000, **settings})
    log = disk.create()
    for number in range(BATCHES):
        codec = CompressionType.NONE if number % 10 else CompressionType.ZSTD
        append(log, batch(size=700, timestamp=START_MS + number, compression=codec), now_ms=START_MS + number)
    assert len(log.segments) > 2
    return log


def forget(log: Log, filesystem: ColdFilesystem, *, is_loaded: bool) -> None:
    """Let no page and no window be in memory, as a day later."""
    for segment in log.segments:
        segment.tail.forget()
        segment.write_last_timestamp()
        segment.release()
        if segment is not log.segments.active:
            segment._is_loaded = is_loaded
            segment.tail.is_max_known = is_loaded
    filesystem.drop_caches()
    filesystem.waits.clear()


def run(filesystem: ColdFilesystem, work: Work[Any]) -> Any:
    """Run work with a thread, and return what it returns."""
    while True:
        try:
            step = next(work)
        except StopIteration as end:
            return end.value
        if step is not None:
            assert callable(step)
            filesystem.in_thread(step)


def data_and_indexes(filesystem: ColdFilesystem) -> list[tuple[str, int]]:
    """Return the reads that the loop waited for. Opening a file is no read."""
    return [(name, page) for name, page in filesystem.waits if page >= 0]


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("interval", [1000, 1 << 20], ids=["dense index", "no index"])
def test_an_offset_is_searched_by_time_in_a_thread(
    tmp_path: Path, filesystem: ColdFilesystem, interval: int, is_loaded: bool
) -> None:
    log = filled(tmp_path, filesystem, index_interval_bytes=interval)
    for number in (0, 1, 700, 1401):
        forget(log, filesystem, is_loaded=is_loaded)
        found = run(filesystem, log.offset_for_timestamp(START_MS + number))
        assert (found.offset, found.timestamp) == (number, START_MS + number)
        assert data_and_indexes(filesystem) == []
    log.release()


def test_the_largest_timestamp_is_searched_in_a_thread(tmp_path: Path, filesystem: ColdFilesystem) -> None:
    log = filled(tmp_path, filesystem)
    append(log, batch(size=700, timestamp=START_MS))
    log.roll(START_MS)
    forget(log, filesystem, is_loaded=False)
    found = run(filesystem, log.offset_of_max_timestamp())
    assert found.offset == BATCHES - 1
    assert data_and_indexes(filesystem) == []
    log.release()


def test_an_index_that_contradicts_its_data_is_rebuilt_in_a_thread(
    tmp_path: Path, filesystem: ColdFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was loaded before, and another program has cut it since."""
    log = filled(tmp_path, filesystem)
    for is_loaded in (True, False):
        forget(log, filesystem, is_loaded=is_loaded)
        path = Path(log.segments[1].time_index.path)
        path.write_bytes(path.read_bytes()[:12] if is_loaded else b"12345678" * 99)
        number = log.segments[1].base_offset + 300
        with monkeypatch.context() as patched:
            if is_loaded:
                patched.setattr(segment_reading, "rebuild_indexes", None)
            found = run(filesystem, log.offset_for_timestamp(START_MS + number))
        assert found.offset == number
    log.release()


@pytest.mark.parametrize("granularity", ["record", "segment"])
def test_retention_searches_in_a_thread(tmp_path: Path, filesystem: ColdFilesystem, granularity: str) -> None:
    log = filled(tmp_path, filesystem, retention_ms=500, retention_granularity=granularity)
    forget(log, filesystem, is_loaded=False)
    now_ms = START_MS + 1_400
    search = retention.advance(log, now_ms, log.log_end_offset)
    while (wait := next(search, "over")) != "over":
        if isinstance(wait, InThread):
            filesystem.in_thread(wait.work)
    expected = 900 if granularity == "record" else log.segments[log.segments.floor_index(Offset(900))].base_offset
    assert log.log_start_offset == expected
    assert data_and_indexes(filesystem) == []
    log.release()
