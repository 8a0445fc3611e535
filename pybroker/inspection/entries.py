"""The entries of the small files of a log: indexes, snapshots of producers, checkpoints.

Entries are read one by one, so that a file of any size takes little memory. Kafka allocates the indexes of an active
segment in full; the zeros after their last entry are not entries.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes import offset_index, time_index, transaction_index
from pybroker.log.indexes.transaction_index import AbortedTransaction
from pybroker.log.producers import producer_snapshot
from pybroker.records.batch import decrement_sequence

if TYPE_CHECKING:
    import struct
    from collections.abc import Iterator
    from pathlib import Path

    from pybroker.inspection.data_file import DataFile
    from pybroker.model import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId

TEXT_BYTES_MAX: Final = 64 << 20
_PIECE: Final = 64 << 10


class EntryError(Exception):
    """A file does not follow its format. `kind` and the message show why."""

    def __init__(self, kind: str, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.position = position


class IndexEntry(NamedTuple):
    """An entry of an offset index (`value` is the position) or of a time index (`value` is the timestamp in ms)."""

    at: int
    offset: Offset
    value: int


class Producer(NamedTuple):
    """One producer of a snapshot; -1 stands for what is not known."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    first_sequence: int
    last_sequence: int
    last_offset: Offset
    timestamp: int
    coordinator_epoch: CoordinatorEpoch
    transaction_first_offset: Offset


def offset_entries(file: DataFile, base_offset: Offset) -> Iterator[IndexEntry]:
    """Yield the entries of an offset index."""
    for at, (relative, position) in _fixed(file, offset_index.ENTRY):
        yield IndexEntry(at, base_offset + relative, position)


def time_entries(file: DataFile, base_offset: Offset) -> Iterator[IndexEntry]:
    """Yield the entries of a time index."""
    for at, (timestamp, relative) in _fixed(file, time_index.ENTRY):
        yield IndexEntry(at, base_offset + relative, timestamp)


def transaction_entries(file: DataFile) -> Iterator[tuple[int, int, AbortedTransaction]]:
    """Yield position, version and entry of a transaction index."""
    size = transaction_index.ENTRY.size
    for at in range(0, file.size - size + 1, size):
        version, *values = transaction_index.ENTRY.unpack(file.read(size, at))
        yield at, version, AbortedTransaction(*values)


def bytes_left_over(file: DataFile, layout: struct.Struct) -> int:
    """Return the number of bytes after the last whole entry."""
    return file.size % layout.size


def _fixed(file: DataFile, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    end = _end_of_entries(file, layout.size)
    for at in range(0, end, layout.size):
        data = file.read(layout.size, at)
        if len(data) < layout.size:
            return
        yield at, layout.unpack(data)


def _end_of_entries(file: DataFile, size: int) -> int:
    """Return where the entries of zeros begin that end the file."""
    end = file.size - file.size % size
    while end:
        start = max(0, end - _PIECE // size * size)
        kept = file.read(end - start, start).rstrip(b"\0")
        if kept:
            return start + -(-len(kept) // size) * size
        end = start
    return end


def producers(file: DataFile) -> Iterator[Producer]:
    """Yield the producers of a snapshot. Raises EntryError for another version, size or checksum, before the first."""
    header, count_layout, entry = producer_snapshot.HEADER, producer_snapshot.COUNT, producer_snapshot.ENTRY
    start = header.size + count_layout.size
    if file.size < start:
        raise EntryError("snapshot length", f"{file.size} bytes are no snapshot of producers")
    version, crc = header.unpack(file.read(header.size, 0))
    (count,) = count_layout.unpack(file.read(count_layout.size, header.size))
    if version != producer_snapshot.VERSION:
        raise EntryError("snapshot version", f"version {version} is unknown", 0)
    computed = 0
    for at in range(header.size, file.size, _PIECE):
        computed = crc32c(file.read(_PIECE, at), computed)
    if crc != computed:
        raise EntryError("snapshot crc", f"the checksum is {crc}, but that of the contents is {computed}", 2)
    if file.size != start + count * entry.size:
        raise EntryError("snapshot length", f"{count} entries do not fit {file.size} bytes", header.size)
    for at in range(start, file.size, entry.size):
        number, epoch, last, offset, delta, timestamp, coordinator_epoch, first_offset = entry.unpack(file.read(entry.size, at))
        first = -1 if last < 0 else decrement_sequence(last, by=delta)
        yield Producer(number, epoch, first, last, offset, timestamp, coordinator_epoch, first_offset)


def checkpoint_entries(path: Path, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint, each of `fields` words of which the last is a number. Raises EntryError, OSError."""
    _bound(path)
    try:
        entries = checkpoint.read_entries(Filesystem(), str(path), fields)
        for entry in entries:
            int(entry[-1]), int(entry[-2])
    except checkpoint.CorruptCheckpointError as error:
        raise EntryError("checkpoint", str(error).removeprefix(f"{path}: ")) from error
    except ValueError as error:
        raise EntryError("checkpoint", f"an entry has a word where a number belongs: {error}") from error
    return entries


def companion_lines(path: Path) -> list[str]:
    """Return the lines of an offset checkpoint's companion with topic ids. Raises EntryError, OSError."""
    _bound(path)
    version, _, rest = path.read_bytes().partition(b"\n")
    own, _, body = rest.partition(b"\n")
    if version != b"0" or own != f"{zlib.crc32(body):08x}".encode():
        raise EntryError("checkpoint crc", "the version is unknown, or the checksum is wrong")
    return body.decode(errors="replace").split("\n")[2:-1]


def partition_metadata(path: Path) -> str:
    """Return the text of `partition.metadata` in one line. Raises EntryError, OSError."""
    _bound(path)
    try:
        checkpoint.read_partition_metadata(Filesystem(), str(path.parent))
    except checkpoint.CorruptCheckpointError as error:
        raise EntryError("partition metadata", str(error).removeprefix(f"{path}: ")) from error
    return " ".join(path.read_text(errors="replace").split())


def _bound(path: Path) -> None:
    size = path.stat().st_size
    if size > TEXT_BYTES_MAX:
        raise EntryError("length", f"{size} bytes are too many for a text file of a log")
