"""Wherever a crash cuts the logs of transactions and of offsets, what is loaded is the state that the broker had at that point.

The state is noted after each append, and each prefix of both logs is loaded again.
"""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.coordinator import loading
from pybroker.coordinator.runtime.loader import replay_log
from pybroker.coordinator.runtime.runtime import CoordinatorRuntime
from pybroker.coordinator.state.shard import GroupShard
from pybroker.coordinator.transaction.shard import TransactionShard, replay_batch
from pybroker.coordinator.transaction.state import State
from pybroker.log.log import Log
from pybroker.model import NO_PRODUCER_EPOCH, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from testing.scenes.api.groups import commit_request
from testing.scenes.api.whole import Whole
from tests.api.offset_transactions import GROUP, OffsetProducer
from tests.api.transactions import broker
from tests.coordinator.test_every_prefix import CutLog

OPERATIONS = 50


def of_groups(shard: GroupShard) -> Any:
    """Return groups and offsets, and the pending ones in the order in which they were written."""
    pending = {key: list(written.items()) for key, written in shard.pending.by_key.items()}
    return copy.deepcopy(shard.offsets), pending, set(shard.classic_groups)


def of_transactions(shard: TransactionShard) -> Any:
    """Return the state without the last epoch, which the log does not hold."""
    return {tid: one._replace(last_epoch=NO_PRODUCER_EPOCH) for tid, one in shard.transactions.items()}


class Notes:
    """The states of a shard by the end of its log."""

    def __init__(self, whole: Whole, topic: str, runtime: CoordinatorRuntime[Any], state: Callable[[Any], Any]) -> None:
        self.log: Log = whole.replicas.partition_or_raise(TopicPartition(topic, 0)).log
        self.states: dict[int, Any] = {}
        appender, append = runtime._appender, runtime._appender.append_batch

        def noted(active: Any, batch: Any, count: Any, replay: Callable[[], None], appended: Any) -> None:
            def replayed() -> None:
                replay()
                self.states[self.log.log_end_offset] = state(active.shard)

            append(active, batch, count, replayed, appended)

        runtime._appender = _Noting(appender, noted)  # type: ignore[assignment]


class _Noting:
    """An appender with another `append_batch`, which its own `append` calls too."""

    def __init__(self, appender: Any, append_batch: Any) -> None:
        self._appender = appender
        self.append_batch = append_batch

    def append(self, *arguments: Any) -> None:
        type(self._appender).append(self, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._appender, name)


class Story:
    """Random requests of producers and of clients that commit offsets otherwise."""

    def __init__(self, whole: Whole, random: Random) -> None:
        self.whole = whole
        self.random = random
        self.producers = [OffsetProducer(whole, 1 + number % 2, tid=f"t-{number}") for number in range(3)]

    async def step(self, number: int) -> None:
        producer = self.random.choice(self.producers)
        what: list[Callable[[OffsetProducer, int], Any]] = [self.begin, self.commit, self.commit, self.end, self.end]
        what += [self.outside, self.begin_again, self.delete, self.pass_time]
        await self.random.choice(what)(producer, number)

    async def begin(self, producer: OffsetProducer, _number: int) -> None:
        if producer.producer_id < 0:
            await producer.init(timeout_ms=20_000)
        await producer.add(self.random.randrange(2))
        await producer.open_offsets()

    async def begin_again(self, producer: OffsetProducer, _number: int) -> None:
        if await producer.init(timeout_ms=20_000) == ErrorCode.CONCURRENT_TRANSACTIONS:
            await producer.init(timeout_ms=20_000)

    async def commit(self, producer: OffsetProducer, number: int) -> None:
        await self.begin(producer, number)
        await producer.commit(number, *self.random.sample((0, 1), self.random.randint(1, 2)))

    async def end(self, producer: OffsetProducer, _number: int) -> None:
        await producer.end(commit=self.random.random() < 0.7)

    async def outside(self, _producer: OffsetProducer, number: int) -> None:
        await self.whole.ask(commit_request(group_id=GROUP, partition=self.random.randrange(2), offset=number), 8)

    async def delete(self, _producer: OffsetProducer, _number: int) -> None:
        if self.random.random() < 0.3:
            await self.whole.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
            return
        partitions = [OffsetDeleteRequestPartition(partition_index=self.random.randrange(2))]
        topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
        await self.whole.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)

    async def pass_time(self, _producer: OffsetProducer, _number: int) -> None:
        self.whole.pass_time(self.random.choice([1_000, 30_000]))


async def cut_everywhere(seed: int, folder: Path) -> None:
    whole = await broker(folder, offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    groups = Notes(whole, "__consumer_offsets", whole.groups.runtime, of_groups)
    transactions = Notes(whole, "__transaction_state", whole.transactions.runtime, of_transactions)
    story = Story(whole, Random(seed))
    for number in range(OPERATIONS):
        await story.step(number)
    assert len(transactions.states) > OPERATIONS / 3
    for end_offset, state in groups.states.items():
        shard = GroupShard(next(iter(whole.groups.runtime.shards)).settings)
        cut: Any = CutLog(groups.log, end_offset)
        for _ in replay_log(shard, cut, loading.replay_batch, loading.replay_marker, bytes_max=1000):
            pass
        assert of_groups(shard) == state, end_offset
    for end_offset, state in transactions.states.items():
        loaded = TransactionShard(next(iter(whole.transactions.runtime.shards)).settings)
        for _ in replay_log(loaded, CutLog(transactions.log, end_offset), replay_batch, bytes_max=1000):  # type: ignore[arg-type]
            pass
        assert of_transactions(loaded) == state, end_offset
    await check_end(whole, story)
    whole.logs.stop()


async def check_end(whole: Whole, story: Story) -> None:
    """Check that everything comes to an end: after the timeouts nothing is open, and nothing is pending."""
    for _ in story.producers:
        whole.pass_time(30_000)
    (groups,) = whole.groups.runtime.shards
    (transactions,) = whole.transactions.runtime.shards
    assert not groups.pending.by_key
    assert {one.state for one in transactions.transactions.values()} <= {
        State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT,
    }  # fmt: skip
    for partition in whole.replicas.partitions.values():
        assert not partition.log.producers.ongoing, partition.topic_partition


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_loaded_is_the_state_at_that_point(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(cut_everywhere(seed, Path(folder)))
