"""Snapshots for KRaft: their bytes, and that our own reader gets from them what was written."""

from __future__ import annotations

import pytest

from pybroker.clock import ManualClock
from pybroker.metadata.kraft import writing
from pybroker.metadata.kraft.reading import metadata_records
from pybroker.metadata.kraft.writing import snapshot, snapshot_name
from pybroker.model import LeaderEpoch, Offset
from pybroker.protocol.messages.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from pybroker.records.batch import batches
from testing.simulation.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000


def test_a_snapshot_begins_and_ends_with_control_records() -> None:
    first, data, last = batches(snapshot([TopicRecord(name="a", topic_id=bytes(16))], epoch=LeaderEpoch(7), now_ms=NOW_MS))
    assert [batch.is_control for batch in (first, data, last)] == [True, False, True]
    assert [batch.base_offset for batch in (first, data, last)] == [0, 1, 2]
    assert {batch.partition_leader_epoch for batch in (first, data, last)} == {7}
    (header,), (record,), (footer,) = (list(batch.records()) for batch in (first, data, last))
    assert (header.key, header.value) == (b"\0\0\0\3", b"\0\0" + NOW_MS.to_bytes(8) + b"\0")
    assert (footer.key, footer.value) == (b"\0\0\0\4", b"\0\0\0")
    assert (record.key, record.value) == (None, b"\1\2\0" + b"\2a" + bytes(16) + b"\0")


@pytest.mark.parametrize("count", [0, 1, 500])
def test_the_reader_gets_what_was_written(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", 1000)
    disk = SimulatedDisk(ManualClock(NOW_MS))
    disk.make_directory("/m")
    messages: list[object] = [
        ConfigRecord(resource_type=2, resource_name=f"topic-{number}", name="retention.ms", value="-1") for number in range(count)
    ]
    data = snapshot(messages, epoch=LeaderEpoch(1), now_ms=NOW_MS)
    disk.write_file(f"/m/{snapshot_name(next_offset=Offset(count), epoch=LeaderEpoch(1))}", data, sync=True)
    assert [record.message for record in metadata_records(disk, "/m", was_clean=True)] == messages
    assert max(batch.batch_length for batch in batches(data)) < 1300


def test_partitions_have_the_version_with_directories() -> None:
    message = PartitionRecord(
        partition_id=0,
        topic_id=bytes(16),
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=4,
        partition_epoch=2,
        directories=[b"d" * 16],
    )
    _, data, _ = batches(snapshot([message], epoch=LeaderEpoch(1), now_ms=NOW_MS))
    (record,) = data.records()
    assert record.value is not None
    assert record.value.startswith(b"\1\3\1")
    assert record.value.endswith(b"\2" + b"d" * 16 + b"\0")
