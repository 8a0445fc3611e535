"""The files of an archive: their columns, and what the manifest says of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, codec string"
)
"""What a file holds; `topic` and `date` (of the timestamp, UTC) are in its path. The codec of the batch is null where it is not
known: Spark's connector does not tell."""
SCHEMA: Final = f"{COLUMNS}, topic string, date date"
NAMES: Final = tuple(re.findall(r"(\w+) (?:int|bigint|timestamp|binary|array<|string|date)", re.sub(r"<[^>]*>+", "<", SCHEMA)))
CHECKSUM: Final = (
    "lower(hex(bit_xor(xxhash64(topic, partition, offset, unix_micros(timestamp), timestampType, key, value, headers))))"
)
"""Of any set of records, in any order; sets are joined by joining theirs with exclusive or."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One Parquet file: records of one partition and one day."""

    path: str
    """From the archive's folder."""
    topic: str
    date: str
    partition: int
    first: int
    last: int
    count: int
    checksum: str
    """16 hexadecimal digits, see CHECKSUM."""
    size: int
    first_ms: int
    """The least and the greatest timestamp."""
    last_ms: int

    def to_json(self) -> dict[str, Any]:
        """As it stands in the manifest."""
        return asdict(self)

    def same_records(self, other: ArchivedFile) -> bool:
        """Whether two files hold the same, wherever they lie."""
        return _content(self) == _content(other)


def _content(file: ArchivedFile) -> tuple[object, ...]:
    return file.topic, file.date, file.partition, file.first, file.last, file.count, file.checksum


def name_of(file: ArchivedFile, commit: int) -> str:
    """The path of a file that a commit adds."""
    return f"topic={file.topic}/date={file.date}/p{file.partition:05}-{file.first:020}-{file.last:020}-c{commit:08}.parquet"


def joined(checksums: Iterable[str]) -> str:
    """The checksum of several sets of records."""
    total = 0
    for checksum in checksums:
        total ^= int(checksum, 16)
    return f"{total:016x}"


def examine(spark: SparkSession, paths: Iterable[Path], base: Path) -> list[ArchivedFile]:
    """Read files to the last byte and say what is in each; `path` is from `base`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

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
    """The records of these files, in the columns of SCHEMA."""
    return spark.read.schema(SCHEMA).option("basePath", str(base)).parquet(*[str(path) for path in paths])


def path_of(uri: str) -> Path:
    """The path that Spark's input_file_name means."""
    return Path(unquote(urlsplit(uri).path))
