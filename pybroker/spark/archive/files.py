"""The files of an archive: their columns, and what the manifest has about each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pybroker.model import Offset

COLUMNS: Final = (
    "partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, codec string"
)
"""The columns of a file; `topic` and `date` (of the timestamp, in UTC) are in its path. The codec of the batch is null, because
Spark's connector does not report it."""
SCHEMA: Final = f"{COLUMNS}, topic string, date date"
NAMES: Final = tuple(re.findall(r"(\w+) (?:int|bigint|timestamp|binary|array<|string|date)", re.sub(r"<[^>]*>+", "<", SCHEMA)))
CHECKSUM: Final = (
    "lower(hex(bit_xor(xxhash64(topic, partition, offset, unix_micros(timestamp), timestampType, key, value, headers))))"
)
"""The checksum of any set of records, in any order. The checksum of several sets is the exclusive or of their checksums."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A Parquet file, which has the records of one partition and one day."""

    path: str
    """The path relative to the archive's folder."""
    topic: str
    date: str
    partition: int
    first: Offset
    last: Offset
    count: int
    checksum: str
    """The value of CHECKSUM: 16 hexadecimal digits."""
    size: int
    first_ms: int
    """The least timestamp."""
    last_ms: int
    """The greatest timestamp."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that the manifest has."""
        return asdict(self)

    def same_records(self, other: ArchivedFile) -> bool:
        """Return whether two files hold the same records, whatever their paths."""
        return _content(self) == _content(other)


def _content(file: ArchivedFile) -> tuple[object, ...]:
    return file.topic, file.date, file.partition, file.first, file.last, file.count, file.checksum


def name_of(file: ArchivedFile, commit: int) -> str:
    """Return the path of a file that a commit adds."""
    return f"topic={file.topic}/date={file.date}/p{file.partition:05}-{file.first:020}-{file.last:020}-c{commit:08}.parquet"


def joined(checksums: Iterable[str]) -> str:
    """Return the checksum of several sets of records."""
    total = 0
    for checksum in checksums:
        total ^= int(checksum, 16)
    return f"{total:016x}"


def examine(spark: SparkSession, paths: Iterable[Path], base: Path) -> list[ArchivedFile]:
    """Read files to the last byte and return what is in each; their `path` is relative to `base`."""
    from pyspark.sql import functions as f

    rows = (
        read(spark, paths, base)
        .withColumn("file", f.input_file_name())
        .groupBy("file", "topic", "date", "partition")
        .agg(
            f.expr("min(offset) first"),
            f.expr("max(offset) last"),
            f.expr("count(*) count"),
            f.expr(f"{CHECKSUM} checksum"),
            f.expr("min(unix_millis(timestamp)) first_ms"),
            f.expr("max(unix_millis(timestamp)) last_ms"),
        )
        .collect()
    )
    found = []
    for row in rows:
        path = path_of(row.file)
        found.append(
            ArchivedFile(
                path=str(path.relative_to(base)),
                topic=row.topic,
                date=row.date.isoformat(),
                partition=row.partition,
                first=row["first"],
                last=row["last"],
                count=row["count"],
                checksum=row.checksum.rjust(16, "0"),
                size=path.stat().st_size,
                first_ms=row.first_ms,
                last_ms=row.last_ms,
            )
        )
    return sorted(found, key=lambda file: (file.topic, file.partition, file.first))


def read(spark: SparkSession, paths: Iterable[Path], base: Path) -> DataFrame:
    """Return the records of these files, in the columns of SCHEMA."""
    return spark.read.schema(SCHEMA).option("basePath", str(base)).parquet(*[str(path) for path in paths])


def path_of(uri: str) -> Path:
    """Return the path that Spark's input_file_name means."""
    return Path(unquote(urlsplit(uri).path))
