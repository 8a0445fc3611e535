"""Finds intact messages of magic 0 and 1 in a data file, also behind damage.

Idea
    A wrong size or magic hides where the next message begins. The search looks at every byte that could begin a batch or a
    message. A message counts as intact if its checksum is right.
Nested messages
    A value may hold bytes of messages, as a copy of another log does. The search continues behind an intact batch of magic 2,
    so it takes nothing inside a batch for a message of the log. The same holds for a damaged batch whose size leads to something
    intact or to the end of the file.
Cost
    One pass over the bytes. A key and a value that fill the message exactly are asked for before a checksum is read, and the
    checksums of wrong candidates have a budget. When that is used up, a candidate counts as intact: nothing is cut then.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.segments.batch_scan import CorruptDataError, check
from pybroker.records import legacy
from pybroker.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchView, claimed_size
from pybroker.records.errors import CorruptRecordError, InvalidRecordError

if TYPE_CHECKING:
    from pybroker.log.segments.file_records import SegmentFile

_ERRORS: Final = (CorruptRecordError, InvalidRecordError)
_HEAD: Final = legacy.HEAD.size
_TIMESTAMP_SIZE: Final = 8
_INT32: Final = struct.Struct(">i")
_WINDOW_MIN: Final = 4096
_WINDOW_MAX: Final = 1 << 20
_BUDGET_RATIO: Final = 4  # bytes whose checksum may be read in vain, for each byte that is searched
_BUDGET_MIN: Final = 1 << 24

# An offset that is not negative, four bytes of size, four of checksum, a magic, and attributes that magic 0 and 1 have.
_CANDIDATE: Final = re.compile(
    rb"(?=[\x00-\x7f].{7}(?!\x00\x00\x00[\x00-\x0d])[\x00-\x7f].{7}(?:[\x00\x01][\x00-\x0f]|\x02))", re.DOTALL
)


class Entry(NamedTuple):
    """A batch or a message of a data file: where it is, how long, and its magic."""

    position: int
    size: int
    magic: int


def find_old(file: SegmentFile, position: int = 0) -> Entry | None:
    """Return the first intact message of magic 0 or 1 at `position` or behind it, wherever damage lies. Raises OSError."""
    while position < file.size:
        entry = intact_at(file, position) or _framed_at(file, position) or next_intact(file, position + 1)
        if entry is None or entry.magic < MAGIC:
            return entry
        position = entry.position + entry.size
    return None


def intact_at(file: SegmentFile, position: int) -> Entry | None:
    """Return the batch or message that begins at `position` if it is whole and its checksum is right. Raises OSError."""
    window = file.pread(min(_HEAD, file.size - position), position)
    entry = _claimed(file, window, 0, position=position)
    return entry if entry is not None and _is_checksum_right(file, entry) else None


def _framed_at(file: SegmentFile, position: int) -> Entry | None:
    """Return the batch of magic 2 that ends where something intact or nothing follows, whatever its checksum. Raises OSError."""
    window = file.pread(min(_HEAD, file.size - position), position)
    entry = _claimed(file, window, 0, position=position)
    if entry is None or entry.magic != MAGIC or not _is_plausible(file, entry):
        return None
    end = position + entry.size
    return entry if end == file.size or intact_at(file, end) is not None else None


def next_intact(file: SegmentFile, position: int) -> Entry | None:
    """Return the first intact batch or message that begins at `position` or behind it, where none need begin. Raises OSError."""
    budget = max(_BUDGET_RATIO * (file.size - position), _BUDGET_MIN)
    length = _WINDOW_MIN
    while position + _HEAD <= file.size:
        window = file.pread(min(length + _HEAD, file.size - position), position)
        for match in _CANDIDATE.finditer(window, 0, len(window)):
            entry = _claimed(file, window, match.start(), position=position + match.start())
            if entry is None or not _is_plausible(file, entry):
                continue
            budget -= entry.size
            if _is_checksum_right(file, entry) if budget > 0 else entry.magic < MAGIC:
                return entry
        position += length
        length = min(2 * length, _WINDOW_MAX)
    return None


def _claimed(file: SegmentFile, window: bytes, at: int, *, position: int) -> Entry | None:
    """Return what the bytes `at` a place of `window`, which are those at `position`, claim to be; None if it is not whole."""
    try:
        size = claimed_size(window, at)
    except _ERRORS:
        return None
    if size is None or size > file.size - position:
        return None
    return Entry(position, size, window[at + MAGIC_AT])


def _is_plausible(file: SegmentFile, entry: Entry) -> bool:
    """Return whether the fields fit the size, which wrong candidates hardly ever do."""
    if entry.magic == MAGIC:
        try:
            check(BatchView(memoryview(file.pread(HEADER_SIZE, entry.position))), entry.position, file.size)
        except CorruptDataError:
            return False
        return True
    end = entry.position + entry.size
    key_at = entry.position + _HEAD + (_TIMESTAMP_SIZE if entry.magic else 0)
    value_at = _field_end(file, key_at, end)
    return value_at is not None and _field_end(file, value_at, end) == end


def _field_end(file: SegmentFile, position: int, end: int) -> int | None:
    """Return where the key or value ends whose size is at `position`; None if that is behind `end`."""
    if position + _INT32.size > end:
        return None
    (size,) = _INT32.unpack(file.pread(_INT32.size, position))
    field_end = position + _INT32.size + max(int(size), 0)
    return field_end if field_end <= end else None


def _is_checksum_right(file: SegmentFile, entry: Entry) -> bool:
    data = memoryview(file.pread(entry.size, entry.position))
    try:
        if entry.magic == MAGIC:
            return BatchView(data).is_valid
        legacy.MessageView(data).ensure_valid()
    except _ERRORS:
        return False
    return True
