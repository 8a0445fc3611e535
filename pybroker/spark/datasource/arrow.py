"""The columns of the table, and Arrow arrays of exactly the types in Spark's schema, made from the rows without copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pybroker.records.batch import SEQUENCE_MAX
from pybroker.spark.columns import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pybroker.model import TopicPartition
    from pybroker.spark.datasource.reading import Rows, Run

MICROS_MAX_MS: Final = ((1 << 63) - 1) // 1000


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its Spark types (the first is the default), and the parts of a record that it needs."""

    name: str
    types: tuple[str, ...]
    wanted: int = 0
    is_default: bool = True


HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
COLUMNS: Final = (
    Column("topic", ("string",)),
    Column("partition", ("int",)),
    Column("offset", ("bigint",), OFFSET),
    Column("timestamp", ("timestamp",), TIMESTAMP),
    Column("timestamp_type", ("int",)),
    Column("key", ("binary", "string"), KEY),
    Column("value", ("binary", "string"), VALUE),
    Column("headers", (HEADERS_TYPE,), HEADERS),
    Column("timestamp_ms", ("bigint",), TIMESTAMP, is_default=False),
    Column("codec", ("string",), is_default=False),
    Column("magic", ("int",), is_default=False),
    Column("base_offset", ("bigint",), is_default=False),
    Column("leader_epoch", ("int",), is_default=False),
    Column("producer_id", ("bigint",), is_default=False),
    Column("producer_epoch", ("int",), is_default=False),
    Column("sequence", ("int",), OFFSET, is_default=False),
    Column("is_transactional", ("boolean",), is_default=False),
)
BY_NAME: Final = {column.name: column for column in COLUMNS}


def schema_text(names: Sequence[str] | None) -> str:
    """Return the schema of these columns, or of the default columns, as Spark's DDL. Raises PipelineError."""
    if names is None:
        names = [column.name for column in COLUMNS if column.is_default]
    check((name, None) for name in names)
    return ", ".join(f"`{name}` {BY_NAME[name].types[0]}" for name in names)


def check(fields: Any) -> int:
    """Return which parts of the records the columns need. `fields` are pairs of a name and a Spark type, or None for any type.

    Raises PipelineError for an unknown column or a wrong type.
    """
    wanted, count = 0, 0
    for name, spark_type in fields:
        column = BY_NAME.get(name)
        if column is None:
            raise PipelineError(f"there is no column {name}; the columns are {', '.join(BY_NAME)}")
        if spark_type is not None and spark_type not in column.types:
            raise PipelineError(f"the column {name} is of type {' or '.join(column.types)}, not {spark_type}")
        wanted |= column.wanted
        count += 1
    if not count:
        raise PipelineError("no columns are requested")
    return wanted


def record_batch(rows: Rows, tp: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """Make an Arrow record batch of the rows. The batch owns their buffers from then on."""
    import pyarrow as pa

    maker = _Maker(rows, tp)
    return pa.RecordBatch.from_arrays([maker.array(field) for field in schema], schema=schema)


def within(batch: pa.RecordBatch, rows: Rows, *, first_ms: int | None, end_ms: int | None) -> pa.RecordBatch:
    """Return only the rows with these times, or the batch itself if that is all of them."""
    if first_ms is None and end_ms is None:
        return batch
    import pyarrow as pa
    import pyarrow.compute as pc

    count, _, (buffer, least, greatest), *_ = rows.columns
    first_ms, end_ms = 0 if first_ms is None else first_ms, MICROS_MAX_MS if end_ms is None else end_ms
    if least >= first_ms and greatest < end_ms:
        return batch
    times = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(buffer)])
    return batch.filter(pc.and_(pc.greater_equal(times, first_ms), pc.less(times, end_ms)))


