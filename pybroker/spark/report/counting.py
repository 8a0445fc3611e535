"""Counts batches as they lie in the log into a tally: headers one by one, records as columns, without an object for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from pybroker.model import FIRST_OFFSET, NO_OFFSET, Offset
from pybroker.records.batch import HEADER_SIZE, LOG_APPEND_TIME_BIT, MAGIC, MAGIC_AT, BatchView, entry_size
from pybroker.records.control import ControlType, control_type
from pybroker.records.legacy import MessageView
from pybroker.spark.columns import HEADERS, KEY, TIMESTAMP, VALUE, ColumnBuilder
from pybroker.spark.report.keys import Found, KeyCounts
from pybroker.spark.report.tally import HEADER_NAMES_MAX, PRODUCERS_MAX, Codec, Tally

if TYPE_CHECKING:
    from pybroker.records.aborted import AbortedTransactions
    from pybroker.records.compression import CompressionType

_ROWS_MAX: Final = 1 << 16
_BYTES_MAX: Final = 16 << 20


@final
class Counting:
    """A counter of a partition, in the order of its log. It calls `on_counted` with the number of records since the last call."""

    def __init__(
        self, now_ms: int, *, keys_max: int, key_bytes_max: int, on_counted: Callable[[int], None] | None = None
    ) -> None:
        self._now_ms, self._on_counted = now_ms, on_counted
        self._builder = ColumnBuilder(TIMESTAMP | KEY | VALUE | HEADERS)
        self._keys = KeyCounts(keys_max, bytes_max=key_bytes_max)
        self._tally = Tally()
        self._batch_records: list[int] = []
        self._batch_sizes: list[int] = []
        self._open: dict[int, int] = {}

    def add(self, data: memoryview, first: Offset, end: Offset, aborted: AbortedTransactions | None = None) -> Offset:
        """Count the whole batches in `data`, and of their records those with first <= offset < end. Return the next offset.

        A batch counts as a whole if some of its offsets are among these. With `aborted`, every transaction in `data` is decided;
        without, the markers that follow decide. Raises CorruptRecordError.
        """
        position, following = 0, first
        while following < end and (size := entry_size(data, position)) is not None:
            if data[position + MAGIC_AT] == MAGIC:
                batch = BatchView(data, position)
                if batch.base_offset >= end:
                    return end
                if batch.next_offset > following:
                    self._add_batch(batch, aborted, first=first, end=end)
                    following = batch.next_offset
            else:
                message = MessageView(data, position)
                if not message.compression and message.offset >= end:
                    return end
                if message.offset >= following:
                    self._add_message(message, first=first, end=end)
                    following = Offset(message.offset + 1)
            if self._builder.rows >= _ROWS_MAX or self._builder.data_bytes >= _BYTES_MAX:
                self._flush()
            position += size
        return following

    def looked(self, offsets: int, *, deleted: int) -> None:
        """Count offsets that were read, and offsets that were deleted before. The range ends here."""
        self._tally.numbers.offsets += offsets
        self._tally.numbers.deleted += deleted
        self._tally.numbers.undecided += sum(self._open.values())
        self._open.clear()  # their markers, if there are any, lie between this range and the next

    def finish(self) -> tuple[Tally, Found]:
        """Return what was counted."""
        self._flush()
        return self._tally, self._keys.found()

    def _add_batch(self, batch: BatchView, aborted: AbortedTransactions | None, *, first: int, end: int) -> None:
        batch.ensure_valid()
        numbers = self._tally.numbers
        is_aborted = aborted is not None and aborted.has(batch)
        if batch.is_control:
            numbers.control += batch.record_count
            numbers.control_size += batch.batch_length
            self._end_transaction(batch)
            return
        section = batch.record_section()
        rows = self._builder.append_section(
            section,
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            bool(batch.attributes & LOG_APPEND_TIME_BIT),
            batch.max_timestamp,
            Offset(first),
            Offset(end),
        )
        self._count(MAGIC, batch.compression, batch.record_count, size=batch.batch_length, plain_size=len(section) + HEADER_SIZE)
        if not batch.record_count:
            numbers.emptied += 1
        elif batch.record_count <= batch.last_offset_delta:
            numbers.holed += 1
        if batch.has_producer_id:
            producers = self._tally.transactional if batch.is_transactional else self._tally.idempotent
            if len(producers) < PRODUCERS_MAX:
                producers.add(batch.producer_id)
            if is_aborted:
                numbers.aborted += rows
            elif batch.is_transactional and aborted is not None:
                numbers.committed += rows
            elif batch.is_transactional:
                self._open[batch.producer_id] = self._open.get(batch.producer_id, 0) + rows

    def _end_transaction(self, batch: BatchView) -> None:
        if not batch.record_count:
            return
        numbers, records = self._tally.numbers, self._open.pop(batch.producer_id, 0)
        match control_type(batch):
            case ControlType.COMMIT:
                numbers.commits += 1
                numbers.committed += records
            case ControlType.ABORT:
                numbers.aborts += 1
                numbers.aborted += records
            case _:
                self._open[batch.producer_id] = records

    def _add_message(self, message: MessageView, *, first: int, end: int) -> None:
        message.ensure_valid()
        codec, size = message.compression, message.size
        if not codec:
            _, rows = self._builder.append_messages(message.data, 0, NO_OFFSET, False, 0, Offset(first), Offset(end))
            self._count(message.magic, codec, 1, size=size, plain_size=size)
            return
        inside = message.inner_messages()
        before = self._builder.rows
        is_append_time, offset = bool(message.timestamp_type), message.offset if message.magic else FIRST_OFFSET
        self._builder.append_messages(inside, 0, offset, is_append_time, message.timestamp, Offset(first), Offset(end))
        rows = self._builder.rows - before
        if rows:
            self._count(message.magic, codec, _message_count(inside), size=size, plain_size=len(inside))

    def _count(self, magic: int, codec: CompressionType, records: int, *, size: int, plain_size: int) -> None:
        tally = self._tally
        tally.numbers.batches += 1
        tally.numbers.size += size
        tally.magics[magic] += 1
        tally.codecs.setdefault(codec.name.lower(), Codec()).add(1, records, size, plain_size)
        self._batch_records.append(records)
        self._batch_sizes.append(size)

    def _flush(self) -> None:
        import numpy as np

        tally = self._tally
        tally.batch_records.add_array(np.array(self._batch_records, np.int64))
        tally.batch_sizes.add_array(np.array(self._batch_sizes, np.int64))
        self._batch_records, self._batch_sizes = [], []
        rows, _, times, keys, values, headers = self._builder.take()
        if not rows:
            return
        assert times is not None
        assert keys is not None
        assert values is not None
        assert headers is not None
        numbers = tally.numbers
        numbers.records += rows
        key_sizes, is_key = _sizes(keys, rows)
        value_sizes, is_value = _sizes(values, rows)
        tally.key_sizes.add_array(key_sizes[is_key])
        tally.value_sizes.add_array(value_sizes[is_value])
        numbers.with_key += rows - keys[3]
        numbers.tombstones += values[3]
        numbers.key_size += int(key_sizes.sum())
        numbers.value_size += int(value_sizes.sum())
        sizes = key_sizes + value_sizes + self._headers(headers, rows)
        self._times(np.frombuffer(times[0], np.int64), sizes)
        self._keys.add(_binary(keys, rows).drop_null())
        if self._on_counted is not None:
            self._on_counted(rows)

    def _headers(self, headers: Any, rows: int) -> Any:
        """Count headers, and return the bytes of each record's headers."""
        import numpy as np
        import pyarrow.compute as pc

        ends = np.frombuffer(headers[0], np.int32)
        count = int(ends[-1])
        if not count:
            return np.zeros(rows, np.int64)
        numbers = self._tally.numbers
        summed = np.frombuffer(headers[1][1], np.int32).astype(np.int64) + np.frombuffer(headers[2][1], np.int32)
        sizes = np.diff(summed[ends])
        numbers.headers += count
        numbers.with_headers += int(np.count_nonzero(np.diff(ends)))
        numbers.header_size += int(sizes.sum())
        names = self._tally.header_names
        for one in pc.value_counts(_binary(headers[1], count)).to_pylist():
            if one["values"] in names or len(names) < HEADER_NAMES_MAX:
                names[one["values"]] += one["counts"]
        return sizes

    def _times(self, times: Any, sizes: Any) -> None:
        import numpy as np

        tally, has_time = self._tally, times >= 0
        tally.numbers.timeless += len(times) - int(np.count_nonzero(has_time))
        times, sizes = times[has_time], sizes[has_time]
        if not len(times):
            return
        before = times[0] if tally.greatest_ms is None else tally.greatest_ms
        late = np.maximum(np.maximum.accumulate(times), before) - times
        tally.lateness.add_array(late)
        tally.numbers.late += int(np.count_nonzero(late))
        tally.numbers.future += int(np.count_nonzero(times > self._now_ms))
        tally.series.add_arrays(times, sizes)
        least, greatest = int(times.min()), int(times.max())
        tally.least_ms = least if tally.least_ms is None else min(least, tally.least_ms)
        tally.greatest_ms = greatest if tally.greatest_ms is None else max(greatest, tally.greatest_ms)
        tally.first_ms = int(times[0]) if tally.first_ms is None else tally.first_ms
        tally.last_ms = int(times[-1])


def _message_count(inside: bytes | memoryview) -> int:
    view, position, count = memoryview(inside), 0, 0
    while (size := entry_size(view, position)) is not None:
        position += size
        count += 1
    return count


def _sizes(column: Any, rows: int) -> tuple[Any, Any]:
    """Return the size of each byte string, and whether it is not null."""
    import numpy as np

    validity, ends, _, _ = column
    sizes = np.diff(np.frombuffer(ends, np.int32)).astype(np.int64)
    if validity is None:
        return sizes, np.ones(rows, bool)
    return sizes, np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[:rows].astype(bool)


def _binary(column: Any, rows: int) -> Any:
    """Return a column as an Arrow array."""
    import pyarrow as pa

    validity, ends, data, nulls = column
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)
