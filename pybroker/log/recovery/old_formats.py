"""Data files with messages of magic 0 and 1, which Kafka before 0.11 wrote: finds them, and rewrites them in magic 2.

Everything else in this package knows magic 2 alone, and a recovery cuts a file where no batch of magic 2 begins. So such files
are converted before any recovery runs (`pybroker adopt`), and the functions `refuse_...` keep a recovery from cutting one that
was not. `old_messages` finds the messages, also behind damage.

What a conversion keeps
    Offsets, also the gaps that compaction has left, timestamps and their type, keys, values and codecs. Messages without a codec
    become batches of up to BATCH_BYTES, a wrapper becomes one batch. Batches of magic 2 are copied as they are.
Damage
    A message that is torn at the end of the last file, with nothing intact after it, is copied as it is: the recovery settles it.
    Anything else that cannot be read or converted makes the conversion fail before the file is touched.
Crash order
    The new file is written beside the old one and made durable. Then the old indexes, which hold positions, are removed. Then the
    new file takes the name. After a crash, the data file is the old or the new one, and the start rebuilds the indexes.

Source: AbstractLegacyRecordBatch, LogSegment.recover of Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from pybroker.log.files.names import offset_of
from pybroker.log.leader_epoch_cache import HeaderEpochs
from pybroker.log.recovery.old_messages import Entry, find_old, intact_at, next_intact
from pybroker.log.segments.file_records import SegmentFile
from pybroker.log.segments.segment_files import DATA_SUFFIX, OFFSET_INDEX_SUFFIX, SWAP_SUFFIX, TIME_INDEX_SUFFIX
from pybroker.model import FIRST_OFFSET, LeaderEpoch, Offset
from pybroker.records import legacy
from pybroker.records.batch import MAGIC, MAGIC_AT, BatchView, Record, TimestampType, claimed_size
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.errors import CorruptRecordError, InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pybroker.log.files.filesystem import Filesystem

BATCH_BYTES: Final = 16 << 10
TEMPORARY_SUFFIX: Final = ".tmp"
_SIZE_TO_MAGIC: Final = MAGIC_AT + 1
_WINDOW: Final = 4096
_COPY_CHUNK: Final = 1 << 20
_POSITION_MAX: Final = 2**31 - 1
_ERRORS: Final = (CorruptRecordError, InvalidRecordError)
Visit = Callable[[BatchView], None]
"""A function that sees a batch, whose bytes it must not keep."""


class OldFormatError(Exception):
    """A file has messages of magic 0 or 1 that are not converted, or cannot be. The text is one line that names the file."""


def data_files(filesystem: Filesystem, directory: str) -> list[str]:
    """Return the names of a partition's data files in the order of their offsets, with those that a compaction had just made."""
    names = [entry.name for entry in filesystem.list(directory) if entry.is_file()]
    return sorted(one for one in names if one.removesuffix(SWAP_SUFFIX).endswith(DATA_SUFFIX) and offset_of(one) >= 0)


def has_old_messages(filesystem: Filesystem, path: str) -> bool:
    """Return whether an intact message of magic 0 or 1 is in a data file, also behind damage. Raises OSError."""
    return _first_old(SegmentFile(filesystem, path)) is not None


def _first_old(file: SegmentFile) -> Entry | None:
    """Return the first intact message of magic 0 or 1. Reads no checksum of a file that has only whole batches of magic 2."""
    try:
        if all(entry.magic == MAGIC for entry in _entries(file)):
            return None
    except _ERRORS:  # a wrong size may have led past intact messages, so every checksum is read from the start
        pass
    return find_old(file)


def refuse_behind(filesystem: Filesystem, path: str, position: int) -> None:
    """Raise OldFormatError if an intact message of magic 0 or 1 begins at `position` or behind it. Raises OSError.

    Reads everything from `position` on, so a recovery asks only before it cuts there.
    """
    entry = find_old(SegmentFile(filesystem, path), position)
    if entry is not None:
        raise _refusal(path, entry)


def refuse_any(filesystem: Filesystem, paths: Sequence[str]) -> None:
    """Raise OldFormatError if one of the data files has an intact message of magic 0 or 1. Raises OSError."""
    for path in paths:
        entry = _first_old(SegmentFile(filesystem, path))
        if entry is not None:
            raise _refusal(path, entry)


def refuse_first(filesystem: Filesystem, directory: str, recovery_point: Offset) -> None:
    """Raise OldFormatError if a data file that a recovery reads begins with a message of magic 0 or 1. Raises OSError.

    A recovery reads the file that holds `recovery_point` and the later ones; where there are a thousand, the others stay closed.
    """
    names = data_files(filesystem, directory)
    first = max((offset_of(name) for name in names if offset_of(name) <= recovery_point), default=FIRST_OFFSET)
    for name in names:
        if offset_of(name) >= first:
            path = f"{directory}/{name}"
            entry = intact_at(SegmentFile(filesystem, path), 0)
            if entry is not None and entry.magic < MAGIC:
                raise _refusal(path, entry)


