"""A shard serves one leader epoch of its partition: nothing of it counts when the leadership has ended, or has begun again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from testing.scenes.api.groups import GROUP, broker, commit_request, join_request, member
from testing.scenes.api.whole import Whole
from testing.scenes.members import elect
from tests.api.transactions import Producer
from tests.api.transactions import broker as transactional_broker

PARTITION = TopicPartition("__consumer_offsets", 1)  # of GROUP


def end_leadership_unnoticed(whole: Whole) -> None:
    """Let the replica follow another leader before the coordinator has followed the change."""
    replica = whole.replicas.partition_or_raise(PARTITION)
    replica.is_leader = False


async def commit(whole: Whole, offset: int) -> int:
    response = await whole.ask(commit_request(offset=offset), 8)
    (code,) = {one.error_code for topic in response.topics for one in topic.partitions}
    return int(code)


def heartbeat(member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)


async def test_a_shard_is_loaded_again_under_a_higher_epoch(tmp_path: Path) -> None:
    """Another broker may have led in between, without a change that shows it."""
    whole = await broker(tmp_path)
    assert await commit(whole, 4) == ErrorCode.NONE
    (before,) = [one for one in whole.groups.runtime.shards if one.offsets]
    await elect(whole.controller, PARTITION, 1)
    (after,) = [one for one in whole.groups.runtime.shards if one.offsets]
    assert after is not before
    assert whole.groups.runtime.leader_epochs()[1] == whole.replicas.partition_or_raise(PARTITION).leader_epoch
    assert await commit(whole, 5) == ErrorCode.NONE


async def test_a_change_that_leaves_the_epoch_leaves_the_shard(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await commit(whole, 4) == ErrorCode.NONE
    before = list(whole.groups.runtime.shards)
    await elect(whole.controller, TopicPartition("t", 0), 2)
    assert list(whole.groups.runtime.shards) == before


async def test_members_that_wait_are_sent_to_the_next_coordinator(tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_initial_rebalance_delay_ms=3_000)
    waiting = whole.send(join_request(), 3)
    assert isinstance(waiting, asyncio.Future)
    await elect(whole.controller, PARTITION, 2)
    assert waiting.done()
    assert whole.read(waiting.result(), join_request(), 3).error_code == ErrorCode.NOT_COORDINATOR
    assert 1 not in whole.groups.runtime.partitions()


async def test_a_coordinator_whose_leadership_has_ended_responds_nothing_that_it_knew(tmp_path: Path) -> None:
    """The replica is a follower in the step that replaces the image; the coordinator follows some slices later."""
    whole = await broker(tmp_path)
    member_id = await member(whole)
    log = whole.replicas.partition_or_raise(PARTITION).log
    end_offset = log.log_end_offset
    end_leadership_unnoticed(whole)
    for request in (heartbeat(member_id), heartbeat("a member that the next coordinator may know")):
        assert (await whole.ask(request, 4)).error_code == ErrorCode.NOT_COORDINATOR
    assert await commit(whole, 5) == ErrorCode.NOT_COORDINATOR
    whole.pass_time(60_000)  # the session of the member ends, and nothing is written of it
    assert log.log_end_offset == end_offset


async def test_a_transaction_is_fenced_by_the_epoch_of_its_partition(tmp_path: Path) -> None:
    """The epoch of a coordinator grows with its leadership, so that partitions refuse what an older one decided."""
    whole = await transactional_broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == ErrorCode.NONE
    partition = whole.transactions._partition(producer.tid)
    where = TopicPartition("__transaction_state", partition)
    await elect(whole.controller, where, 1)
    (shard,) = [one for one in whole.transactions.runtime.shards if one.partition == partition]
    assert int(shard.coordinator_epoch) == whole.replicas.partition_or_raise(where).leader_epoch
    assert await producer.send(0, b"a") == ErrorCode.NONE
    assert await producer.end(commit=True) == ErrorCode.NONE
