"""Finds batches in a segment: by its indexes if they can be trusted, and past damage if there is any.

An index that contradicts the data is rebuilt from the headers of the data. If the headers themselves are damaged,
that walk finds the ranges that cannot be read (`LogSegment.damage`): their offsets are refused, and the intact
batches before and after them are found.

Source: LogSegment.{sanityCheck, recover, translateOffset, readNextOffset}.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING

from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.indexes.time_index import TimestampOffset
from pybroker.log.segments import batch_scan
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.damage import SEGMENT_OFFSETS_MAX, Damage, Survey
from pybroker.model import NO_OFFSET, OFFSET_END, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.log.segments.segment import LogSegment
    from pybroker.records.batch import BatchView

logger = logging.getLogger(__name__)


# --- indexes ---


def load_indexes(self: LogSegment) -> None:
    """Read the ends of the indexes, and rebuild both if they do not fit the data. Raises OSError."""
    if self._is_loaded:
        return
    try:
        if self._is_rebuild_due:
            raise CorruptIndexError("the last rebuild failed")
        check_indexes(self)
    except (CorruptIndexError, CorruptDataError, FileNotFoundError) as error:
        logger.warning("Rebuilding the indexes of %s: %s", self.path, error)
        claimed = _last_offset_of_indexes(self)
        self.rebuild_indexes()
        _note_missing_end(self, claimed)
    self._is_loaded = True


def check_indexes(self: LogSegment) -> None:
    """Read the ends of the indexes. Raises CorruptIndexError, CorruptDataError, FileNotFoundError if they do not fit the data."""
    self.offset_index.load(self.size)
    self.time_index.load()
    _check_last_timestamp(self)


def _check_last_timestamp(self: LogSegment) -> None:
    """Check the last entry of the time index, on which retention relies. Raises CorruptIndexError, CorruptDataError."""
    if not self.time_index.count:
        return
    timestamp, offset = self.time_index.last_entry
    was_open = self.open_file is not None
    found = _find(self, offset, self.end_offset)
    batch = next(self.scan(found[0]))[1] if found is not None else None
    if batch is None or not batch.base_offset <= offset or batch.max_timestamp != timestamp:
        raise CorruptIndexError(f"{self.time_index.path}: {timestamp} at offset {offset} is not in the data")
    if not was_open:
        self.let_go()  # checking the age of a segment is no reason to keep it open


def rebuild_indexes(self: LogSegment) -> None:
    """Rebuild offset and time index from the headers of the data; unreadable ranges are logged, and noted in `damage`.

    Raises OSError, after which the next use of an index tries again.
    """
    tail = self.tail
    rebuilt, self.rebuilt = self.rebuilt, None
    if rebuilt is not None and rebuilt.size == self.size and rebuilt.end_offset == self.end_offset and not self.is_active:
        _take_over(self, rebuilt)
        return
    before, self._is_rebuild_due = (tail.is_max_known, tail.max_timestamp, tail.offset_of_max_timestamp), True
    try:
        self.reset_indexes()
        survey = Survey(self.file, self.size, base_offset=self.base_offset, end_offset=self.end_offset)
        for position, batch in survey.batches():
            self.note_batch(batch, position)
        self.write_last_timestamp()
    except OSError:
        self._is_loaded = False
        tail.is_max_known, tail.max_timestamp, tail.offset_of_max_timestamp = before
        raise
    for one in survey.damage:
        _add_damage(self, one)
    self._is_rebuild_due = False


def _take_over(self: LogSegment, rebuilt: LogSegment) -> None:
    """Take the indexes that a thread has rebuilt, which has logged the damage."""
    self._is_loaded, self._is_rebuild_due = False, True
    self.release()
    self.filesystem.rename(rebuilt.offset_index.path, self.offset_index.path)
    self.filesystem.rename(rebuilt.time_index.path, self.time_index.path)
    self.offset_index.load(self.size)
    self.time_index.load()
    self._set_max_timestamp(TimestampOffset(rebuilt.tail.max_timestamp, rebuilt.tail.offset_of_max_timestamp))
    self.tail.bytes_since_entry = rebuilt.tail.bytes_since_entry
    self.damage = rebuilt.damage
    if self.damage:
        self.tail.forget()
    self._forget_starts()
    self._is_loaded, self._is_rebuild_due = True, False


def position_of(self: LogSegment, offset: Offset) -> int:
    """Return a position at or before the batch that holds `offset`, from the index alone; never before damage that ends
    below it.
    """

    def look() -> int:
        position = self.offset_index.lookup(offset)[1]
        return max([position, *(one.end for one in self.damage if one.end_offset <= offset)])

    return from_index(self, look)


def position_before(self: LogSegment, position: int) -> int:
    """Return where a batch begins at or before `position`, from the index alone; never before damage that ends below it."""

    def look() -> int:
        found = self.offset_index.position_before(position)
        return max([found, *(one.end for one in self.damage if one.end <= position)])

    return from_index(self, look)


def offset_behind(self: LogSegment, offset: Offset, position: int) -> Offset:
    """Return an offset that no batch from the one of `offset` on reaches which begins before `position`, from the index alone;
    at most the end offset.
    """

    def look() -> int:
        found = self.offset_index.offset_behind(offset, position)
        return self.end_offset if found is None else found

    return Offset(from_index(self, look))


def older_until(self: LogSegment, timestamp: int) -> int:
    """Return an offset up to which everything is older than `timestamp` (ms), from the index alone; at least the base
    offset.
    """
    return from_index(self, lambda: self.time_index.lookup(timestamp - 1).offset)


def from_index(self: LogSegment, look: Callable[[], int]) -> int:
    """Return the result of `look`. The indexes are loaded first, and rebuilt if one is shorter than it was."""
    self.load_indexes()
    try:
        return look()
    except CorruptIndexError as error:
        logger.warning("Rebuilding the indexes of %s: %s", self.path, error)
        self.rebuild_indexes()
        return look()


def _add_damage(self: LogSegment, damage: Damage) -> None:
    self.damage = (*self.damage, damage)
    self.tail.forget()
    logger.error(
        "%s is damaged: the offsets from %d %s cannot be read, because of the %d bytes at byte %d (%s); "
        "readers of them get CORRUPT_MESSAGE",
        self.path,
        damage.first_offset,
        "on" if damage.end_offset == OFFSET_END else f"to {damage.end_offset - 1}",
        damage.end - damage.position,
        damage.position,
        damage.reason,
    )


def _last_offset_of_indexes(self: LogSegment) -> Offset:
    """Return the last offset in the files of the indexes, if it can be one of this segment's; -1 for none."""
    known = NO_OFFSET
    for index in (self.offset_index, self.time_index):
        with contextlib.suppress(FileNotFoundError, CorruptIndexError):
            index.load_entries()
            if index.count:
                offset = index.entry(index.count - 1).offset
                if self.base_offset <= offset < self.end_offset:
                    known = max(known, offset)
    return known


