"""One segment of a log: a data file with its offset, time and transaction index, all named after the segment's base
offset.

The data file is opened when it is first needed and the indexes are loaded at the first lookup, so a broker with
thousands of segments starts without touching most of them. An index that is missing or contradicts the data is
rebuilt from the data when that is noticed.

Source: org.apache.kafka.storage.internals.log.{LogSegment, LogFileUtils}.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING

from pybroker.log.files.open_files import OPEN_FILES
from pybroker.log.indexes.time_index import TimestampOffset
from pybroker.log.segments import segment_reading
from pybroker.log.segments.file_records import SegmentFile
from pybroker.log.segments.segment_files import DATA_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, SegmentFiles
from pybroker.log.tail import NO_TIMESTAMP, SegmentTail
from pybroker.model import NO_OFFSET, OFFSET_END, Offset
from pybroker.references import REFERENCES_OF_ONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.config.topic import TopicConfig
    from pybroker.log.files.filesystem import Filesystem, WriteBuffer
    from pybroker.log.segments.damage import Damage
    from pybroker.records.batch import BatchView

logger = logging.getLogger(__name__)


class LogSegment(SegmentFiles):
    """Data and indexes from `base_offset` on.

    Attributes:
        tail: the state that appends read and change, and that otherwise only changes with the data: its size, when to
        roll, when an index entry is due, the largest timestamp, the positions of the batches just written.
        end_offset: where the next segment begins, so no batch here may reach it; without a next segment, a segment's
        limit.
        open_file: the data file while it is open. `file` opens it.
        damage: the ranges that cannot be read, in order; empty until a reader has met damage.
        rebuilt: a segment of the same data with indexes that a thread has rebuilt, which the next rebuild takes.
        known_start: an offset, and the position of the batch that holds it: the log start offset, as it was looked for last.
        young_start: the offset of the record that retention by time let stay last, and its timestamp in ms.
    """

    __slots__ = (
        "__weakref__",
        "_is_active",
        "_is_loaded",
        "_is_rebuild_due",
        "_shown",
        "base_offset",
        "damage",
        "end_offset",
        "is_gap_logged",
        "known_start",
        "open_file",
        "rebuilt",
        "tail",
        "young_start",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        base_offset: Offset,
        config: TopicConfig,
        *,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        super().__init__(filesystem, directory, base_offset, index_bytes_max=config.segment_index_bytes, suffix=suffix)
        self.base_offset = base_offset
        self.tail = SegmentTail(base_offset, config.index_interval_bytes, jitter_ms)
        self.end_offset = OFFSET_END
        self.damage: tuple[Damage, ...] = ()
        self.known_start: tuple[Offset, int] = (NO_OFFSET, 0)
        self.young_start: tuple[Offset, int] = (NO_OFFSET, NO_TIMESTAMP)
        self.rebuilt: LogSegment | None = (
            None  # has indexes that a thread has rebuilt (`index_rebuild`), which the next rebuild takes
        )
        self.is_gap_logged = False  # whether it was logged that offsets are missing after this segment
        self.open_file: SegmentFile | None = None
        self._shown = 0  # bytes that readers with an earlier object of the file may read
        self._is_active = False
        self._is_loaded = True
        self._is_rebuild_due = False  # a rebuild was begun and did not finish

    @classmethod
    def create(
        cls,
        filesystem: Filesystem,
        directory: str,
        base_offset: Offset,
        config: TopicConfig,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> LogSegment:
        """Create a new, empty, active segment. Files of its name must be empty, except leftovers with `suffix`, which
        are emptied.

        Raises OSError, after which there are no new files.
        """
        segment = cls(filesystem, directory, base_offset, config, jitter_ms=jitter_ms, suffix=suffix)
        segment.tail.created_ms = now_ms
        segment._is_active = True
        made: list[str] = []
        try:
            for kind in (DATA_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                path = segment._stem + kind + suffix
                if not filesystem.exists(path):
                    made.append(path)
                (filesystem.create_new if kind == DATA_SUFFIX and not suffix else filesystem.create_empty)(path)
        except OSError:
            for path in made:  # an empty segment that is left in the middle of a log would end that log at a start
                with contextlib.suppress(OSError):
                    filesystem.remove(path)
            raise
        segment.transaction_index.reset()
        return segment

    @classmethod
    def open(
        cls, filesystem: Filesystem, directory: str, base_offset: Offset, config: TopicConfig, *, suffix: str = ""
    ) -> LogSegment:
        """Open an existing segment. Its indexes are checked later."""
        segment = cls(filesystem, directory, base_offset, config, suffix=suffix)
        tail = segment.tail
        tail.size = filesystem.file_size(segment.path)
        tail.created_ms = filesystem.modified_ms(segment.path)
        tail.is_max_known = False
        segment._is_loaded = False
        return segment

    # --- files ---

    @property
    def file(self) -> SegmentFile:
        """The open data file. It may be closed when other files are opened; code that needs it for longer keeps this object."""
        file = self.open_file
        if file is None:
            file = self.open_file = SegmentFile(self.filesystem, self.path, is_growing=self._is_active, shown=self._shown)
            OPEN_FILES.keep(self)
        return file

    @property
    def is_open(self) -> bool:
        """Whether the data file is open."""
        return self.open_file is not None

    @property
    def is_active(self) -> bool:
        """Whether it takes appends."""
        return self._is_active

    @property
    def are_indexes_loaded(self) -> bool:
        """Whether the ends of the indexes have been read and fit the data."""
        return self._is_loaded

    def let_go(self) -> None:
        """Close the data file as soon as no reader has it; it is opened again when it is needed."""
        file, self.open_file = self.open_file, None
        OPEN_FILES.forget(self)
        if file is not None and (file.mapped or sys.getrefcount(file) > REFERENCES_OF_ONE):
            self._shown = file.size

    @property
    def modified_ms(self) -> int:
        """The time at which the data file was last written."""
        return self.filesystem.modified_ms(self.path)

    def reset_indexes(self) -> None:
        """Empty offset and time index, so that every batch can be noted again."""
        self.offset_index.reset()
        self.time_index.reset()
        self.damage = ()
        self._set_max_timestamp(TimestampOffset(NO_TIMESTAMP, self.base_offset))
        self.tail.bytes_since_entry = 0
        self.tail.has_index_room = False
        self._is_loaded = True
        self._forget_starts()

    def _forget_starts(self) -> None:
        self.known_start, self.young_start = (NO_OFFSET, 0), (NO_OFFSET, NO_TIMESTAMP)

    def note_batch(self, batch: BatchView, position: int) -> None:
        """Add a batch of the data file to the indexes, in order."""
        if self.tail.note(batch.batch_length, batch.max_timestamp, batch.last_offset):
            self.add_entry(batch.last_offset, position)

    def add_entry(self, last_offset: Offset, position: int) -> None:
        """Add the batch that was noted last to the indexes."""
        tail = self.tail
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(tail.max_timestamp, tail.offset_of_max_timestamp)
        tail.has_index_room = not self._is_index_full

    def write_noted(self, data: WriteBuffer) -> None:
        """Write batches at the end that were passed to `note_batch`. Raises OSError."""
        self.file.append(data)
        self.tail.size += len(data)

    # --- append ---

    def activate(self) -> None:
        """Make an opened segment the one to append to."""
        self.load_indexes()
        self._is_active = True
        if (file := self.open_file) is not None:
            file.is_growing = True
        if not self.tail.is_max_known:
            self._set_max_timestamp(self._read_max_timestamp())

    def append(self, data: WriteBuffer, last_offset: Offset, max_timestamp: int, offset_of_max_timestamp: Offset) -> None:
        """Write whole batches at the end.

        `offset_of_max_timestamp` is the last offset of the batch that has it. Raises OSError.
        """
        tail = self.tail
        assert tail.is_max_known
        position = tail.size
        self.file.append(data)
        if tail.lengthen(len(data), max_timestamp, offset_of_max_timestamp):
            self.add_entry(last_offset, position)

    def remember(self, base_offset: Offset, position: int, size: int) -> None:
        """Remember where a batch was just written; this is `SegmentTail.remember`."""
        self.tail.remember(base_offset, position, size)

    def should_roll(self, config: TopicConfig, data_size: int, max_timestamp: int, last_offset: Offset, now_ms: int) -> bool:
        """Return whether the batches to append belong into a new segment; the rule is in `SegmentTail.should_roll`."""
        tail = self.tail
        if not tail.is_first_known and tail.size:
            self._read_first_timestamp()
        is_full = self._is_index_full
        tail.has_index_room = not is_full
        return tail.should_roll(data_size, last_offset, max_timestamp, now_ms, config.segment_bytes, config.segment_ms, is_full)

    @property
    def _is_index_full(self) -> bool:
        offset_index, time_index = self.offset_index, self.time_index
        return offset_index.count >= offset_index.count_max or time_index.count >= time_index.count_max

    @property
    def size(self) -> int:
        """The bytes of data."""
        return self.tail.size

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, in ms; -1 without any."""
        if not self.tail.is_first_known:
            self._read_first_timestamp()
        return self.tail.first_timestamp

    def _read_first_timestamp(self) -> None:
        self.tail.first_timestamp = next((batch.max_timestamp for _, batch in self.intact(0)), NO_TIMESTAMP)
        self.tail.is_first_known = True

    def deactivate(self) -> None:
        """Complete the segment, because a newer one takes the appends."""
        self.write_last_timestamp()
        self._is_active = False
        self.tail.forget()
        if (file := self.open_file) is not None:
            file.is_growing = False

    def write_last_timestamp(self) -> None:
        """Write both indexes to their files, with the segment's largest timestamp as the last entry."""
        tail = self.tail
        if tail.is_max_known and self._is_loaded:
            self.time_index.maybe_append(tail.max_timestamp, tail.offset_of_max_timestamp)
            tail.has_index_room = False
            self.offset_index.write()
            self.time_index.write()

    # --- read ---

    load_indexes = segment_reading.load_indexes
    rebuild_indexes = segment_reading.rebuild_indexes
    find_batch = segment_reading.find_batch
    scan = segment_reading.scan
    intact = segment_reading.intact
    intact_size = segment_reading.intact_size
    behind_damage = segment_reading.behind_damage
    read_end = segment_reading.read_end

    position_of = segment_reading.position_of
    position_before = segment_reading.position_before
    offset_behind = segment_reading.offset_behind
    older_until = segment_reading.older_until

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp, in ms (-1 without any), and the last offset of the batch that has it."""
        tail = self.tail
        if not tail.is_max_known:
            self.load_indexes()
            # A complete segment was closed with an entry for it. Only the active one is read to its end, in `activate`.
            self._set_max_timestamp(self._read_max_timestamp() if self._is_active else self.time_index.last_entry)
        return TimestampOffset(tail.max_timestamp, tail.offset_of_max_timestamp)

    def _set_max_timestamp(self, largest: TimestampOffset) -> None:
        tail = self.tail
        tail.max_timestamp, tail.offset_of_max_timestamp = largest
        tail.is_max_known = True

    def _read_max_timestamp(self) -> TimestampOffset:
        largest = self.time_index.last_entry
        for _, batch in self.intact(self.position_of(largest.offset)):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return largest

    @property
    def largest_timestamp_ms(self) -> int:
        """The age for retention: by the records, or by the file if they have no timestamps."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    # --- truncate, close, delete ---

    def truncate_to(self, offset: Offset, now_ms: int) -> int:
        """Drop the batches that reach `offset` or beyond. Returns the bytes dropped; `activate` must follow.

        After OSError the segment has all of its data, and the same call does the rest.
        """
        self.load_indexes()
        found = self.find_batch(offset)
        tail = self.tail
        tail.forget()
        self._forget_starts()
        segment_reading.from_index(self, lambda: self.offset_index.truncate_to(offset) + self.time_index.truncate_to(offset))
        self.transaction_index.truncate_to(offset)
        tail.bytes_since_entry = 0
        dropped = 0 if found is None else self.truncate_data(found[0])
        if tail.size == 0:
            tail.created_ms, tail.is_first_known = now_ms, False
        tail.is_max_known = False
        return dropped

    def truncate_data(self, size: int) -> int:
        """Cut the data file alone. Returns the bytes dropped."""
        dropped = self.size - size
        if dropped > 0:
            file = self.file
            self.open_file = kept = file.truncate(size)
            if kept is not file:
                self._shown = 0
            self.tail.size = size
            self.damage = tuple(one for one in self.damage if one.end <= size)
        return dropped

    def sync_work(self, *, is_data_only: bool = False) -> Callable[[], None]:
        """Return what to run in a thread to make the segment durable; it needs nothing of this object meanwhile.

        A data file that is not open is opened by the thread: many segments may wait for theirs.
        """
        file, path, filesystem = self.open_file, self.path, self.filesystem
        if is_data_only and file is not None:
            return file.sync
        if is_data_only:
            return lambda: filesystem.sync_path(path)
        self.offset_index.write()
        self.time_index.write()
        self.transaction_index.write()
        paths = [self.offset_index.path, self.time_index.path]
        if filesystem.exists(self.transaction_index.path):
            paths.append(self.transaction_index.path)

        def sync() -> None:
            if file is not None:
                file.sync()
            for one in paths if file is not None else [path, *paths]:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    filesystem.sync_path(one)

        return sync

    def close(self) -> None:
        """Write the indexes and release the files; slices that are being sent keep theirs."""
        if self._is_loaded:
            self.write_last_timestamp()
        self.release()

    def release(self) -> None:
        """Release the descriptor, the map and the parts of the indexes that were read; they are loaded again when they
        are needed.
        """
        self.let_go()
        super().release()

    def set_data_aside(self, path: str | None) -> None:
        """Rename the data, or delete it, and remove the indexes: they go first, because an index without data signals a
        loss.
        """
        for index in (self.offset_index, self.time_index, self.transaction_index):
            self.filesystem.remove(index.path)
        if path is None:
            self.filesystem.remove(self.path)
        else:
            self.filesystem.rename(self.path, path)
        self.release()

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size})"
