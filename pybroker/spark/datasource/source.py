"""The classes that Spark calls: `PybrokerDataSource`, its batch reader and its stream reader. Importing this needs PySpark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition, Not
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pybroker.spark.columns import TIMESTAMP
from pybroker.spark.datasource import arrow
from pybroker.spark.datasource.filters import Constraints
from pybroker.spark.datasource.options import Options, parse
from pybroker.spark.datasource.plan import plan_batch
from pybroker.spark.datasource.reading import RangeReader
from pybroker.spark.datasource.stream import StreamPlanner
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from pybroker.spark.datasource.plan import SegmentRange

FORMAT = "pybroker"
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def _one_line() -> Iterator[None]:
    """Make Spark, which runs this in processes of its own, report a user's error in one line without a traceback."""
    try:
        yield
    except PipelineError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
    except BaseException:
        os.environ.pop(_HIDE_TRACEBACK, None)  # set by an earlier error in the same process
        raise


class PybrokerDataSource(DataSource):
    """The format of `spark.read.format("pybroker").load(DIRECTORY)`. Module `options` has its options, `arrow` its columns."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a reader without a schema."""
        with _one_line():
            return arrow.schema_text(parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of `spark.read`."""
        with _one_line():
            options = parse(self.options)
            return (PushingReader if options.is_pushing else PybrokerReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (PySpark's name)
        """Make the reader of a stream."""
        with _one_line():
            return PybrokerStreamReader(parse(self.options), schema)


class _Table:
    """The rows of ranges in the columns of a schema. It is all that a task needs, and Spark pickles it to the tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.wanted = arrow.check((field.name, field.dataType.simpleString()) for field in schema.fields)
        self.times = (options.first_timestamp, options.end_timestamp)
        if any(time is not None for time in self.times):
            self.wanted |= TIMESTAMP

    def rows(self, one: SegmentRange | None) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches. Without a range there are none: Spark runs a task even if there is nothing to read."""
        if one is None:
            return
        schema = to_arrow_schema(self.schema, timezone="UTC")
        first_ms, end_ms = self.times
        with _one_line():
            for rows in RangeReader(self.wanted, self.options).read(one):
                yield arrow.within(arrow.record_batch(rows, one.tp, schema), rows, first_ms=first_ms, end_ms=end_ms)


class PybrokerReader(DataSourceReader):
    """A batch read: it reads the log as it is when Spark plans the query."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._table = _Table(options, schema)
        self._constraints = Constraints()

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each range of a segment."""
        with _one_line():
            return [InputPartition(one) for one in plan_batch(self._table.options, self._constraints)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        return self._table.rows(partition.value)


class PushingReader(PybrokerReader):
    """A batch read that takes the query's filters. Spark refuses a reader with this method where pushdown is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take the filters that names and indexes can decide, and yield those that Spark still has to apply."""
        for one in filters:
            inner: Any = one.child if isinstance(one, Not) else one
            kind = ("Not" if isinstance(one, Not) else "") + type(inner).__name__
            value = getattr(inner, "value", None)
            if len(inner.attribute) != 1 or not self._constraints.push(inner.attribute[0], kind, value):
                yield one


class PybrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Its offsets have the form of the Kafka connector's: {"topic": {"0": next offset}}."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._table = _Table(options, schema)
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planner": None}  # tasks do not plan

    @property
    def _plans(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(self._table.options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts."""
        with _one_line():
            return self._plans.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that `maxOffsetsPerTrigger` sets."""
        limit = self._table.options.offsets_per_trigger_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends."""
        with _one_line():
            return self._plans.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the present ends only."""
        with _one_line():
            self._plans.freeze()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the present ends, for the query's progress."""
        with _one_line():
            return self._plans.ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a partition for each range of a segment."""
        with _one_line():
            return [InputPartition(one) for one in self._plans.plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        return self._table.rows(partition.value)
