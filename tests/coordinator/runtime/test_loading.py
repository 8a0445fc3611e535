"""Loading in slices, what is skipped, and what makes a partition fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from pybroker.coordinator import loading
from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.runtime import loader
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.records import offset_record, offset_tombstone, to_bytes
from pybroker.coordinator.state.shard import GroupShard
from pybroker.log.results import AppendOrigin
from pybroker.model import CoordinatorEpoch, GroupId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.entries import Entry
from pybroker.sharing import work
from testing.scenes.api.groups import GROUP, broker, commit_request
from testing.scenes.api.whole import NOW_MS, Whole
from testing.turns import run_watched
from testing.waiting import turned_until

PARTITION = TopicPartition("__consumer_offsets", 1)  # of GROUP


def append(whole: Whole, batch: bytearray) -> None:
    partition = whole.replicas.partition_or_raise(PARTITION)
    partition.append_records_to_leader(memoryview(batch), acks=-1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def batch_of(key: bytes, value: bytes | None) -> bytearray:
    return build_batch([Record(Offset(0), NOW_MS, key, value)])


async def offset(whole: Whole) -> int:
    response = await whole.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    assert response.error_code == 0
    return sum(p.committed_offset for t in response.topics for p in t.partitions)


def load_all_in_turn(whole: Whole) -> None:
    """Run the slices of loading in turn, as the event loop does, until none is left."""
    turns: list[Callable[[], None]] = []
    whole.groups._loader._mailbox._call_soon = turns.append
    whole.groups.stop()
    whole.groups.start()
    while turns:
        turns.pop()()


async def test_what_means_nothing_here_is_skipped(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=4), 8)
    append(whole, batch_of(b"\x00\x63of a later version", b"\x00\x00"))
    marker = TransactionMarker(ControlType.COMMIT, coordinator_epoch=CoordinatorEpoch(0))
    append(
        whole, build_transaction_marker(marker, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0), timestamp_ms=NOW_MS)
    )
    whole.serve()
    assert await offset(whole) == 4


def transactional(number: int, committed: int) -> bytearray:
    """Build a batch of producer `number` in a transaction, which commits an offset of the group."""
    key, value = to_bytes(
        offset_record(GroupId(GROUP), "t", number, CommittedOffset(Offset(committed), LeaderEpoch(-1), "", NOW_MS))
    )
    return build_batch(
        [Record(Offset(0), NOW_MS, key, value)],
        producer_id=ProducerId(number),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0,
        is_transactional=True,
    )


async def test_offsets_of_transactions_count_from_their_commit_on(tmp_path: Path) -> None:
    """An adopted log has them: one transaction is committed, one aborted, one open."""
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=4), 8)
    for number in (1, 2, 3):
        append(whole, transactional(number, 10**number))
    for number, end in ((1, ControlType.COMMIT), (2, ControlType.ABORT)):
        marker = TransactionMarker(end, coordinator_epoch=CoordinatorEpoch(0))
        ids = {"producer_id": ProducerId(number), "producer_epoch": ProducerEpoch(0)}
        append(whole, build_transaction_marker(marker, timestamp_ms=NOW_MS, **ids))  # type: ignore[arg-type]
    whole.serve()
    assert await offset(whole) == 4 + 10


@pytest.mark.parametrize("end", [ControlType.COMMIT, ControlType.ABORT])
async def test_a_transaction_whose_marker_is_damaged_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, end: ControlType
) -> None:
    whole = await broker(tmp_path)
    log = whole.replicas.partition_or_raise(PARTITION).log
    await whole.ask(commit_request(offset=4), 8)
    for number in (0, 1):
        append(whole, transactional(number, 10**number))
    position = log.size
    marker = TransactionMarker(end, coordinator_epoch=CoordinatorEpoch(0))
    ids = {"producer_id": ProducerId(1), "producer_epoch": ProducerEpoch(0)}
    append(whole, build_transaction_marker(marker, timestamp_ms=NOW_MS, **ids))  # type: ignore[arg-type]
    flip(Path(log.segments.active.path), position + 61)
    load_all_in_turn(whole)
    shard = whole.groups.runtime._active[1].shard
    assert shard.pending.producers() == [0], "the other transaction is open"
    assert await offset(whole) == (4 + 10 if end is ControlType.COMMIT else 4)
    assert "the marker of a transaction of producer 1 is damaged" in caplog.text


OFFSET = to_bytes(offset_record(GroupId("g"), "t", 0, CommittedOffset(Offset(5), LeaderEpoch(-1), "", NOW_MS)))


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\x00\x01", b"\x00\x00"), (b"\x00", None), (b"\x00\x02\x00\x01g", b"\x00\x03\x00"), (b"\x00\x01", OFFSET[1]),
     (b"\x00\x01\x00\x00", OFFSET[1]), (OFFSET[0] + b"\x00", OFFSET[1]), (b"", b""),
     (OFFSET[0][:-5] + b"\xff\0\0\0\0", OFFSET[1]),
     (b"\x00\x08\x00\x01k\x00\x01m", b"\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x63\x01\x01\x00")],  # a member in state 99
)  # fmt: skip
async def test_a_record_that_cannot_be_decoded_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes | None
) -> None:
    """The other records of its batch count, and those after it."""
    whole = await broker(tmp_path)
    await whole.create("u", 6)
    await whole.ask(commit_request(offset=4), 8)
    log = whole.replicas.partition_or_raise(PARTITION).log
    bad_offset = log.log_end_offset + 2
    records = [(key, value) if at in {2, 3} else committed(partition=at) for at in range(6)]
    append(whole, build_batch([Record(Offset(at), NOW_MS, *record) for at, record in enumerate(records)]))
    await whole.ask(commit_request(partition=1, offset=5), 8)
    whole.serve()
    assert await offset(whole) == 4 + 5 + 4 * 100
    lines = [record.message for record in caplog.records if "cannot be decoded" in record.message]
    assert [line.partition(" cannot")[0] for line in lines[:2]] == [
        f"{PARTITION}: the record at offset {bad_offset + number}" for number in range(2)
    ]
    assert lines[2:] == [f"{PARTITION}: the broker skipped the records that cannot be decoded, 2 in all"]


def committed(*, partition: int) -> Entry:
    offset = CommittedOffset(Offset(100), LeaderEpoch(-1), "", NOW_MS)
    return to_bytes(offset_record(GroupId(GROUP), "u", partition, offset))


async def test_the_log_names_some_of_very_many_records_that_cannot_be_decoded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await broker(tmp_path)
    for _ in range(3):
        append(whole, build_batch([Record(Offset(at), NOW_MS, b"", None) for at in range(250)]))
    await whole.ask(commit_request(offset=5), 8)
    whole.serve()
    assert await offset(whole) == 5
    lines = [record.message for record in caplog.records if "cannot be decoded" in record.message]
    assert len(lines) == loader.NAMED_RECORDS + 1
    assert lines[-1] == f"{PARTITION}: the broker skipped the records that cannot be decoded, 750 in all"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


@pytest.mark.parametrize("at", [8, 10, 16, 61, 80])  # size, size, magic, records
async def test_damage_costs_the_commits_in_it_and_no_others(tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int) -> None:
    whole = await broker(tmp_path)
    log = whole.replicas.partition_or_raise(PARTITION).log
    positions = []
    for number in (4, 5, 6):
        positions.append(log.size)
        await whole.ask(commit_request(offset=number), 8)
    lost = log.log_end_offset - 2
    path = Path(log.segments.active.path)
    flip(path, positions[1] + at)
    load_all_in_turn(whole)
    assert await offset(whole) == 6
    assert f"the offsets {lost} to {lost} cannot be read" in caplog.text
    flip(path, positions[2] + at)
    load_all_in_turn(whole)
    assert await offset(whole) == 4, "back to the commit before the damage"


@pytest.mark.parametrize("error", [ImportError("no codec"), ValueError("a bug"), KeyError("a bug")])
async def test_whatever_fails_a_partition_the_others_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Partition 0 is loaded first, and fails with an unexpected error."""
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=4), 8)  # in partition 1
    await whole.ask(commit_request(group_id="h", offset=5), 8)  # in partition 0

    def replay(shard: GroupShard, batch: BatchView, some: Iterator[Entry], skipped: Counter[int]) -> Iterator[None]:
        yield from loading.replay_batch(shard, batch, some, skipped)
        if "h" in shard.offsets:
            raise error

    monkeypatch.setitem(whole.groups._loader._replay_log.keywords, "replay_batch", replay)
    load_all_in_turn(whole)
    assert await offset(whole) == 4
    response = await whole.ask(OffsetFetchRequest(group_id="h", topics=None), 7)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert whole.groups.runtime.loading_count == 0
    assert str(error) in caplog.text


