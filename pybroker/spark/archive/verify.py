"""Checks that the files of an archive hold the records that its manifest names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.spark.archive.files import examine
from pybroker.spark.archive.manifest import Archive
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import explained

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The files that were read and matched the manifest."""

    records: int
    files: int


def verify(spark: SparkSession, path: Path) -> VerifyResult:
    """Read every file and compare counts, offsets and checksums. Raises PipelineError at the first difference."""
    archive = Archive.read(path)
    expected = list(archive.contents.files.values())
    if not expected:
        return VerifyResult(0, 0)
    with explained():
        found = {file.path: file for file in examine(spark, [archive.root / file.path for file in expected], archive.root)}
    for file in expected:
        if file.path not in found or not file.same_records(found[file.path]):
            raise PipelineError(f"{archive.root / file.path} does not hold the records that the manifest names")
    return VerifyResult(sum(file.count for file in expected), len(expected))
