"""The types of the log's arguments and results."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import NO_OFFSET, Offset

if TYPE_CHECKING:
    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.log.segments.file_records import FileRecords
    from pybroker.model import LeaderEpoch


class AppendOrigin(IntEnum):
    """Where records come from: only records of clients are checked in full."""

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2
    CHECKED = 3  # a client's, checked already


class LogAppendInfo(NamedTuple):
    """The result of an append. For a duplicate: the result of the first append of the same batch; nothing was written.

    Attributes:
        log_append_time: in ms; -1 if the records keep the producer's timestamps.
        size: the bytes written.
        records_converted: the number of records that came in magic 0 or 1.
        conversion_ns: the time that the conversion took.
    """

    first_offset: Offset = NO_OFFSET
    last_offset: Offset = NO_OFFSET
    max_timestamp: int = -1
    log_append_time: int = -1
    log_start_offset: Offset = NO_OFFSET
    record_count: int = 0
    size: int = 0
    records_converted: int = 0
    conversion_ns: int = 0
    is_duplicate: bool = False


class LogOffsetMetadata(NamedTuple):
    """An offset and its position, so that a waiting fetch can count the bytes between two of them."""

    offset: Offset
    segment_base_offset: Offset = NO_OFFSET
    position: int = -1


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


class TimestampedOffset(NamedTuple):
    """A record found by its timestamp; `leader_epoch` is -1 if it is not known."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


AbortedTransactions = list["AbortedTransaction"]