async def test_a_first_operation_that_fails_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=4), 8)
    await whole.ask(commit_request(group_id="h", offset=5), 8)

    def first(shard: GroupShard, now_ms: int) -> CoordinatorResult:
        if "h" in shard.offsets:
            raise ValueError("a bug")
        return CoordinatorResult()

    monkeypatch.setattr(whole.groups, "_first_operation", first)
    load_all_in_turn(whole)
    assert await offset(whole) == 4
    response = await whole.ask(OffsetFetchRequest(group_id="h", topics=None), 7)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


async def test_many_offsets_of_several_groups_in_a_batch(tmp_path: Path) -> None:
    """Names change within a batch, and tombstones are among the offsets, as only compaction or Kafka writes them."""
    whole = await broker(tmp_path)
    records = [
        offset_record(GroupId(GROUP), "t", 0, CommittedOffset(Offset(1), LeaderEpoch(-1), "", NOW_MS)),
        offset_record(GroupId(GROUP), "t", 1, CommittedOffset(Offset(2), LeaderEpoch(-1), "", NOW_MS)),
        offset_record(
            GroupId("i"), "t", 1, CommittedOffset(Offset(30), LeaderEpoch(-1), "", NOW_MS)
        ),  # the same partition of the topic of offsets
        offset_tombstone(GroupId(GROUP), "t", 1),
        offset_record(GroupId(GROUP), "t", 0, CommittedOffset(Offset(400), LeaderEpoch(3), "text", NOW_MS)),
    ]
    append(whole, build_batch([Record(Offset(at), NOW_MS, *to_bytes(record)) for at, record in enumerate(records)]))
    whole.serve()
    (shard,) = [shard for shard in whole.groups.runtime.shards if shard.offsets]
    assert shard.offsets == {
        GROUP: {"t": {0: CommittedOffset(Offset(400), LeaderEpoch(3), "text", NOW_MS)}},
        "i": {"t": {1: CommittedOffset(Offset(30), LeaderEpoch(-1), "", NOW_MS)}},
    }
    assert shard.classic_groups.keys() == {GROUP, "i"}


