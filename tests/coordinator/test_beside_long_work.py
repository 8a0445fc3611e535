"""While a group with many offsets is deleted, or a transaction with many offsets ends, other requests of the partition wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.loading import replay_batch, replay_marker
from pybroker.coordinator.offsets import OffsetsOfGroup
from pybroker.coordinator.runtime.loader import replay_log
from pybroker.coordinator.runtime.result import CoordinatorResult, Producer
from pybroker.coordinator.state.records import OffsetsOfTopic, PendingOffsetsOfTopic
from pybroker.coordinator.state.shard import GroupShard
from pybroker.model import GroupId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pybroker.sharing import work
from testing.scenes.api.groups import GROUP, commit_request, member
from testing.scenes.api.whole import Whole, settled
from tests.api.offset_transactions import OffsetProducer, committed
from tests.api.transactions import broker

LARGE = GroupId("large")
OFFSETS = 5_000
NONE = ErrorCode.NONE
OFFSET = CommittedOffset(Offset(5), LeaderEpoch(-1), "", 1)


class Scene:
    """A broker with a classic group, a KIP-848 group, and `LARGE`, all in one partition, and a transactional producer."""

    def __init__(self, whole: Whole, producer: OffsetProducer, member_id: str, beat: ConsumerGroupHeartbeatRequest) -> None:
        self.whole, self.producer, self.member_id, self.beat = whole, producer, member_id, beat

    @classmethod
    async def start(cls, folder: Path) -> Scene:
        topics = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
        whole = await broker(folder, **topics, message_max_bytes=10_000_000)
        await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
        member_id = await member(whole)
        producer = OffsetProducer(whole, 1)
        assert await producer.init() == NONE
        assert await producer.open_offsets(LARGE) == NONE
        beat = ConsumerGroupHeartbeatRequest(
            group_id="new", member_id="m" * 22, member_epoch=0, rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"], topic_partitions=[],
        )  # fmt: skip
        joined = await whole.ask(beat, 1)
        assert joined.error_code == NONE
        beat = ConsumerGroupHeartbeatRequest(group_id="new", member_id="m" * 22, member_epoch=joined.member_epoch)
        assert (await whole.ask(beat, 1)).error_code == NONE
        return cls(whole, producer, member_id, beat)

    @property
    def shard(self) -> GroupShard:
        (shard,) = self.whole.groups.runtime.shards
        return shard

    def write(self, *, is_pending: bool) -> None:
        """Write the many offsets of `LARGE` to the log, in the transaction or outside of it."""
        producer = Producer(ProducerId(self.producer.producer_id), ProducerEpoch(self.producer.epoch))
        offsets = dict.fromkeys(range(OFFSETS), OFFSET)
        bulk = (
            PendingOffsetsOfTopic(LARGE, "t", offsets, producer.producer_id)
            if is_pending
            else OffsetsOfTopic(LARGE, "t", offsets)
        )
        result = CoordinatorResult(NONE, bulks=[bulk], producer=producer if is_pending else None)
        outcomes: list[Any] = []
        self.whole.groups.runtime.write(0, lambda _shard, _now_ms: result, outcomes.append)
        assert outcomes == [NONE]

    def loaded(self) -> GroupShard:
        """Return the state that the log has now."""
        shard = GroupShard(self.shard.settings)
        log = self.whole.replicas.partition_or_raise(TopicPartition("__consumer_offsets", 0)).log
        for _ in replay_log(shard, log, replay_batch, replay_marker, bytes_max=1 << 20):
            pass
        return shard

    def check_log(self) -> None:
        loaded, shard = self.loaded(), self.shard
        assert loaded.offsets == shard.offsets
        assert loaded.pending.by_key == shard.pending.by_key
        assert loaded.classic_groups.keys() == shard.classic_groups.keys()
        assert loaded.consumer_groups.keys() == shard.consumer_groups.keys()

    def delete(self) -> Awaitable[Any]:
        return asyncio.ensure_future(self.whole.ask(DeleteGroupsRequest(groups_names=[LARGE]), 2))

    def end(self) -> Awaitable[Any]:
        return asyncio.ensure_future(self.producer.end(commit=True))


def is_busy(scene: Scene) -> bool:
    (active,) = scene.whole.groups.runtime._active.values()
    return active.mailbox.is_busy


def others(scene: Scene, offset: int) -> list[tuple[Any, Any, int]]:
    """Send requests of the other groups, which wait; return their responses to be with the requests and versions."""
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=scene.member_id)
    commit = commit_request(offset=offset, generation_id_or_member_epoch=1, member_id=scene.member_id)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    asked = [(beat, 0), (scene.beat, 1), (commit, 7), (fetch, 8)]
    return [(scene.whole.send(request, version), request, version) for request, version in asked]


@pytest.mark.parametrize("long", ["delete", "end"])
async def test_other_groups_wait_and_are_served_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    scene = await Scene.start(tmp_path)
    scene.write(is_pending=long == "end")
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    later: list[Callable[[], None]] = []
    scene.whole.call_soon = later.append
    under_way = scene.delete() if long == "delete" else scene.end()
    while not is_busy(scene):
        await asyncio.sleep(0)
        if later and not is_busy(scene):
            later.pop(0)()
    fetched: list[Any] = []

    def select(found: OffsetsOfGroup) -> int:
        return len(found.topics.get("t", ()))

    scene.whole.groups.fetch(LARGE, select, fetched.append)
    sent = [*others(scene, 10), *others(scene, 11)]
    assert fetched == []
    while later:
        later.pop(0)()
        await asyncio.sleep(0)
    scene.whole.call_soon = lambda work: work()
    response = await under_way
    assert fetched == [0 if long == "delete" else OFFSETS], "all of the change, or nothing"
    assert (response.results[0].error_code if long == "delete" else response) == NONE
    responses = [scene.whole.read(await settled(one), request, version) for one, request, version in sent]
    offsets = [one.groups[0].topics[0].partitions[0].committed_offset for one in responses[3::4]]
    assert offsets == [10, 11]
    assert {one.error_code for one in (*responses[0::4], *responses[1::4])} == {NONE}
    assert len(scene.shard.offsets.get(LARGE, {}).get("t", {})) == fetched[0]
    scene.check_log()


async def test_many_offsets_are_fetched_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await Scene.start(tmp_path)
    topics = ["t", *(f"t{number}" for number in range(9))]
    for topic in topics:
        scene.shard.replay_offsets(LARGE, topic, dict.fromkeys(range(1_000), OFFSET))
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    later: list[Callable[[], None]] = []
    scene.whole.call_soon = later.append
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=LARGE, topics=None)])
    sent = scene.whole.send(request, 8)
    assert isinstance(sent, asyncio.Future)
    waits = scene.whole.send(commit_request(group_id=LARGE, offset=77), 7)
    assert isinstance(waits, asyncio.Future), "the offsets do not change meanwhile"
    while later:
        later.pop(0)()
    (group,) = scene.whole.read(await settled(sent), request, 8).groups
    assert [topic.name for topic in group.topics] == topics
    for topic in group.topics:
        assert [(one.partition_index, one.committed_offset) for one in topic.partitions] == [(n, 5) for n in range(1_000)]
    await settled(waits)
    assert scene.shard.offsets[LARGE]["t"][0].offset == 77
    scene.whole.call_soon = lambda work: work()
    assert (await committed(scene.whole, LARGE))[0] == 77