def _refusal(path: str, entry: Entry) -> OldFormatError:
    return OldFormatError(
        f"{path} has messages of format {entry.magic} at byte {entry.position}, as Kafka before 0.11 wrote them: stop the broker "
        "and run 'pybroker adopt' with its log directories, which converts them"
    )


def _entries(file: SegmentFile) -> Iterator[Entry]:
    """Yield all entries. Raises CorruptRecordError where none begins, and where the file's end cuts one."""
    window, start, position = b"", 0, 0
    while position < file.size:
        at = position - start
        if at + _SIZE_TO_MAGIC > len(window):
            window, start, at = file.pread(min(_WINDOW, file.size - position), position), position, 0
        size = claimed_size(window, at)
        if size is None or size > file.size - position:
            raise CorruptRecordError(f"at byte {position}: a batch or message is cut")
        yield Entry(position, size, window[at + MAGIC_AT])
        position += size


# --- converting ---


class _NewFile(Protocol):
    """The place of the converted batches."""

    @property
    def size(self) -> int:
        """The number of bytes that were appended."""

    def append(self, data: bytes | bytearray, /) -> object:
        """Write whole batches, or the torn end of the old file."""


@dataclass(slots=True)
class _Nowhere:
    """A place that keeps nothing."""

    size: int = 0

    def append(self, data: bytes | bytearray, /) -> None:
        self.size += len(data)


@dataclass(slots=True)
class _Writer:
    """Writes the new file. Messages without a codec are gathered until a batch is full."""

    file: _NewFile
    visit: Visit
    next_offset: Offset
    leader_epoch: LeaderEpoch
    _gathered: list[Record] = field(default_factory=list)
    _gathered_bytes: int = 0
    _like: tuple[int, TimestampType, int] = (0, TimestampType.CREATE_TIME, 0)

    def add_message(self, data: memoryview) -> None:
        """Add an intact message of magic 0 or 1. Raises CorruptRecordError, InvalidRecordError."""
        message = legacy.MessageView(data)
        records = list(legacy.records(data))
        self._check_order([record.offset for record in records])
        append_ms = message.timestamp if message.timestamp_type else 0
        if message.compression:
            self.flush()
            self._write(records, message.compression, message.timestamp_type, append_ms)
            return
        like = (message.magic, message.timestamp_type, append_ms)
        is_far = bool(self._gathered) and records[0].offset - self._gathered[0].offset > _POSITION_MAX
        if like != self._like or is_far or self._gathered_bytes + len(data) > BATCH_BYTES:
            self.flush()
            self._like = like
        self._gathered += records
        self._gathered_bytes += len(data)

    def add_batch(self, file: SegmentFile, entry: Entry) -> None:
        """Copy an intact batch of magic 2. Raises CorruptRecordError."""
        self.flush()
        data = file.pread(entry.size, entry.position)
        batch = BatchView(memoryview(data))
        if not batch.is_valid:
            raise CorruptRecordError("the checksum of a batch is wrong")
        self._check_order([batch.base_offset])
        self.next_offset = batch.next_offset
        self.leader_epoch = max(self.leader_epoch, HeaderEpochs(file.path).of(batch))
        self._append(data)

    def flush(self) -> None:
        """Write the messages that were gathered."""
        if self._gathered:
            _, timestamp_type, append_ms = self._like
            self._write(self._gathered, CompressionType.NONE, timestamp_type, append_ms)
            self._gathered, self._gathered_bytes = [], 0

    def _check_order(self, offsets: list[Offset]) -> None:
        for offset in offsets:
            if offset < self.next_offset:
                raise CorruptRecordError(f"offset {offset} follows offset {self.next_offset - 1}")
            self.next_offset = offset + 1

    def _write(self, records: list[Record], codec: CompressionType, timestamp_type: TimestampType, append_ms: int) -> None:
        self._append(
            build_batch(
                records,
                compression=codec,
                timestamp_type=timestamp_type,
                log_append_time_ms=append_ms,
                leader_epoch=self.leader_epoch,
            )
        )

    def _append(self, data: bytes | bytearray) -> None:
        self.file.append(data)
        self.visit(BatchView(memoryview(data)))


def convert(filesystem: Filesystem, directory: str) -> list[str]:
    """Rewrite every data file of a partition's directory that has messages of magic 0 or 1. Returns the names of the files.

    Blocks. Raises OSError; OldFormatError for a message that cannot be read, with that file and the later ones as they were.
    """
    return _convert(filesystem, directory)