class _Maker:
    def __init__(self, rows: Rows, tp: TopicPartition) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._pa: Any = pa
        self._pc: Any = pc
        self._tp = tp
        self._runs = rows.runs
        self._rows, self._offsets, self._timestamps, self._keys, self._values, self._headers = rows.columns

    def array(self, field: pa.Field) -> pa.Array:
        """Make the column of this name and type."""
        match field.name:
            case "topic" | "partition":
                return self._pa.repeat(self._pa.scalar(getattr(self._tp, field.name), field.type), self._rows)
            case "offset":
                return self._numbers(field.type, self._offsets)
            case "timestamp":
                return self._times(field.type)
            case "timestamp_ms":
                return self._numbers(field.type, self._timestamps[0])
            case "key":
                return self._strings(field.type, self._keys)
            case "value":
                return self._strings(field.type, self._values)
            case "headers":
                return self._header_lists(field.type)
            case "sequence":
                return self._sequences(field.type)
        return self._of_runs(field.type, _OF_RUN[field.name])

    def _numbers(self, kind: Any, buffer: Any) -> Any:
        return self._pa.Array.from_buffers(kind, self._rows, [None, self._pa.py_buffer(buffer)])

    def _times(self, kind: Any) -> Any:
        """Make microseconds; null where a record has no timestamp, or a timestamp beyond Spark's range."""
        buffer, least, greatest = self._timestamps
        ms = self._numbers(self._pa.int64(), buffer)
        if least < 0 or greatest > MICROS_MAX_MS:
            is_in_range = self._pc.and_(self._pc.greater_equal(ms, -MICROS_MAX_MS), self._pc.less_equal(ms, MICROS_MAX_MS))
            ms = self._pc.if_else(self._pc.and_(is_in_range, self._pc.not_equal(ms, -1)), ms, None)
        return self._pc.multiply(ms, 1000).cast(kind)

    def _strings(self, kind: Any, column: Any, count: int | None = None) -> Any:
        validity, ends, data, nulls = column
        buffers = [None if validity is None else self._pa.py_buffer(validity), self._pa.py_buffer(ends), self._pa.py_buffer(data)]
        return self._pa.Array.from_buffers(kind, self._rows if count is None else count, buffers, nulls)

    def _header_lists(self, kind: Any) -> Any:
        ends, keys, values = self._headers
        count = memoryview(ends).cast("B").cast("i")[-1]
        struct_type = kind.value_type
        children = [self._strings(struct_type.field(i).type, column, count) for i, column in enumerate((keys, values))]
        structs = self._pa.Array.from_buffers(struct_type, count, [None], children=children)
        return self._pa.Array.from_buffers(kind, self._rows, [None, self._pa.py_buffer(ends)], children=[structs])

    def _of_runs(self, kind: Any, value: Callable[[Run], Any]) -> Any:
        ends, end = [], 0
        for run in self._runs:
            end += run.rows
            ends.append(end)
        values = self._pa.array([value(run) for run in self._runs], kind)
        return self._pc.run_end_decode(self._pa.RunEndEncodedArray.from_arrays(self._pa.array(ends, self._pa.int32()), values))

    def _sequences(self, kind: Any) -> Any:
        """Make sequences: the sequence of the first record plus the distance from it. After 2**31 - 1 follows 0."""
        first = self._of_runs(
            self._pa.int64(), lambda run: None if run.base_sequence < 0 else run.base_sequence - run.base_offset
        )
        sum_ = self._pc.add(first, self._numbers(self._pa.int64(), self._offsets))
        return self._pc.bit_wise_and(sum_, SEQUENCE_MAX).cast(kind)


def _unless_negative(value: int) -> int | None:
    return None if value < 0 else value


_OF_RUN: Final[dict[str, Callable[[Run], Any]]] = {
    "timestamp_type": lambda run: run.timestamp_type,
    "codec": lambda run: run.codec,
    "magic": lambda run: run.magic,
    "base_offset": lambda run: _unless_negative(run.base_offset),
    "leader_epoch": lambda run: _unless_negative(run.leader_epoch),
    "producer_id": lambda run: _unless_negative(run.producer_id),
    "producer_epoch": lambda run: _unless_negative(run.producer_epoch) if run.producer_id >= 0 else None,
    "is_transactional": lambda run: run.is_transactional,
}
