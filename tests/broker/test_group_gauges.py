"""The groups as the metrics' thread reads them: members, states, committed offsets and lag, while the loop changes them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pybroker.broker.group_gauges import register_groups
from pybroker.metrics.broker_metrics import BrokerMetrics, CommittedReading, GroupReading
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.api.groups import GROUP, broker, commit_request, member
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole


def readings(whole: Whole) -> dict[str, GroupReading]:
    metrics = BrokerMetrics()
    register_groups(metrics, lambda: whole.groups, whole.replicas)
    return {one.group_id: one for one in metrics.groups()}


def offsets(one: GroupReading) -> list[CommittedReading]:
    found = sorted(one.read_offsets())
    assert one.offset_count == len(found)
    return found


async def produce(whole: Whole, partition: int, count: int) -> None:
    data = PartitionProduceData(index=partition, records=batch_of_values(*[b"v"] * count))
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    await whole.ask(request, 7)


def test_a_broker_without_groups_has_none() -> None:
    metrics = BrokerMetrics()
    assert list(metrics.groups()) == []
    register_groups(metrics, lambda: None, cast("ReplicaManager", None))
    assert list(metrics.groups()) == []


async def test_a_classic_group_has_members_a_state_and_lag(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await produce(whole, 0, 7)
    member_id = await member(whole)
    one = readings(whole)[GROUP]
    assert (one.protocol, one.state, one.member_count, offsets(one)) == ("classic", "Stable", 1, [])
    for partition in (0, 1):
        request = commit_request(partition=partition, offset=5, member_id=member_id, generation_id_or_member_epoch=1)
        assert (await whole.ask(request, 7)).topics[0].partitions[0].error_code == 0
    assert offsets(readings(whole)[GROUP]) == [
        CommittedReading("t", 0, 5, 2),
        CommittedReading("t", 1, 5, 0),  # beyond the end of an empty partition: a lag is never negative
    ]


async def test_groups_of_both_protocols_and_without_members_are_there(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="new",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert (await whole.ask(beat, 1)).error_code == 0
    assert (await whole.ask(commit_request(group_id="simple"), 7)).topics[0].partitions[0].error_code == 0
    found = readings(whole)
    assert (found["new"].protocol, found["new"].state, found["new"].member_count) == ("consumer", "Stable", 1)
    assert (found["simple"].protocol, found["simple"].state, found["simple"].member_count) == ("classic", "Empty", 0)


async def test_the_loop_may_change_the_groups_while_they_are_read(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    for name in ("first", "second", "third"):
        await whole.ask(commit_request(group_id=name, partition=0), 7)
    metrics = BrokerMetrics()
    register_groups(metrics, lambda: whole.groups, whole.replicas)
    seen: list[str] = []
    for one in metrics.groups():
        rest = iter(one.read_offsets())
        assert next(rest).partition == 0
        await whole.ask(commit_request(group_id=one.group_id, partition=1), 7)
        await whole.ask(commit_request(group_id=f"beside {one.group_id}"), 7)
        assert list(rest) == []
        seen.append(one.group_id)
    assert {"first", "second", "third"} <= {*seen}