def rehearse(filesystem: Filesystem, directory: str, visit: Visit, pass_over: Callable[[str], None]) -> list[str]:
    """Do what `convert` does, except that no file changes: call `visit` with each batch that it would write, and `pass_over` with
    the name of each file that it would leave. The calls have the order of the offsets.

    Blocks. Raises OSError; OldFormatError where `convert` would.
    """
    return _convert(filesystem, directory, (visit, pass_over))


def _convert(filesystem: Filesystem, directory: str, instead: tuple[Visit, Callable[[str], None]] | None = None) -> list[str]:
    converted = []
    epoch = LeaderEpoch(0)  # what a leader of that time would be numbered; an epoch never falls within a log
    names = data_files(filesystem, directory)
    for name in names:
        path = f"{directory}/{name}"
        if not has_old_messages(filesystem, path):
            epoch = max(epoch, _last_epoch(filesystem, path))
            if instead is not None:
                instead[1](name)
            continue
        is_last = name == names[-1]
        if instead is not None:
            epoch = _write_converted(SegmentFile(filesystem, path), _Nowhere(), instead[0], epoch, is_last=is_last)
        else:
            epoch = _convert_file(filesystem, directory, name, epoch, is_last=is_last)
        converted.append(name)
    return converted


def _last_epoch(filesystem: Filesystem, path: str) -> LeaderEpoch:
    file, epoch, epochs = SegmentFile(filesystem, path), LeaderEpoch(0), HeaderEpochs(path)
    try:
        for entry in _entries(file):
            header = BatchView(memoryview(file.pread(min(entry.size, _WINDOW), entry.position)))
            epoch = max(epoch, epochs.of(header))
    except _ERRORS:
        return epoch
    return epoch


def _convert_file(filesystem: Filesystem, directory: str, name: str, epoch: LeaderEpoch, *, is_last: bool) -> LeaderEpoch:
    """Convert one data file. Returns the largest leader epoch of it. An unfinished new file is removed."""
    path, temporary = f"{directory}/{name}", f"{directory}/{name}{TEMPORARY_SUFFIX}"
    try:
        filesystem.create_empty(temporary)
        new = SegmentFile(filesystem, temporary)
        epoch = _write_converted(SegmentFile(filesystem, path), new, _ignore, epoch, is_last=is_last)
        filesystem.sync(new.fd)
        filesystem.set_modified_ms(temporary, filesystem.modified_ms(path))  # retention of records without a timestamp reads it
        _replace(filesystem, directory, name, temporary)
    except (OSError, OldFormatError):
        with contextlib.suppress(OSError):  # the first error is the one to report; a start removes the file too
            filesystem.remove(temporary)
        raise
    return epoch


def _ignore(_: BatchView) -> None:
    """Do nothing with a batch."""


def _write_converted(old: SegmentFile, new: _NewFile, visit: Visit, epoch: LeaderEpoch, *, is_last: bool) -> LeaderEpoch:
    """Write what `old` has, in magic 2, to `new`, and call `visit` with each batch. Returns the largest leader epoch."""
    path = old.path
    writer = _Writer(new, visit, max(offset_of(path.rpartition("/")[2]), FIRST_OFFSET), epoch)
    position = 0
    try:
        for entry in _entries(old):
            position = entry.position
            if entry.magic == MAGIC:
                writer.add_batch(old, entry)
            else:
                writer.add_message(memoryview(old.pread(entry.size, entry.position)))
            position += entry.size
        writer.flush()
    except _ERRORS as error:
        if intact_at(old, position) is not None:
            raise OldFormatError(
                f"{path} cannot be converted to format 2; what is at byte {position} has the right checksum, but {error.message}"
            ) from error
        if not is_last or next_intact(old, position + 1) is not None:
            raise OldFormatError(f"{path} cannot be converted to format 2; it is damaged at byte {position}: {error}") from error
        writer.flush()
        for start in range(position, old.size, _COPY_CHUNK):
            new.append(old.pread(min(_COPY_CHUNK, old.size - start), start))
    if new.size > _POSITION_MAX:
        raise OldFormatError(
            f"{path} cannot be converted to format 2: it would have {new.size} bytes, which no index can address"
        )
    return writer.leader_epoch


def _replace(filesystem: Filesystem, directory: str, name: str, temporary: str) -> None:
    stem, swap = name.partition(".")[0], SWAP_SUFFIX if name.endswith(SWAP_SUFFIX) else ""
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        index = f"{directory}/{stem}{suffix}{swap}"
        if filesystem.exists(index):
            filesystem.remove(index)
    filesystem.sync_directory(directory)
    filesystem.rename(temporary, f"{directory}/{name}")
    filesystem.sync_directory(directory)
