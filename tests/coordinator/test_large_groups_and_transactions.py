"""Groups with very many offsets, and transactions over very many partitions or offsets, give the loop back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.offsets import OffsetsOfGroup
from pybroker.coordinator.runtime.loader import replay_log
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.shard import GroupShard
from pybroker.coordinator.transaction import ending
from pybroker.coordinator.transaction.shard import TransactionShard, replay_batch
from pybroker.coordinator.transaction.state import State, Transaction
from pybroker.model import GroupId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from testing.scenes.api.whole import NOW_MS, Whole
from testing.turns import Turns, run_watched
from testing.waiting import turned_until
from tests.api.offset_transactions import OffsetProducer
from tests.api.transactions import TID, broker

GROUP = GroupId("readers")
OFFSETS, PARTITIONS = 60_000, 10_000
PARTITION = TopicPartition("t", 0)
NONE = ErrorCode.NONE
OFFSET = CommittedOffset(Offset(5), LeaderEpoch(-1), "", NOW_MS)

pytestmark = [
    pytest.mark.judges_time,
    pytest.mark.skipif(not codec.IS_NATIVE, reason="to encode such a record in Python takes longer than a turn may"),
]


def scene(folder: Path) -> tuple[Whole, OffsetProducer]:
    """Return a broker whose producer may commit offsets of the group."""

    async def started() -> tuple[Whole, OffsetProducer]:
        topics = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
        whole = await broker(folder, **topics, message_max_bytes=10_000_000)
        await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
        producer = OffsetProducer(whole, 1)
        assert await producer.init() == NONE
        assert await producer.open_offsets(GROUP) == NONE
        return whole, producer

    return asyncio.run(started())


def watched(whole: Whole, ask: Callable[[], Awaitable[Any]]) -> Turns:
    async def main() -> Any:
        whole.call_soon = asyncio.get_running_loop().call_soon
        return await ask()

    return run_watched(main)


def groups(whole: Whole) -> GroupShard:
    (shard,) = whole.groups.runtime.shards
    return shard


def transactions(whole: Whole) -> TransactionShard:
    (shard,) = whole.transactions.runtime.shards
    return shard


def with_offsets(whole: Whole, count: int = OFFSETS) -> None:
    groups(whole).replay_offsets(GROUP, "t", dict.fromkeys(range(count), OFFSET))


def with_partitions(whole: Whole) -> None:
    """Let the transaction have many partitions more, which exist only here."""
    shard = transactions(whole)
    more = frozenset(TopicPartition("t", number) for number in range(PARTITIONS))
    now = shard.transactions[TID]
    shard.transactions[TID] = now.with_partitions(now.partitions | more, NOW_MS)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_of_a_transaction_with_many_offsets(tmp_path: Path, is_commit: bool) -> None:
    whole, producer = scene(tmp_path)
    groups(whole).replay_pending(ProducerId(producer.producer_id), GROUP, "t", dict.fromkeys(range(OFFSETS), OFFSET))

    async def end() -> None:
        assert await producer.end(commit=is_commit) == NONE
        fetched: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def select(found: OffsetsOfGroup) -> tuple[int, int]:
            return len(found.topics.get("t", ())), len(found.unstable)

        whole.groups.fetch(GROUP, select, fetched.set_result, is_stable=True)
        assert await fetched == (OFFSETS if is_commit else 0, 0)

    assert watched(whole, end).long_texts() == []
    assert len(groups(whole).offsets.get(GROUP, {}).get("t", {})) == (OFFSETS if is_commit else 0)
    assert transactions(whole).transactions[TID].state is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)


def test_the_deletion_of_a_group_with_many_offsets(tmp_path: Path) -> None:
    whole, _ = scene(tmp_path)
    with_offsets(whole)

    async def delete() -> None:
        (result,) = (await whole.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)).results
        assert result.error_code == NONE

    assert watched(whole, delete).long_texts() == []
    assert groups(whole).offsets == {}
    assert groups(whole).find_group(GROUP) is None


def test_a_topic_with_many_offsets_is_deleted(tmp_path: Path) -> None:
    whole, _ = scene(tmp_path)
    with_offsets(whole)

    async def delete() -> None:
        await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
        await turned_until(lambda: not groups(whole).offsets, "the removal of the offsets")

    assert watched(whole, delete).long_texts() == []


def test_many_offsets_are_loaded_and_those_of_a_topic_that_is_gone_are_deleted(tmp_path: Path) -> None:
    whole, producer = scene(tmp_path)
    groups(whole).replay_pending(ProducerId(producer.producer_id), GROUP, "t", dict.fromkeys(range(OFFSETS), OFFSET))
    with_offsets(whole)

    async def first() -> None:
        whole.groups.runtime.write(0, whole.groups._first_operation, lambda _: None)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        whole.groups.fetch(GROUP, lambda _: None, done.set_result)
        await done

    whole.groups._partition_count = lambda topic: 2  # type: ignore[method-assign]
    assert watched(whole, first).long_texts() == []
    assert groups(whole).offsets[GROUP]["t"].keys() == {0, 1}
    assert {key.partition for key in groups(whole).pending.by_key} == {0, 1}


def test_a_transaction_over_many_partitions_gets_another_and_ends(tmp_path: Path) -> None:
    whole, producer = scene(tmp_path)
    with_partitions(whole)

    async def add_and_end() -> None:
        assert await producer.open_offsets("other") == NONE
        assert await producer.add(0) == [NONE]
        (state,) = (await whole.ask(DescribeTransactionsRequest(transactional_ids=[TID]), 0)).transaction_states
        assert {one.topic: len(one.partitions) for one in state.topics} == {"__consumer_offsets": 1, "t": PARTITIONS}
        assert await producer.end(commit=True) == NONE
        await turned_until(lambda: transactions(whole).transactions[TID].state is State.COMPLETE_COMMIT, "the commit")

    assert watched(whole, add_and_end).long_texts("<locals>.add_and_end held") == []


def test_a_transaction_over_many_partitions_is_loaded(tmp_path: Path) -> None:
    whole, _ = scene(tmp_path)
    with_partitions(whole)
    before = transactions(whole).transactions[TID]
    record = ending.write(transactions(whole), TID, before)
    result = CoordinatorResult(records=[record] * 3, is_atomic=False)
    whole.transactions.runtime.write(0, lambda _shard, _now_ms: result, lambda _: None)
    log = whole.replicas.partition_or_raise(TopicPartition("__transaction_state", 0)).log
    loaded = TransactionShard(transactions(whole).settings)

    async def load() -> None:
        for _ in replay_log(loaded, log, replay_batch, bytes_max=5_000_000):
            await asyncio.sleep(0)

    assert run_watched(load).long_texts() == []
    assert loaded.transactions[TID] == before


def use_loop(whole: Whole) -> None:
    """Let the timer and the markers of the broker use the turns of the running loop."""
    loop = asyncio.get_running_loop()
    whole.timer.slice_s = 0.005
    whole.timer._call_at = lambda _at_ms, work: loop.call_soon(work)
    whole.call_soon = loop.call_soon


def test_transactions_that_time_out_together_end_in_slices(tmp_path: Path) -> None:
    whole, _ = scene(tmp_path)
    open_ones = Transaction(ProducerId(1), ProducerEpoch(0), 1_000, State.ONGOING, frozenset({PARTITION}), NOW_MS)

    def begin(shard: TransactionShard, _now_ms: int) -> CoordinatorResult:
        states = [(f"many-{one}", open_ones._replace(producer_id=ProducerId(one))) for one in range(10_000, 12_000)]
        return CoordinatorResult(
            records=[ending.write(shard, tid, one) for tid, one in states],
            is_atomic=False,
            timers=[ending.timeout_timer(tid, 1_000) for tid, _ in states],
        )

    def ended() -> list[State]:
        return [one.state for tid, one in transactions(whole).transactions.items() if tid != TID]

    async def end() -> None:
        use_loop(whole)
        async with asyncio.timeout(60):
            while set(ended()) != {State.COMPLETE_ABORT}:
                whole.clock.advance(200)
                whole.timer._woken()
                await asyncio.sleep(0)

    whole.transactions.runtime.write(0, begin, lambda _: None)
    assert run_watched(end).long_texts() == []
    assert len(ended()) == 2_000
    assert whole.replicas.partition_or_raise(PARTITION).log.log_end_offset == 2_000


def test_a_transaction_over_many_partitions_ends_in_slices(tmp_path: Path) -> None:
    whole, producer = scene(tmp_path)
    logs = [TopicPartition("many", number) for number in range(2_000)]

    async def begin() -> None:
        await whole.create("many", len(logs))
        assert set(await producer.add(*range(len(logs)), topic="many")) == {NONE}

    async def end() -> None:
        use_loop(whole)
        assert await producer.end(commit=True) == NONE
        await turned_until(lambda: transactions(whole).transactions[TID].state is State.COMPLETE_COMMIT, "the markers")

    asyncio.run(begin())
    assert run_watched(end).long_texts() == []
    assert {whole.replicas.partition_or_raise(one).log.log_end_offset for one in logs} == {1}
