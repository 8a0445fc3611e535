"""Damage on the disk: whatever byte is wrong, each record is read, or its offset is refused; no record is skipped silently."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pybroker.log.log import Log
from pybroker.log.results import LostRange
from pybroker.model import Offset
from pybroker.records.batch import HEADER_SIZE, BatchView, batches
from pybroker.records.errors import CorruptRecordError
from testing.scenes.logs import START_MS, Disk, append, batch, content, read_batches

FIELDS = {
    "base offset": (0, 8),
    "length": (8, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "last offset delta": (23, 4),
    "body": (61, 1),
}


def fill(log: Log, count: int, *, size: int = 60) -> None:
    for i in range(count):
        append(log, batch(1 + i % 3, size=size, timestamp=START_MS + i))


def records_of(log: Log) -> dict[int, bytes]:
    return {record.offset: record.value or b"" for one in read_batches(log) for record in one.records()}


def first_batch_at(log: Log, offset: int) -> BatchView:
    """Read the response to a fetch of an offset as a client does. Raises CORRUPT_MESSAGE, as the client's checks do."""
    fetched = log.read(Offset(offset), bytes_max=1, upper_offset=log.log_end_offset, min_one_batch=True)
    found = next(batches(content(fetched)), None)
    assert found is not None, offset
    found.ensure_valid()
    return found


def is_lost(offset: int, lost: list[LostRange]) -> bool:
    return any(one.first_offset <= offset and (one.end_offset < 0 or offset < one.end_offset) for one in lost)


def check_nothing_is_passed_over(log: Log, expected: dict[int, bytes], damaged: range) -> None:
    """Check that no record is passed over.

    `damaged` are the offsets of the batch that was damaged: of these, the check asks only that no other record is there.
    """
    for offset, value in expected.items():
        if offset >= log.log_end_offset:
            assert offset in damaged or is_lost(offset, log.lost), offset
            continue
        if offset in damaged:
            with contextlib.suppress(CorruptRecordError):
                first_batch_at(log, offset)
            continue
        found = first_batch_at(log, offset)
        assert found.base_offset <= offset <= found.last_offset, (offset, found)
        assert value in [record.value for record in found.records() if record.offset == offset], offset


def walk(log: Log, expected: dict[int, bytes], damaged: range) -> None:
    """Read batch after batch as a consumer does: it must get every record until the broker reports damage."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            found = first_batch_at(log, offset)
        except CorruptRecordError:
            return
        if found.base_offset not in damaged:
            assert {record.offset: record.value for record in found.records()}.items() <= expected.items()
            assert not [missed for missed in range(offset, found.base_offset) if missed not in damaged], (offset, found)
        offset = found.next_offset
    missing = [offset for offset in expected if offset >= log.log_end_offset and offset not in damaged]
    assert all(is_lost(offset, log.lost) for offset in missing), missing


def original(tmp_path: Path, **config: Any) -> tuple[Disk, dict[int, bytes], list[tuple[Path, int, BatchView]]]:
    """Make a closed log of several segments; return it, its records, and file, position and header of each batch."""
    disk = Disk(tmp_path / "original", segment_bytes=1500, index_interval_bytes=300, **config)
    log = disk.create()
    fill(log, 40)
    assert len(log.segments) > 3
    places = [(Path(one.path), position, header) for one in log.segments for position, header in one.scan(0)]
    expected = records_of(log)
    log.close()
    return disk, expected, places


def copy_of(disk: Disk, target: Path) -> Disk:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(disk.path, target)
    copy = Disk(target)
    copy.config = disk.config
    return copy


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("field", FIELDS)
def test_damage_of_any_field_of_any_batch_hides_no_other_record(tmp_path: Path, field: str, *, was_clean: bool) -> None:
    disk, expected, places = original(tmp_path)
    rounds = random.Random(f"{field} {was_clean}")
    for path, position, header in places:
        at, length = FIELDS[field]
        data = bytearray(path.read_bytes())
        at = position + (rounds.randrange(HEADER_SIZE, header.batch_length) if field == "body" else at)
        for i in range(at, at + length):
            data[i] ^= rounds.choice([0, 1, 4, 128, 255]) if length > 1 else rounds.randrange(1, 256)
        copy = copy_of(disk, tmp_path / "copy")
        (copy.log_path / path.name).write_bytes(data)
        log = copy.open(was_clean=was_clean)
        damaged = range(header.base_offset, header.next_offset)
        check_nothing_is_passed_over(log, expected, damaged)
        walk(log, expected, damaged)
        end = log.log_end_offset
        fill(log, 3)
        assert first_batch_at(log, end).base_offset == end, "what is appended now can be read"
        log.close()
        log = copy.open(was_clean=True)
        assert first_batch_at(log, end).base_offset == end
        log.release()


@pytest.mark.parametrize("by", [-3, -1, 1, 2, 5])
@pytest.mark.parametrize("field", ["base offset", "last offset delta"])
def test_offsets_that_are_a_little_wrong_hide_no_other_record(tmp_path: Path, field: str, by: int) -> None:
    disk, expected, places = original(tmp_path)
    at, length = FIELDS[field]
    for path, position, header in places:
        data = bytearray(path.read_bytes())
        old = int.from_bytes(data[position + at : position + at + length])
        if old + by < 0 or (field == "base offset" and by > 0 and header.next_offset > max(expected)):
            continue  # the last batch of a log has no next batch that would show it
        data[position + at : position + at + length] = (old + by).to_bytes(length)
        copy = copy_of(disk, tmp_path / "copy")
        (copy.log_path / path.name).write_bytes(data)
        log = copy.open(was_clean=True)
        damaged = range(header.base_offset, header.next_offset)
        if field == "last offset delta" and by > 0:  # the client sees it by the checksum, also for what the batch seems to reach
            damaged = range(header.base_offset, header.next_offset + by)
        check_nothing_is_passed_over(log, expected, damaged)
        walk(log, expected, damaged)
        for offset in range(header.base_offset, min(header.next_offset, log.log_end_offset)):
            with contextlib.suppress(CorruptRecordError):
                found = first_batch_at(log, offset)
                assert found.base_offset <= offset <= found.last_offset, "a batch behind is no response to an offset before it"
        log.release()