def _note_missing_end(self: LogSegment, claimed: int) -> None:
    """Note that data which ends before `claimed`, an offset that the indexes had, has lost its end."""
    if self.end_offset == OFFSET_END or (self.damage and self.damage[-1].end == self.size):
        return  # recovery checks the end of the log
    next_offset, _ = self.read_end()
    if claimed >= next_offset:
        _add_damage(
            self,
            Damage(
                position=self.size,
                end=self.size,
                first_offset=next_offset,
                end_offset=self.end_offset,
                reason=f"the data ends at byte {self.size}, but its indexes knew the offset {claimed}",
            ),
        )


# --- batches ---


def find_batch(self: LogSegment, offset: Offset, end_offset: Offset = OFFSET_END) -> tuple[int, int] | None:
    """Return position and size of the batch that holds `offset`, or of the first after it; None if the segment ends
    before.

    No batch may reach `end_offset`, which only the active segment does not know itself. Raises CorruptDataError where
    the data is damaged; OSError.
    """
    recent = self.tail.recent_place(offset)
    if recent is not None:
        return recent
    if not self._is_loaded:
        self.load_indexes()
    end_offset = min(end_offset, self.end_offset)
    try:
        return _find(self, offset, end_offset)
    except (CorruptDataError, CorruptIndexError) as error:
        if self.damage and isinstance(error, CorruptDataError):
            raise
        logger.warning("Rebuilding the indexes of %s: %s", self.path, error)
        self.rebuild_indexes()
        return _find(self, offset, end_offset)


