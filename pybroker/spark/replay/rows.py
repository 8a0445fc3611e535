"""Reads the records of an archived partition from its files, in the order of their offsets, without a shuffle."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pybroker.model import Offset

_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_BATCH: Final = 4096


class Row(NamedTuple):
    """A record. Rows are ordered by their offsets, each of which occurs once in a partition."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Selection:
    """The bounds of offset and time that choose records, each from the first to before the second; None is no bound."""

    from_offset: Offset | None = None
    to_offset: Offset | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, offset: Offset, *, timestamp_ms: int) -> bool:
        """Return whether a record is chosen."""
        return (
            (self.from_offset is None or offset >= self.from_offset)
            and (self.to_offset is None or offset < self.to_offset)
            and (self.from_ms is None or timestamp_ms >= self.from_ms)
            and (self.to_ms is None or timestamp_ms < self.to_ms)
        )

    def may_have(self, first: Offset, *, last: Offset, first_ms: int, last_ms: int) -> bool:
        """Return whether a file with these inclusive bounds can hold a chosen record."""
        return (
            (self.from_offset is None or last >= self.from_offset)
            and (self.to_offset is None or first < self.to_offset)
            and (self.from_ms is None or last_ms >= self.from_ms)
            and (self.to_ms is None or first_ms < self.to_ms)
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of a partition, and its first offset."""

    path: str
    first: Offset


def rows(partition: int, pieces: Sequence[Piece], selection: Selection) -> Iterator[Row]:
    """Yield the chosen records in order.

    Files may overlap, as those of two days do when records are late. Each file is opened when its first offset is reached.
    """
    waiting = sorted(pieces, key=lambda piece: piece.first, reverse=True)
    heap: list[tuple[Row, int, Iterator[Row]]] = []
    number = 0
    while heap or waiting:
        while waiting and (not heap or waiting[-1].first <= heap[0][0].offset):
            source = _file_rows(Path(waiting.pop().path), partition)
            first = next(source, None)
            if first is not None:
                number += 1
                heapq.heappush(heap, (first, number, source))
        if not heap:
            continue
        row, file_number, source = heap[0]
        if selection.has(row.offset, timestamp_ms=row.timestamp_ms):
            yield row
        following = next(source, None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following, file_number, source))


def _file_rows(path: Path, partition: int) -> Iterator[Row]:
    """Yield the records of a file by offset. Raises PipelineError when it is not a file of an archive."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in _COLUMNS if name not in file.schema_arrow.names]
            if missing:
                raise PipelineError(f"{path} is not a file of an archive: it lacks {', '.join(missing)}")
            last = -1
            for batch in file.iter_batches(_BATCH, columns=list(_COLUMNS)):
                offsets = batch.column("offset")
                if not _is_ascending(offsets.to_pylist(), last):
                    yield from _sorted_rows(path, partition)
                    return
                last = offsets[-1].as_py()
                yield from _batch_rows(batch, path, partition)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise PipelineError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _is_ascending(offsets: list[int], last: int) -> bool:
    return all(before < after for before, after in zip([last, *offsets], offsets, strict=False))


def _sorted_rows(path: Path, partition: int) -> Iterator[Row]:
    import pyarrow.parquet as pq

    for batch in pq.read_table(path, columns=list(_COLUMNS), partitioning=None).sort_by("offset").to_batches(_BATCH):
        yield from _batch_rows(batch, path, partition)


def _batch_rows(batch: Any, path: Path, partition: int) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.equal(batch.column("partition"), partition)).as_py():
        raise PipelineError(f"{path} holds records of another partition than {partition}")
    micros = batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    headers = batch.column("headers").to_pylist()
    values = zip(
        batch.column("offset").to_pylist(),
        micros,
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        headers,
        strict=True,
    )
    for offset, micro, key, value, row_headers in values:
        yield Row(
            offset, micro // 1000, key, value, [(header["key"], header["value"]) for header in row_headers] if row_headers else ()
        )
