"""A partition is copied up to the end that was asked for, even if there is nothing left before that end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest

from pybroker.model import FIRST_OFFSET, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror import partition as module
from pybroker.spark.mirror.offset_map import Arrived, OffsetMap
from pybroker.spark.mirror.outgoing import Producer
from pybroker.spark.mirror.partition import Copied, Part, mirror_partition
from pybroker.spark.wire.client import COMMITTED, EARLIEST, Fetched, Topic


class Log:
    """A partition of either cluster, and its client."""

    def __init__(self, batches: dict[int, bytearray] | None = None, *, last_stable_offset: int = 0) -> None:
        self.bootstrap = "b:1"
        self.batches = batches or {}
        self.last_stable_offset = last_stable_offset
        self.end, self.fetched = 0, list[int]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topic(self, name: str) -> Topic:
        return Topic(name, b"", (1,))

    def list_offset(self, topic: str, partition: int, *, timestamp: int) -> int:
        return 0 if timestamp == EARLIEST else self.end

    def fetch(self, topic: str, partition: int, *, offset: int, isolation: int, **_: Any) -> Fetched:
        assert isolation == COMMITTED
        self.fetched.append(offset)
        data = b"".join(batch for base, batch in sorted(self.batches.items()) if base >= offset)
        return Fetched(memoryview(bytearray(data)), Offset(100), Offset(self.last_stable_offset), FIRST_OFFSET, ())


class Writer:
    """A writer that appends to the target at once."""

    def __init__(self, target: Log, topic: str, partition: int) -> None:
        self.target = target

    def write(self, batch: memoryview, offset: int) -> None:
        assert offset == self.target.end
        self.target.end += 1

    def finish(self) -> None:
        pass


def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Log, target: Log, end: int) -> Copied:
    part = Part(
        source="source",
        target="target",
        topic="t",
        topic_id=b"",
        target_topic="t",
        target_topic_id=b"",
        partition=0,
        map_path=str(tmp_path / "map"),
        producer=Producer(ProducerId(1), ProducerEpoch(0)),
        size_max=1 << 20,
        retry_s=0.0,
        is_loss_allowed=False,
    )
    logs = {"source": source, "target": target}
    monkeypatch.setattr(module, "WireClient", lambda bootstrap, **_: logs[bootstrap])
    monkeypatch.setattr(module, "PartitionWriter", Writer)
    return mirror_partition(part, Offset(end))


def test_offsets_that_compaction_emptied_before_an_open_transaction_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = build_batch([Record(Offset(0), 1, b"k", b"v")])
    source, target = Log({0: batch}, last_stable_offset=10), Log()
    assert mirrored(tmp_path, monkeypatch, source, target, 10).counts.records == 1
    assert source.fetched == [0, 1]
    assert OffsetMap.read(tmp_path / "map").arrived == Arrived(Offset(10), Offset(1), len(batch))


def test_a_source_that_returns_nothing_below_its_last_stable_offset_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PipelineError, match=r"^t-0 returns no records from offset 0, although it ends at 10$"):
        mirrored(tmp_path, monkeypatch, Log(last_stable_offset=9), Log(), 10)
