"""Each broker coordinates the groups and transactional ids whose partitions it leads, also if no client has asked it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from testing.simulation.cluster.cluster import SESSION_MS, Cluster

if TYPE_CHECKING:
    from collections.abc import Coroutine

START_MS = 20_000
PARTITIONS = 4


def run(cluster: Cluster, work: Coroutine[Any, Any, Any]) -> Any:
    task = cluster.clients.loop.create_task(work)
    assert cluster.scheduler.run_until(task.done, within_ms=START_MS)
    return task.result()


def loaded(cluster: Cluster, kind: str) -> dict[int, int]:
    """Return the brokers that have loaded the partitions, by number."""
    found = {}
    for node, life in cluster.lives.items():
        coordinator = getattr(life.broker, f"_{kind}")
        for number in coordinator.runtime.partitions() if coordinator is not None else ():
            assert number not in found, "two brokers coordinate the partition"
            found[number] = node
    return found


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    partitions = next(iter(cluster.lives.values())).broker.controller.image.topics[topic].partitions
    for number in range(len(partitions)):
        assert TopicPartition(topic, number) in next(iter(cluster.lives.values())).broker.replica_manager.partitions
    return {number: one.leader for number, one in enumerate(partitions)}


def started(cluster: Cluster) -> None:
    cluster.start_all()
    assert cluster.scheduler.run_until(lambda: all(one.has_started for one in cluster.lives.values()), within_ms=START_MS)
    cluster.scheduler.run_for(1_000)  # until each of them knows that the others are live


def test_a_member_that_waits_gets_a_response_as_soon_as_its_coordinator_has_lost_the_cluster() -> None:
    with Cluster.open(2, group_initial_rebalance_delay_ms=60_000) as cluster:
        started(cluster)
        found = run(cluster, cluster.peers().ask(1, FindCoordinatorRequest(key="g"), lane="test", timeout_ms=5_000, version=3))
        cluster.scheduler.run_for(1_000)
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        join = cluster.clients.loop.create_task(
            cluster.peers().ask(found.node_id, request, lane="member", timeout_ms=60_000, version=3)
        )
        cluster.scheduler.run_for(1_000)
        assert not join.done()
        cluster.store.process.loop.is_paused = True
        cluster.scheduler.run_for(SESSION_MS + 1_000)
        assert join.done()
        assert join.result().error_code == ErrorCode.NOT_COORDINATOR
        cluster.heal()
        cluster.scheduler.run_for(SESSION_MS + 2_000)
        assert loaded(cluster, "groups") == leaders(cluster, "__consumer_offsets")
        assert not cluster.problems


@pytest.mark.parametrize(
    ("kind", "topic", "key_type"), [("groups", "__consumer_offsets", 0), ("transactions", "__transaction_state", 1)]
)
def test_each_broker_coordinates_what_it_leads(kind: str, topic: str, key_type: int) -> None:
    settings: dict[str, Any] = {"offsets_topic_num_partitions": PARTITIONS, "transaction_state_log_num_partitions": PARTITIONS}
    with Cluster.open(2, **settings) as cluster:
        started(cluster)
        request = FindCoordinatorRequest(key="x", key_type=key_type)
        response = run(cluster, cluster.peers().ask(1, request, lane="test", timeout_ms=5_000, version=3))
        assert response.error_code == 0
        cluster.scheduler.run_for(1_000)
        assert len(set(leaders(cluster, topic).values())) == 3
        assert loaded(cluster, kind) == leaders(cluster, topic)
        cluster.kill(2)
        cluster.scheduler.run_for(SESSION_MS + 2_000)
        assert set(leaders(cluster, topic).values()) == {1, 3}
        assert loaded(cluster, kind) == leaders(cluster, topic)
        assert not cluster.problems