def find(self: LogSegment, offset: Offset) -> None:
    """Look `offset` up as `find_batch` does in its first attempt. Raises CorruptDataError, CorruptIndexError, OSError."""
    _find(self, offset, self.end_offset)


def _find(self: LogSegment, offset: Offset, end_offset: Offset) -> tuple[int, int] | None:
    last_offset, position = self.offset_index.lookup(offset)
    known, base_offset, end = last_offset if position else NO_OFFSET, self.base_offset, self.size
    ahead: Damage | None = None
    if self.damage:
        _close_damage(self)
        for one in self.damage:
            if one.end_offset <= offset:
                if one.end > position:
                    position, known, base_offset = one.end, NO_OFFSET, one.end_offset
                continue
            ahead = one
            break
    if ahead is not None:
        if ahead.first_offset <= offset:
            raise CorruptDataError(ahead.position, ahead.reason)
        end = ahead.position
    found = batch_scan.find(
        self.file, position, end, offset, first_last_offset=known, base_offset=base_offset, end_offset=end_offset
    )
    if found is None and ahead is not None:
        raise CorruptDataError(ahead.position, ahead.reason)
    return found


def _close_damage(self: LogSegment) -> None:
    """End the damage at the end of the active segment where the first batch begins that was appended after it."""
    last = self.damage[-1]
    if last.end_offset == OFFSET_END and self.size > last.end:
        _, batch = next(batch_scan.scan(self.file, last.end, self.size, base_offset=last.first_offset))
        self.damage = (*self.damage[:-1], dataclasses.replace(last, end_offset=batch.base_offset))


def scan(self: LogSegment, position: int) -> Iterator[tuple[int, BatchView]]:
    """Yield positions and headers of batches from a batch's start on. Raises CorruptDataError, OSError."""
    base_offset = max((one.end_offset for one in self.damage if one.end <= position), default=self.base_offset)
    end_offset = min(self.end_offset, self.base_offset + SEGMENT_OFFSETS_MAX)
    return batch_scan.scan(self.file, position, self.size, base_offset=base_offset, end_offset=end_offset)


def intact(self: LogSegment, position: int) -> Iterator[tuple[int, BatchView]]:
    """Yield the same as `scan`, but leave out damage, which is logged. Raises OSError."""
    resumed = -1
    while True:
        try:
            yield from self.scan(position)
        except CorruptDataError as error:
            if not self.damage:
                self.rebuild_indexes()
            position = min((one.end for one in self.damage if one.end >= error.position), default=self.size)
            if position <= resumed:  # a second scan has not found the damage
                return
            resumed = position
        else:
            return


def intact_size(self: LogSegment, position: int) -> int:
    """Return where the known damage after the batch at `position` begins; without damage, where the data ends."""
    return min((one.position for one in self.damage if one.position > position), default=self.size)


def behind_damage(self: LogSegment, offset: Offset) -> Offset | None:
    """Return where the damage ends that holds or follows `offset`; None if a second scan finds none. Raises OSError."""
    for is_second_look in (False, True):
        if is_second_look:
            self.rebuild_indexes()
        for one in self.damage:
            if offset < one.end_offset:
                return one.end_offset
    return None


def read_end(self: LogSegment) -> tuple[Offset, int]:
    """Return the offset after the last intact batch (the base offset if there is none), and the position where that
    batch ends.

    Reads headers from the last entry of the index on. Raises OSError.
    """
    self.load_indexes()
    next_offset, end = self.base_offset, 0
    for position, batch in self.intact(self.position_of(self.offset_index.last_offset)):
        next_offset, end = batch.next_offset, position + batch.batch_length
    return next_offset, end
