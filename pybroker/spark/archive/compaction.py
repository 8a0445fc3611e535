"""Joins an archive's small files: the same records in fewer files, in one commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.spark.archive.files import ArchivedFile, examine, joined
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    from pybroker.spark.archive.manifest import Archive

_ZSTD_LEVEL: Final = 3  # the level that Spark uses
_GROUP_BYTES: Final = 64 << 20
"""The size of a row group, uncompressed."""
_READ_BYTES: Final = 8 << 20
_ROWS_MAX: Final = 1 << 16


def small_files(archive: Archive, file_bytes: int) -> list[ArchivedFile]:
    """Return the files that `compact` would join: small neighbours of the same partition and day."""
    return [file for run in runs(archive.contents.files.values(), file_bytes) for file in run]


def runs(files: Iterable[ArchivedFile], file_bytes: int) -> list[list[ArchivedFile]]:
    """Return which files to join into a file each.

    They are neighbours of a partition and day. Each has at most half of `file_bytes`, and together they do not exceed it.
    """
    grouped: dict[tuple[str, str, int], list[ArchivedFile]] = defaultdict(list)
    for file in files:
        grouped[file.topic, file.date, file.partition].append(file)
    found: list[list[ArchivedFile]] = []
    for group in grouped.values():
        run: list[ArchivedFile] = []
        for file in sorted(group, key=lambda file: file.first):
            if file.size > file_bytes // 2 or sum(other.size for other in run) + file.size > file_bytes:
                found.append(run)
                run = []
            if file.size <= file_bytes // 2:
                run.append(file)
        found.append(run)
    return [run for run in found if len(run) > 1]


def compact(spark: SparkSession, archive: Archive, file_bytes: int) -> int:
    """Join small files, each run in a task. Return by how many files the archive shrinks.

    Raises PipelineError when records would change.
    """
    chosen = runs(archive.contents.files.values(), file_bytes)
    if not chosen:
        return 0
    staging = archive.new_staging()
    targets = [staging / Path(run[0].path).parent / f"joined-{number}.parquet" for number, run in enumerate(chosen)]
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    rows = [(str(target), [str(archive.root / file.path) for file in run]) for target, run in zip(targets, chosen, strict=True)]
    table = spark.createDataFrame(rows, "target string, paths array<string>").repartition(len(rows))
    table.mapInArrow(_join_all, "target string").collect()
    made = examine(spark, targets, staging)
    _check(chosen, made)
    archive.commit(staging, made, removed=[file.path for run in chosen for file in run])
    return sum(map(len, chosen)) - len(made)


def _join_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        for row in batch.to_pylist():
            join(row["target"], row["paths"])
            yield pa.RecordBatch.from_pydict({"target": [row["target"]]})


def join(target: str, paths: Sequence[str]) -> None:
    """Write the rows of some files, in this order, to another file. The memory is bounded by a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(paths[0]) as file:
        schema = file.schema_arrow.remove_metadata()
    with pq.ParquetWriter(target, schema, compression="zstd", compression_level=_ZSTD_LEVEL) as writer:
        waiting: list[pa.RecordBatch] = []
        size = 0
        for path in paths:
            with pq.ParquetFile(path) as file:
                for rows in file.iter_batches(_rows_of(file.metadata)):
                    waiting.append(rows.cast(schema))
                    size += rows.nbytes
                    if size >= _GROUP_BYTES:
                        writer.write_table(pa.Table.from_batches(waiting))
                        waiting, size = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))


def _rows_of(metadata: pq.FileMetaData) -> int:
    """Return how many rows to read at a time."""
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return int(max(1, min(_ROWS_MAX, _READ_BYTES * metadata.num_rows // max(1, size))))


def _check(chosen: list[list[ArchivedFile]], made: list[ArchivedFile]) -> None:
    """Check that the joined files hold exactly what the chosen files hold, partition by partition. Raises PipelineError."""

    def totals(files: list[ArchivedFile]) -> dict[tuple[str, str, int], tuple[int, str]]:
        grouped = defaultdict(list)
        for file in files:
            grouped[file.topic, file.date, file.partition].append(file)
        return {
            key: (sum(file.count for file in group), joined(file.checksum for file in group)) for key, group in grouped.items()
        }

    if totals([file for run in chosen for file in run]) != totals(made):
        raise PipelineError("the joined files do not hold the same records as the files they replace; nothing was changed")
