"""Reads the records of `__cluster_metadata-0`: those of the newest snapshot, and those of the log after it.

    00000000000000000123-0000000002.checkpoint   a snapshot of all records below offset 123; its last record is a footer
    00000000000000000100.log                     a segment

All files are read, and no file is changed. Batches without a snapshot or a log before them are damage. So are bytes that are no
batch, unless nothing intact follows them at the end of a log whose broker was killed: a torn write, of which no client had a
response.

Source: Snapshots, RecordsSnapshotReader, KafkaMetadataLog of Kafka.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pybroker.metadata.kraft.frames import from_bytes
from pybroker.protocol.wire import DecodeError
from pybroker.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchView
from pybroker.records.control import ControlType, control_type_of
from pybroker.records.errors import CorruptRecordError, InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.metadata.kraft.frames import MetadataRecord

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")


class DamagedMetadataError(Exception):
    """The metadata cannot be read as a whole; the text is one line that names the file."""


def has_metadata(filesystem: Filesystem, log_dir: str) -> bool:
    """Return whether Kafka's metadata lies in the log directory. Raises OSError."""
    return any(entry.name == METADATA_DIRECTORY and entry.is_dir() for entry in filesystem.list(log_dir))


def metadata_records(filesystem: Filesystem, path: str, *, was_clean: bool) -> Iterator[MetadataRecord]:
    """Yield the records in the metadata directory `path`, in their order.

    Raises DamagedMetadataError, also where a part is missing; OSError.
    """
    names = sorted(entry.name for entry in filesystem.list(path) if entry.is_file())
    snapshots = [match for match in map(_SNAPSHOT.fullmatch, names) if match is not None]
    segments = [match for match in map(_SEGMENT.fullmatch, names) if match is not None]
    if not snapshots and not segments:
        raise DamagedMetadataError(f"{path} has neither a snapshot nor a segment")
    next_offset = 0
    if snapshots:
        newest = max(snapshots, key=lambda match: (int(match[1]), int(match[2])))
        yield from _snapshot_records(filesystem, f"{path}/{newest[0]}")
        next_offset = int(newest[1])
    for match in segments:
        file = f"{path}/{match[0]}"
        if int(match[1]) > next_offset:
            raise DamagedMetadataError(f"{path} has no record from offset {next_offset} to {int(match[1]) - 1}")
        is_torn_allowed = match is segments[-1] and not was_clean
        for batch in _batches(filesystem.read_file(file), file, is_torn_allowed=is_torn_allowed):
            if batch.last_offset < next_offset:
                continue
            if batch.base_offset > next_offset and int(match[1]) != batch.base_offset:
                raise DamagedMetadataError(f"{file} has no record from offset {next_offset} to {batch.base_offset - 1}")
            if not batch.is_control:
                yield from (record for offset, record in _records_of(batch, file) if offset >= next_offset)
            next_offset = batch.next_offset


def _snapshot_records(filesystem: Filesystem, file: str) -> Iterator[MetadataRecord]:
    is_complete = False
    for batch in _batches(filesystem.read_file(file), file, is_torn_allowed=False):
        if batch.is_control:
            is_complete = any(control_type_of(record.key) is ControlType.SNAPSHOT_FOOTER for record in batch.records())
        else:
            yield from (record for _, record in _records_of(batch, file))
    if not is_complete:
        raise DamagedMetadataError(f"{file} is not a whole snapshot: its last record is missing")


def _batches(data: bytes, file: str, *, is_torn_allowed: bool) -> Iterator[BatchView]:
    view, position = memoryview(data), 0
    while position < len(data):
        batch = _batch_at(view, position)
        if batch is None:
            if is_torn_allowed and not any(_batch_at(view, at) for at in _possible_batches(data, position + 1)):
                return
            raise DamagedMetadataError(f"{file} is damaged at byte {position}: no intact batch begins there")
        yield batch
        position += batch.batch_length


def _batch_at(view: memoryview, position: int) -> BatchView | None:
    """Return the intact batch that begins at `position`, or None."""
    if position + HEADER_SIZE > len(view):
        return None
    batch = BatchView(view, position)
    if batch.magic != MAGIC or batch.batch_length < HEADER_SIZE or batch.end > len(view):
        return None
    return batch if batch.is_valid else None


def _possible_batches(data: bytes, start: int) -> Iterator[int]:
    """Yield the positions from `start` on where the magic of a batch could be."""
    at = data.find(MAGIC, start + MAGIC_AT)
    while at >= 0:
        yield at - MAGIC_AT
        at = data.find(MAGIC, at + 1)


def _records_of(batch: BatchView, file: str) -> Iterator[tuple[int, MetadataRecord]]:
    try:
        for record in batch.records():
            yield record.offset, from_bytes(record.value)
    except (DecodeError, InvalidRecordError, CorruptRecordError) as error:
        raise DamagedMetadataError(f"{file}: the records from offset {batch.base_offset} on cannot be read: {error}") from error
