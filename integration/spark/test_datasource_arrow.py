"""Rows become Arrow record batches of exactly Spark's types. The session parses schemas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.spark.datasource import arrow
from pybroker.spark.datasource.plan import plan_batch
from pybroker.spark.datasource.reading import RangeReader
from testing.scenes.data_directories import START_MS, DataDirectory, lay_down, parsed, plan

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

FIELDS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=3), FIELDS), max_size=3).map(tuple)
TIMES = st.sampled_from([-(1 << 63), -1, -2, 0, START_MS, arrow.MICROS_MAX_MS, (1 << 63) - 1]) | st.integers(0, 2 * START_MS)
RECORDS = st.lists(st.tuples(TIMES, FIELDS, FIELDS, HEADERS), min_size=1, max_size=20)


def batches(path: Any, ddl: str | None = None, **options: str) -> list[Any]:
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 (not every run of the tests comes here)
    from pyspark.sql.types import StructType  # noqa: PLC0415

    fields = StructType.fromDDL(ddl or arrow.schema_text(None))
    schema, chosen = to_arrow_schema(fields, timezone="UTC"), parsed(path, **options)
    wanted = arrow.check((field.name, field.dataType.simpleString()) for field in fields)
    found = []
    for one in plan_batch(chosen):
        for rows in RangeReader(wanted, chosen).read(one):
            batch = arrow.record_batch(rows, one.tp, schema)
            batch.validate(full=True)
            assert batch.schema == schema
            found.append(batch)
    return found


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=RECORDS)
def test_rows_are_the_records(tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]) -> None:
    base = drawn[0][0]
    drawn = [one for one in drawn if -(1 << 63) <= one[0] - base < 1 << 63]
    records = [Record(Offset(5 + i), timestamp, key, value, headers) for i, (timestamp, key, value, headers) in enumerate(drawn)]
    path = tmp_path_factory.mktemp("log")
    lay_down(path, {5: bytes(build_batch(records))}, high_watermark=5 + len(records))
    (batch,) = batches(path, arrow.schema_text([column.name for column in arrow.COLUMNS if column.name != "timestamp"]))
    for row, record in zip(batch.to_pylist(), records, strict=True):
        assert (row["topic"], row["partition"], row["offset"], row["timestamp_ms"]) == (
            "events",
            0,
            record.offset,
            record.timestamp,
        )
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert [(one["key"], one["value"]) for one in row["headers"]] == list(record.headers)
    (micros,) = batches(path, "timestamp timestamp")
    times = micros.column(0).cast("int64").to_pylist()
    assert times == [
        None if one.timestamp == -1 or abs(one.timestamp) > arrow.MICROS_MAX_MS else one.timestamp * 1000 for one in records
    ]


def test_the_default_columns_are_those_of_the_records(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.append(2)
    data.checkpoint()
    (batch,) = batches(data)
    assert batch.to_pylist()[1] == {
        "topic": "events",
        "partition": 0,
        "offset": 1,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=START_MS + 1),
        "timestamp_type": 0,
        "key": b"events-0-1",
        "value": (b"1." * 20)[:20],
        "headers": [{"key": "h", "value": b"x"}],
    }


def test_times_of_the_options_are_kept_to_the_millisecond(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.append(10)
    data.checkpoint()
    chosen = parsed(data)
    (one,) = plan(data)
    (rows,) = RangeReader(3, chosen).read(one)
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    batch = arrow.record_batch(rows, one.tp, to_arrow_schema(StructType.fromDDL("offset bigint"), timezone="UTC"))
    assert arrow.within(batch, rows, first_ms=START_MS + 3, end_ms=START_MS + 6).column(0).to_pylist() == [3, 4, 5]
    assert arrow.within(batch, rows, first_ms=None, end_ms=START_MS + 2).column(0).to_pylist() == [0, 1]
    assert arrow.within(batch, rows, first_ms=START_MS, end_ms=START_MS + 10) is batch
    assert arrow.within(batch, rows, first_ms=None, end_ms=None) is batch
