"""The records of one batch or message, checked and decompressed in bounded memory.

Source: `DefaultRecordBatch`, `AbstractLegacyRecordBatch` of Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import Offset
from pybroker.records import kernels, legacy
from pybroker.records.batch import MAGIC, NO_TIMESTAMP, BatchView, Record, TimestampType
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.records.legacy import MessageView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.inspection.batches import Batch
    from pybroker.inspection.data_file import DataFile

EXPANDED_BYTES_MAX: Final = DECOMPRESSED_BYTES_MAX
"""The records of a batch may take this many bytes when they are not compressed."""

BATCH_BYTES_MAX: Final = DECOMPRESSED_BYTES_MAX
"""A larger batch is not read into memory: its checksum is checked, its records are not."""


class Contents(NamedTuple):
    """The contents of a batch's records. `base_offset` is that of the batch; for old messages, that of the first record."""

    record_count: int
    base_offset: Offset
    max_timestamp: int


def records(file: DataFile, batch: Batch) -> Iterator[Record]:
    """Yield the records of a batch, with real offsets and timestamps.

    Raises CorruptRecordError where they are damaged, after those before; OSError.
    """
    view = _whole(file, batch)
    if isinstance(view, BatchView):
        yield from view.records(bytes_max=EXPANDED_BYTES_MAX)
    else:
        yield from legacy.records_of(view, bytes_max=EXPANDED_BYTES_MAX)


def read_contents(file: DataFile, batch: Batch) -> Contents | None:
    """Check the records of a batch; None if it is larger than BATCH_BYTES_MAX. Raises CorruptRecordError, OSError."""
    if batch.size > BATCH_BYTES_MAX:
        return None
    if batch.magic == MAGIC:
        return _contents_of_batch(file, batch)
    count, first, previous, newest = 0, batch.base_offset, -1, NO_TIMESTAMP
    for record in records(file, batch):
        if record.offset <= previous:
            raise InvalidRecordError(f"the record at offset {record.offset} follows the one at {previous}")
        first = first if count else record.offset
        count, previous, newest = count + 1, record.offset, max(newest, record.timestamp)
    if previous != batch.last_offset:
        raise InvalidRecordError(f"the last message inside has the offset {previous}, not {batch.last_offset}")
    return Contents(count, first, newest)


def _contents_of_batch(file: DataFile, batch: Batch) -> Contents:
    view = _whole(file, batch)
    assert isinstance(view, BatchView)
    if view.record_count < 0 or view.last_offset_delta < 0:
        raise InvalidRecordError(f"{view.record_count} records with offsets up to {view.last_offset_delta} after the first")
    if not view.record_count:  # compaction has emptied it
        return Contents(0, view.base_offset, view.max_timestamp)
    section = view.record_section(bytes_max=EXPANDED_BYTES_MAX)
    newest, _, _, is_sequential = kernels.scan_records(section, view.record_count, view.base_timestamp)
    if view.timestamp_type is TimestampType.LOG_APPEND_TIME:
        newest = view.max_timestamp
    if is_sequential:
        last = view.base_offset + view.record_count - 1
    else:
        last = Offset(view.base_offset - 1)
        for record in view.records(bytes_max=EXPANDED_BYTES_MAX):
            if record.offset <= last:
                raise InvalidRecordError(f"the record at offset {record.offset} follows the one at {last}")
            last = Offset(record.offset)
    if last > view.last_offset:
        raise InvalidRecordError(f"a record has the offset {last}, after the batch's last, {view.last_offset}")
    return Contents(view.record_count, view.base_offset, newest)


def _whole(file: DataFile, batch: Batch) -> BatchView | MessageView:
    if batch.size > BATCH_BYTES_MAX:
        raise InvalidRecordError(f"a batch of {batch.size} bytes is not read into memory, at most {BATCH_BYTES_MAX} are")
    data = file.read(batch.size, batch.position)
    if len(data) < batch.size:
        raise CorruptRecordError("the file has become shorter")
    return BatchView(memoryview(data)) if batch.magic == MAGIC else MessageView(memoryview(data))
