"""Joining an archive's small files: the same records, fewer files, in one commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybroker.pipeline.archive.files import ArchivedFile, examine, joined, path_of, read
from pybroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pybroker.pipeline.archive.manifest import Archive


def small_files(archive: Archive, file_bytes: int) -> list[ArchivedFile]:
    """The files that are to be joined: those of a partition and day that has two or more that are small."""
    return [file for run in runs(archive.contents.files.values(), file_bytes) for file in run]


def runs(files: Iterable[ArchivedFile], file_bytes: int) -> list[list[ArchivedFile]]:
    """Which files become one: neighbours of a partition and day, each at most half of the size wanted, together not beyond it."""
    grouped: dict[tuple[str, str, int], list[ArchivedFile]] = defaultdict(list)
    for file in files:
        grouped[file.topic, file.date, file.partition].append(file)
    found: list[list[ArchivedFile]] = []
    for mine in grouped.values():
        run: list[ArchivedFile] = []
        for file in sorted(mine, key=lambda file: file.first):
            if file.size > file_bytes // 2 or sum(other.size for other in run) + file.size > file_bytes:
                found.append(run)
                run = []
            if file.size <= file_bytes // 2:
                run.append(file)
        found.append(run)
    return [run for run in found if len(run) > 1]


def compact(spark: SparkSession, archive: Archive, file_bytes: int) -> int:
    """Join small files. Returns how many there are less. Raises PipelineError when the records would not be the same."""
    chosen = runs(archive.contents.files.values(), file_bytes)
    if not chosen:
        return 0
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    number_of = {file.path: number for number, run in enumerate(chosen) for file in run}
    paths = [archive.root / path for path in number_of]
    staging = archive.new_staging()
    rows = read(spark, paths, archive.root).withColumn("_file", f.input_file_name())
    uris = {row["_file"] for row in rows.select("_file").distinct().collect()}
    table = [(uri, number_of[str(path_of(uri).relative_to(archive.root))]) for uri in uris]
    numbers = f.broadcast(spark.createDataFrame(table, "_file string, run int"))
    (
        rows.join(numbers, "_file")
        .drop("_file")
        .repartition(len(chosen), "run")
        .sortWithinPartitions("topic", "date", "run", "offset")
        .write.partitionBy("topic", "date", "run")
        .parquet(str(staging))
    )
    made = examine(spark, sorted(staging.glob("topic=*/date=*/run=*/*.parquet")), staging)
    _check(chosen, made)
    archive.commit(staging, made, removed=list(number_of))
    return len(number_of) - len(made)


def _check(chosen: list[list[ArchivedFile]], made: list[ArchivedFile]) -> None:
    """What was made holds exactly what was chosen, partition by partition."""

    def totals(files: list[ArchivedFile]) -> dict[tuple[str, str, int], tuple[int, str]]:
        grouped = defaultdict(list)
        for file in files:
            grouped[file.topic, file.date, file.partition].append(file)
        return {key: (sum(file.count for file in mine), joined(file.checksum for file in mine)) for key, mine in grouped.items()}

    if totals([file for run in chosen for file in run]) != totals(made):
        raise PipelineError("joined files do not hold the same records as those they were made of; nothing was changed")
