"""Transactions leave the partitions of topics that are deleted, and requests in between get the right responses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.runtime.result import Producer as ProducerOfId
from pybroker.coordinator.transaction import ending, forgetting, operations
from pybroker.coordinator.transaction.removed import RemovedPartitions
from pybroker.coordinator.transaction.shard import TransactionSettings, TransactionShard
from pybroker.coordinator.transaction.state import State, Transaction
from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.api.whole import Whole
from tests.api.transactions import TID, Producer, broker
from tests.coordinator.transaction.test_refused_records import refusing

IDS = 2_500
NONE = ErrorCode.NONE
PARTITION = TopicPartition("t", 0)
PRODUCER = ProducerOfId(ProducerId(1), ProducerEpoch(0))


async def with_ids(folder: Path, state: State, count: int = IDS) -> Whole:
    """Return a broker with many transactional ids, half of them in each partition of the topic."""
    whole = await broker(folder)
    now_ms = whole.clock.time_ms()
    partitions = frozenset({PARTITION}) if state is State.ONGOING else frozenset()

    for number, shard in enumerate(whole.transactions.runtime.shards):
        one = Transaction(ProducerId(1), ProducerEpoch(0), 60_000, state, partitions, now_ms, now_ms)
        records = [ending.write(shard, f"{number}-{name}", one) for name in range(count // 2)]
        result = CoordinatorResult(records=records, is_atomic=False)
        whole.transactions.runtime.write(number, partial(_given, result), lambda _: None)
    return whole


def _given(result: CoordinatorResult, _shard: TransactionShard, _now_ms: int) -> CoordinatorResult:
    return result


def shards(whole: Whole) -> list[TransactionShard]:
    return list(whole.transactions.runtime.shards)


def appends(whole: Whole, number: int) -> int:
    return int(whole.replicas.partition_or_raise(TopicPartition("__transaction_state", number)).log.log_end_offset)


async def test_ids_that_no_client_uses_are_removed_after_seven_days(tmp_path: Path) -> None:
    whole = await with_ids(tmp_path, State.EMPTY, 20)
    for days in (6, 2):
        assert sum(len(shard.transactions) for shard in shards(whole)) == 20
        whole.clock.advance(days * 24 * 3_600_000)
        whole.timer.advance()
        whole.pass_time(1)
    assert not any(shard.transactions for shard in shards(whole))


async def test_a_removed_partition_leaves_many_transactions_in_slices(tmp_path: Path) -> None:
    whole = await with_ids(tmp_path, State.ONGOING)
    before = [appends(whole, number) for number in (0, 1)]
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    assert [appends(whole, number) for number in (0, 1)] == before, "not by all shards in the turn of the deletion"
    whole.pass_time(1)
    step = forgetting.STEP_COST // forgetting.WRITE_COST
    assert all(0 < appends(whole, number) - before[number] <= step for number in (0, 1))
    # A topic of the same name is another one. While the transactions forget the old one, no client can add the new one.
    await whole.create("t", 2)
    producer = Producer(whole, 1)
    assert await producer.init() == NONE
    assert await producer.add(0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    for _ in range(100):
        whole.clock.advance(1)
        whole.timer.advance()
    assert not any(one.partitions for shard in shards(whole) for one in shard.transactions.values())
    assert not any(shard.gone for shard in shards(whole))
    assert await producer.add(0) == [NONE]
    assert await producer.send(0, b"a") == NONE


def test_partitions_of_deleted_topics_and_single_ones_were_removed() -> None:
    removed = RemovedPartitions()
    some = frozenset(TopicPartition(topic, number) for topic in "tu" for number in range(5))
    assert (bool(removed), removed.isdisjoint(some), removed.left_of(some)) == (False, True, some)
    removed.add(TopicPartition("u", 4))
    removed.add_topics({"t": 3})
    removed.add_topics({"t": 1})  # made again with fewer, and deleted again
    assert removed
    assert removed.left_of(some) == {("t", 3), ("t", 4), ("u", 0), ("u", 1), ("u", 2), ("u", 3)}
    assert removed.isdisjoint(removed.left_of(some))
    assert not removed.isdisjoint([TopicPartition("u", 4)])
    assert not removed.isdisjoint([TopicPartition("t", 2)])
    removed.clear()
    assert (bool(removed), removed.left_of(some)) == (False, some)


async def test_no_marker_goes_to_a_topic_that_was_made_again_before_its_name_is_forgotten(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    assert await producer.send(0, b"a") == NONE
    with refusing(whole, "__transaction_state"):
        await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
        await whole.create("t", 2)
    assert await producer.end(commit=True) == NONE
    whole.pass_time(1_000)
    assert whole.replicas.partition_or_raise(PARTITION).log.log_end_offset == 0
    assert await producer.send(0, b"b") == NONE
    assert await producer.end(commit=True) == NONE
    assert whole.replicas.partition_or_raise(PARTITION).log.log_end_offset == 2


async def test_markers_that_wait_in_the_queue_do_not_go_to_a_topic_that_was_made_again(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    assert await producer.send(0, b"a") == NONE
    mailbox = whole.transactions.markers._mailbox
    mailbox.is_busy = True  # with the work of another transaction
    assert await producer.end(commit=True) == NONE
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    await whole.create("t", 2)
    mailbox._slice()
    assert whole.replicas.partition_or_raise(PARTITION).log.log_end_offset == 0
    assert await producer.init() == NONE


async def test_a_topic_that_is_made_again_during_the_loading_gets_no_marker(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    assert await producer.send(0, b"a") == NONE
    with refusing(whole, "t"):
        assert await producer.end(commit=True) == NONE
    loaded: list[Callable[[], None]] = []
    whole.transactions._loader._mailbox._call_soon = loaded.append
    for partition in (0, 1):
        whole.transactions.runtime.unload(partition)
    whole.transactions.start()
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    await whole.create("t", 2)
    while loaded:
        loaded.pop()()
    whole.pass_time(1_000)
    assert await producer.init() == NONE
    assert whole.replicas.partition_or_raise(PARTITION).log.log_end_offset == 0


def with_transaction(*partitions: TopicPartition, state: State = State.ONGOING) -> TransactionShard:
    shard = TransactionShard(
        TransactionSettings(
            max_timeout_ms=1,
            id_expiration_ms=1,
            clean_up_interval_ms=3_600_000,
            transaction_version=lambda: 2,
            send=lambda _ending: None,
        )
    )
    shard.transactions[TID] = Transaction(ProducerId(1), ProducerEpoch(0), 60_000, state, frozenset(partitions))
    return shard


def named(numbers: range) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


def test_partitions_are_added_to_those_of_the_transaction() -> None:
    shard, added = with_transaction(*named(range(5))), named(range(4, 9))
    result = operations.add_partitions(shard, 7, TID, PRODUCER, added)
    (record,) = result.records
    assert record.value.partitions == frozenset(named(range(9)))
    assert (result.response, result.timers) == (NONE, [])
    assert operations.add_partitions(shard, 7, TID, PRODUCER, named(range(5))).records == [], "it has them already"
    shard.gone.add(TopicPartition("t", 7))
    with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS"):
        operations.add_partitions(shard, 7, TID, PRODUCER, added)


def test_the_first_partition_opens_the_transaction() -> None:
    shard = with_transaction(state=State.EMPTY)
    result = operations.add_partitions(shard, 7, TID, PRODUCER, [PARTITION, PARTITION])
    assert (len(result.timers), result.records[0].value.partitions) == (1, {PARTITION})


def test_partitions_are_verified_one_by_one() -> None:
    shard, asked = with_transaction(*named(range(4))), named(range(5))
    codes = operations.verify_partitions(shard, TID, PRODUCER, asked)
    assert codes == dict(zip(asked, [NONE] * 4 + [ErrorCode.TRANSACTION_ABORTABLE], strict=True))
    assert operations.verify_partitions(shard, "other", PRODUCER, asked) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    shard.gone.add(TopicPartition("t", 3))
    assert operations.verify_partitions(shard, TID, PRODUCER, asked) == ErrorCode.CONCURRENT_TRANSACTIONS
