"""The result of a read from a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pybroker.log.results import LogOffsetMetadata
    from pybroker.log.segments.file_records import FileRecords

EMPTY: Final = b""


class FetchedRecords(NamedTuple):
    """The result of a read.

    Attributes:
        records: a slice of a segment, or `EMPTY`.
        size: its bytes.
        first_batch_size: bytes of the batch that holds the offset; 0 if there is none.
        is_first_incomplete: the slice ends within that batch.
    """

    records: FileRecords | bytes
    size: int
    offset_metadata: LogOffsetMetadata
    first_batch_size: int = 0
    is_first_incomplete: bool = False
