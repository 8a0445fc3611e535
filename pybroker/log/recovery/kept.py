"""Reads the records that a start gave up and kept in files, which `lost` describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.segments.damage import first_intact
from pybroker.log.segments.file_records import SegmentFile
from pybroker.model import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.records.batch import Record


class _ReadOnly(Filesystem):
    __slots__ = ()

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:  # noqa: ARG002
        return super().open(path, writable=False)


def records(path: str) -> Iterator[Record]:
    """Yield the records of every intact batch of a `.kept` file, in order, without control records. Raises OSError."""
    file = SegmentFile(_ReadOnly(), path)
    position, next_offset = 0, FIRST_OFFSET
    while (found := first_intact(file, position, file.size, base_offset=next_offset)) is not None:
        at, batch = found
        position, next_offset = at + batch.batch_length, batch.next_offset
        if not batch.is_control:
            yield from batch.records()
