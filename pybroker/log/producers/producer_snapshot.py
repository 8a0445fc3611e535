"""A partition's producers on disk, `<offset>.snapshot`: the state of the log below that offset.

    field                     bytes  meaning
    version                   2      1
    crc                       4      CRC-32C of all that follows
    number of entries         4
    per producer:
      producer id             8
      epoch                   2
      last sequence           4      -1 without a cached batch
      last offset             8      -1 without a cached batch
      offset delta            4      of the last batch
      timestamp               8
      coordinator epoch       4
      current txn first offset 8     -1 without an open transaction

Only the last batch of a producer is kept, so after a restart one duplicate is recognised instead of five.

Source: org.apache.kafka.storage.internals.log.ProducerStateManager; ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from pybroker.log.files.names import offset_of
from pybroker.log.producers.producer_entry import BatchMetadata, ProducerEntry

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.model import Offset

VERSION: Final = 1
SUFFIX: Final = ".snapshot"
HEADER: Final = struct.Struct(">hI")
COUNT: Final = struct.Struct(">i")
ENTRY: Final = struct.Struct(">qhiqiqiq")
_NO_BATCH: Final = (-1, -1, 0, -1)
_SUMMED_AT_ONCE: Final = 1 << 18
assert HEADER.size == 6
assert ENTRY.size == 46


class CorruptSnapshotError(Exception):
    """The file is not a sound snapshot; the log is replayed from an older one."""


def path(directory: str, offset: Offset) -> str:
    """Return the file's name."""
    return f"{directory}/{offset:020d}{SUFFIX}"


def list_offsets(filesystem: Filesystem, directory: str) -> set[Offset]:
    """Return the offsets of all snapshots in the directory."""
    offsets = {offset_of(entry.name) for entry in filesystem.list(directory) if entry.name.endswith(SUFFIX)}
    return offsets - {-1}


def write(filesystem: Filesystem, file: str, entries: Collection[ProducerEntry]) -> None:
    """Write a snapshot, not durable yet; a torn one is recognised by its checksum."""
    body = bytearray(HEADER.size) + COUNT.pack(len(entries))
    for producer_id, epoch, coordinator_epoch, timestamp, first_offset, batches in entries:
        sequence, offset, delta, _ = batches[-1] if batches else _NO_BATCH
        body += ENTRY.pack(producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset)
    crc = 0
    for position in range(HEADER.size, len(body), _SUMMED_AT_ONCE):  # the loop may have to wait for each step of a thread
        crc = crc32c(bytes(body[position : position + _SUMMED_AT_ONCE]), crc)
    HEADER.pack_into(body, 0, VERSION, crc)
    filesystem.write_file(file, bytes(body), sync=False)


def read(filesystem: Filesystem, file: str) -> list[ProducerEntry]:
    """Read the producers. Raises CorruptSnapshotError."""
    data = filesystem.read_file(file)
    if len(data) < HEADER.size + COUNT.size:
        raise CorruptSnapshotError(f"{file}: {len(data)} bytes")
    version, crc = HEADER.unpack_from(data)
    body = data[HEADER.size :]
    (count,) = COUNT.unpack_from(body)
    if version != VERSION or crc != crc32c(body) or len(body) != COUNT.size + count * ENTRY.size:
        raise CorruptSnapshotError(f"{file}: version {version}, {count} entries in {len(data)} bytes, or a wrong checksum")
    entries = []
    for values in ENTRY.iter_unpack(body[COUNT.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = values
        batches = (BatchMetadata(sequence, offset, delta, timestamp),) if offset >= 0 else ()
        entries.append(ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, first_offset, batches))
    return entries