async def test_loading_gives_the_loop_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await broker(tmp_path)
    for number in range(10):
        await whole.ask(commit_request(offset=number), 8)
    turns: list[Callable[[], None]] = []
    whole.groups._loader._mailbox._call_soon = turns.append
    whole.groups.stop()
    whole.groups.start()
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    for expected in range(1, 11):
        request: OffsetCommitRequest = commit_request(offset=99)
        response = await whole.ask(request, 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        turns.pop()()
        shard = whole.groups.runtime._active[1].shard
        loaded = shard.offset(GroupId(GROUP), "t", 0)
        assert loaded is not None
        assert loaded.offset == expected - 1
    while turns:
        turns.pop()()
    assert await offset(whole) == 9


@pytest.mark.judges_time
def test_a_batch_of_many_offsets_is_loaded_in_slices(tmp_path: Path) -> None:
    committed = CommittedOffset(Offset(1), LeaderEpoch(-1), "", NOW_MS)
    entries = [to_bytes(offset_record(GroupId(f"g{number}"), "t", 0, committed)) for number in range(20_000)]
    data = build_batch([Record(Offset(at), NOW_MS, *entry) for at, entry in enumerate(entries)])

    async def load() -> int:
        whole = await broker(tmp_path)
        append(whole, data)
        whole.groups.stop()
        whole.groups._loader._mailbox._call_soon = asyncio.get_running_loop().call_soon
        await asyncio.sleep(0)
        whole.groups.start()
        await turned_until(lambda: not whole.groups.runtime.loading_count, "the end of the loading")
        (shard,) = [shard for shard in whole.groups.runtime.shards if shard.offsets]
        return len(shard.offsets)

    turns = run_watched(load)
    assert turns.long_texts("<locals>.load held") == []
    assert turns.result == 20_000


async def test_a_partition_that_is_lost_while_it_is_loaded(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=1), 8)
    turns: list[Callable[[], None]] = []
    whole.groups._loader._mailbox._call_soon = turns.append
    whole.groups.stop()
    whole.groups.start()
    whole.groups.stop()
    turns.pop()()
    assert turns == []
    assert not whole.groups.runtime.partitions()


async def test_a_caller_that_waits_for_the_loading_is_called_when_the_last_partition_is_there(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    called: list[int] = []
    whole.groups.when_loaded(lambda: called.append(whole.groups.runtime.loading_count))
    assert called == [0]  # nothing to load: at once
    await whole.ask(commit_request(offset=4), 8)
    turns: list[Callable[[], None]] = []
    whole.groups._loader._mailbox._call_soon = turns.append
    whole.groups.stop()
    whole.groups.start()
    whole.groups.when_loaded(lambda: called.append(whole.groups.runtime.loading_count))
    assert called == [0]
    while turns:
        turns.pop()()
    assert called == [0, 0]


async def test_a_failed_load_names_the_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=5), 8)
    with mock.patch.object(loader, "entries", side_effect=ZeroDivisionError):
        load_all_in_turn(whole)
    assert "__consumer_offsets-1 cannot be loaded" in caplog.text
