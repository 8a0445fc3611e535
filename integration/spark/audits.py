"""Running the audit's command in the process of the tests, and reading its table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import spark_audit
from pybroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS: Final = 1_790_000_040_000
BUCKET_MS: Final = 60_000


def invoke(spark: SparkSession, *arguments: str) -> Result:
    """The command in this process, on the session of the tests."""

    @contextlib.contextmanager
    def job(*_: object) -> Iterator[SparkSession]:
        try:
            yield spark
        except PipelineError as error:
            raise spark_audit.click.ClickException(str(error)) from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_audit, "job", job)
        return CliRunner().invoke(spark_audit.command, list(arguments))


def rows(path: Path) -> dict[tuple[str | None, str, int], dict[str, Any]]:
    """The table by producer, tier and number of the bucket."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    found = {}
    for row in pq.read_table(path / "counts").to_pylist():
        bucket = (int(row["bucket"].timestamp() * 1000) - START_MS) // BUCKET_MS
        key = row["producer"], row["tier"], bucket
        assert key not in found
        found[key] = row
    return found


def numbers(row: dict[str, Any], *names: str) -> tuple[int, ...]:
    return tuple(row[name] for name in names)


def spans(row: dict[str, Any], name: str) -> list[tuple[int, int]]:
    return [(one["first"], one["last"]) for one in row[name]]
