"""Data directories for readers: logs that the broker's log layer filled, or files that the test wrote."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pybroker.clock import ManualClock
from pybroker.config.topic import TopicConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.results import AppendOrigin
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.spark.columns import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE
from pybroker.spark.datasource import options as options_of
from pybroker.spark.datasource.filters import Constraints
from pybroker.spark.datasource.plan import SegmentRange, plan_batch
from pybroker.spark.datasource.reading import RangeReader, Rows

TP = TopicPartition("events", 0)
START_MS = 1_700_000_000_000
ALL = OFFSET | TIMESTAMP | KEY | VALUE | HEADERS


class DataDirectory:
    """A log directory. A test opens its logs by name; checkpoints are written as a broker writes them."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.config = TopicConfig(**config)
        self.services = LogServices(clock=ManualClock(START_MS))
        self._directory = LogDirectory(str(path), Filesystem())
        self.logs: dict[TopicPartition, Log] = {}

    def log(self, tp: TopicPartition = TP) -> Log:
        if tp not in self.logs:
            self.logs[tp] = Log.create(tp, TopicId(bytes(range(16))), self.config, self._directory, self.services)
        return self.logs[tp]

    def append(
        self, count: int = 1, *, tp: TopicPartition = TP, size: int = 20, timestamp: int = START_MS, **options: Any
    ) -> list[Record]:
        """Append a batch of records with contents that show their place, and return the records as a reader must see them."""
        log = self.log(tp)
        base = log.log_end_offset
        records = [
            Record(
                base + i,
                timestamp + i,
                b"%s-%d" % (str(tp).encode(), base + i),
                (b"%d." % (base + i) * size)[:size],
                (("h", b"x"),),
            )
            for i in range(count)
        ]
        sent = [record._replace(offset=Offset(i)) for i, record in enumerate(records)]
        self.append_bytes(build_batch(sent, **options), tp=tp)
        return records

    def append_bytes(self, data: bytearray, *, tp: TopicPartition = TP, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        log = self.log(tp)
        log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(0), now_ms=START_MS, origin=origin)

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0, tp: TopicPartition = TP) -> None:
        marker = TransactionMarker(ControlType.COMMIT if commit else ControlType.ABORT, CoordinatorEpoch(0))
        data = build_transaction_marker(
            marker, producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(epoch), timestamp_ms=START_MS
        )
        self.append_bytes(data, tp=tp, origin=AppendOrigin.COORDINATOR)

    def flush(self) -> None:
        """Write the collected index entries to their files."""
        for log in self.logs.values():
            for segment in log.segments:
                segment.offset_index.write()
                segment.time_index.write()

    def checkpoint(self, high_watermarks: dict[TopicPartition, int] | None = None) -> None:
        """Write the checkpoint that a broker writes every few seconds: the ends of the logs, unless watermarks are given."""
        self.flush()
        offsets = {tp: log.log_end_offset for tp, log in self.logs.items()}
        offsets |= {tp: Offset(offset) for tp, offset in (high_watermarks or {}).items()}
        starts = {tp: log.log_start_offset for tp, log in self.logs.items() if log.log_start_offset}
        for name, values in ((checkpoint.REPLICATION_OFFSET_FILE, offsets), (checkpoint.LOG_START_OFFSET_FILE, starts)):
            checkpoint.write_offsets(Filesystem(), f"{self.path}/{name}", values)

    def read(self, constraints: Constraints | None = None, wanted: int = ALL, **options: str) -> list[Record]:
        return list(read_all(plan(self, constraints, **options), wanted, parsed(self, **options)))


def lay_down(path: Path, files: dict[int, bytes], *, tp: TopicPartition = TP, high_watermark: int | None = None) -> Path:
    """Write data files alone, without indexes, by their base offsets."""
    folder = path / str(tp)
    folder.mkdir(parents=True, exist_ok=True)
    for base_offset, data in files.items():
        (folder / f"{base_offset:020d}.log").write_bytes(data)
    if high_watermark is not None:
        checkpoint.write_offsets(Filesystem(), f"{path}/{checkpoint.REPLICATION_OFFSET_FILE}", {tp: Offset(high_watermark)})
    return folder


def parsed(directory: DataDirectory | Path, **options: str) -> options_of.Options:
    path = directory.path if isinstance(directory, DataDirectory) else directory
    return options_of.parse({"path": str(path), **options})


def plan(directory: DataDirectory | Path, constraints: Constraints | None = None, **options: str) -> list[SegmentRange]:
    return plan_batch(parsed(directory, **options), constraints or Constraints())


def read_all(ranges: Iterable[SegmentRange], wanted: int, options: options_of.Options, **limits: int) -> Iterable[Record]:
    for one in ranges:
        for rows in RangeReader(wanted, options, **limits).read(one):
            yield from records_of(rows, wanted)


def records_of(rows: Rows, wanted: int = ALL) -> list[Record]:
    """Return the rows; columns that were not wanted are 0 or None."""
    count, offsets, timestamps, keys, values, headers = rows.columns
    assert count == sum(run.rows for run in rows.runs)
    nothing = [None] * count
    return [
        Record(Offset(offset), timestamp, key, value, header)
        for offset, timestamp, key, value, header in zip(
            numbers(offsets, "q") if wanted & OFFSET else [0] * count,
            numbers(timestamps[0], "q") if wanted & TIMESTAMP else [0] * count,
            strings(keys) if wanted & KEY else nothing,
            strings(values) if wanted & VALUE else nothing,
            _headers(headers) if wanted & HEADERS else [()] * count,
            strict=True,
        )
    ]


def numbers(buffer: Any, layout: str) -> list[int]:
    return memoryview(buffer).cast("B").cast(layout).tolist()  # type: ignore[call-overload]  # the layout is a variable


def strings(column: Any) -> list[bytes | None]:
    validity, ends, data, _ = column
    bits, data = b"" if validity is None else bytes(validity), bytes(data)
    return [
        data[a:b] if not bits or bits[i >> 3] >> (i & 7) & 1 else None
        for i, (a, b) in enumerate(itertools.pairwise(numbers(ends, "i")))
    ]


def _headers(column: Any) -> list[tuple[tuple[str, bytes | None], ...]]:
    pairs = [((key or b"").decode(), value) for key, value in zip(strings(column[1]), strings(column[2]), strict=True)]
    return [tuple(pairs[a:b]) for a, b in itertools.pairwise(numbers(column[0], "i"))]
