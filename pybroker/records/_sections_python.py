"""Looks into the records of one batch for what is rarely asked, in Python: the contract, and what runs where the native part
was not built.

A section is the uncompressed records of a magic 2 batch. It is borrowed until return. A batch of a few kB may hold millions of
records when they are alike, so no function here makes an object for each record. All functions raise the errors that
`record_fault` makes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pybroker.model import Offset
from pybroker.records._kernels_python import _parse, _put, _sum, _varint, _varlong, _whole
from pybroker.records.errors import RecordFault, record_fault

__all__ = ["first_record", "largest_timestamp", "refused_records", "renumbered", "renumbered_size"]

_NO_TIMESTAMP: Final = -1


class Refused(NamedTuple):
    """What `refused_records` found. `first` has the index and timestamp of each record, and whether it has a key."""

    first: list[tuple[int, int, bool]]
    total: int
    is_late_or_early: bool


def first_record(  # noqa: PLR0917  (a call by position is a third of a call by name)
    section: bytes | bytearray | memoryview,
    record_count: int,
    base_offset: Offset,
    base_timestamp: int,
    timestamp: int,
    start_offset: Offset,
) -> tuple[Offset, int] | None:
    """Return offset and timestamp of the first record at or after both `timestamp` and `start_offset`; None if there is none.

    The records after the one that is found are not looked at.
    """
    section = _whole(section)
    position = 0
    for _ in range(record_count):
        delta, offset_delta, _, _, _, _, position = _parse(section, position)
        found, offset = _sum(base_timestamp, delta), _sum(base_offset, offset_delta)
        if found >= timestamp and offset >= start_offset:
            return Offset(offset), found
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return None


def largest_timestamp(
    section: bytes | bytearray | memoryview, record_count: int, base_offset: Offset, base_timestamp: int, start_offset: Offset
) -> tuple[Offset, int] | None:
    """Return offset and timestamp of the record with the largest timestamp from `start_offset` on, the first of several.

    Returns None if no record from `start_offset` on has a timestamp.
    """
    section = _whole(section)
    position = 0
    best, best_offset = _NO_TIMESTAMP, 0
    for _ in range(record_count):
        delta, offset_delta, _, _, _, _, position = _parse(section, position)
        timestamp, offset = _sum(base_timestamp, delta), _sum(base_offset, offset_delta)
        if timestamp > best and offset >= start_offset:
            best, best_offset = timestamp, offset
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return None if best == _NO_TIMESTAMP else (Offset(best_offset), best)


def refused_records(  # noqa: PLR0917
    section: bytes | bytearray | memoryview,
    record_count: int,
    base_timestamp: int,
    needs_key: bool,
    earliest: int,
    latest: int,
    listed_max: int,
) -> Refused:
    """Find the records without a key, if `needs_key`, and those with a timestamp outside of [earliest, latest].

    A record without a timestamp (-1) is inside. Returns the first `listed_max` of them, how many there are, and whether a
    record that has the key it needs is outside.
    """
    section = _whole(section)
    first: list[tuple[int, int, bool]] = []
    position = count = 0
    is_late_or_early = False
    for index in range(record_count):
        delta, _, _, key_size, _, _, position = _parse(section, position)
        timestamp = _sum(base_timestamp, delta)
        is_keyless = key_size < 0
        is_outside = timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest
        if not is_outside and not (needs_key and is_keyless):
            continue
        count += 1
        is_late_or_early |= is_outside and not (needs_key and is_keyless)
        if count <= listed_max:
            first.append((index, timestamp, not is_keyless))
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return Refused(first, count, is_late_or_early)


def renumbered_size(
    section: bytes | bytearray | memoryview, record_count: int, base_timestamp: int, log_append_time: int | None
) -> tuple[int, int]:
    """Return the size in bytes of what `renumbered` makes, without making it, and the timestamp that its deltas count from.

    That is the first record's timestamp; with `log_append_time`, which then holds for every record, it is that.
    """
    section = _whole(section)
    position = size = first = 0
    for index in range(record_count):
        delta, _, rest_at, position = _rest(section, position)
        timestamp = _sum(base_timestamp, delta) if log_append_time is None else log_append_time
        if not index:
            first = timestamp
        body = 1 + _size(_sum(timestamp, -first)) + _size(index) + position - rest_at
        size += _size(body) + body
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return size, first


def renumbered(
    section: bytes | bytearray | memoryview, record_count: int, base_timestamp: int, log_append_time: int | None
) -> tuple[bytes, int]:
    """Return the section with the offset deltas 0, 1, 2..., and the timestamp that its timestamp deltas count from.

    Keys, values and headers stay as they are. `log_append_time` is as for `renumbered_size`.
    """
    section = _whole(section)
    out = bytearray()
    position = first = 0
    for index in range(record_count):
        delta, _, rest_at, position = _rest(section, position)
        timestamp = _sum(base_timestamp, delta) if log_append_time is None else log_append_time
        if not index:
            first = timestamp
        body = bytearray(1)  # the attributes, of which none is defined
        _put(body, _sum(timestamp, -first))
        _put(body, index)
        _put(out, len(body) + position - rest_at)
        out += body
        out += section[rest_at:position]
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return bytes(out), first


def _rest(section: bytes, position: int) -> tuple[int, int, int, int]:
    """Return timestamp delta and offset delta of a whole record, the position after them, and that of the next record."""
    end = _parse(section, position)[-1]
    _, position = _varint(section, position, len(section))
    delta, position = _varlong(section, position + 1, end)
    offset_delta, position = _varint(section, position, end)
    return delta, offset_delta, position, end


def _size(value: int) -> int:
    """Return the size in bytes of `value` as a zigzag varint."""
    return max(((value << 1) ^ (value >> 63)).bit_length() + 6, 7) // 7
