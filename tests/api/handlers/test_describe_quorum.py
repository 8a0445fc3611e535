"""DescribeQuorum shows as voters the controllers that the settings number; elsewhere it shows the elected controller alone."""

from __future__ import annotations

import pytest

from pybroker.api.handlers import describe_quorum
from pybroker.metadata.controllers import ControllerStanding
from pybroker.metadata.member_entries import CONTROLLER_KEY, session_key
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.model import ZERO_TOPIC_ID, BrokerId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, ReplicaState, TopicData
from testing.scenes.api.cluster import ClusterScene

VERSIONS = range(message_versions(ApiKey.DESCRIBE_QUORUM)[1] + 1)


def asking(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    parts = [TopicData(topic_name=name, partitions=[PartitionData(partition_index=one) for one in ones]) for name, ones in topics]
    return DescribeQuorumRequest(topics=parts)


METADATA = asking(("__cluster_metadata", [0]))


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_quorum_of_a_broker_that_is_alone_is_this_broker(version: int) -> None:
    cluster = await ClusterScene().start()
    cluster.broker.clock.advance(1234)  # type: ignore[attr-defined]  # a manual one
    response = await cluster.ask(describe_quorum.handle, version, METADATA)
    assert response.error_code == 0
    ((topic_name, (partition,)),) = [(topic.topic_name, topic.partitions) for topic in response.topics]
    assert (topic_name, partition.partition_index, partition.error_code) == ("__cluster_metadata", 0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.observers) == (1, 0, [])
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.replica_directory_id) == (1, ZERO_TOPIC_ID)
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == ((1234, 1234) if version >= 1 else (-1, -1))
    nodes = [(node.node_id, [(one.name, one.host, one.port) for one in node.listeners]) for node in response.nodes]
    assert nodes == ([(1, [("PLAINTEXT", "10.0.0.7", 9092)])] if version >= 2 else [])


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_controller_leads_and_the_other_live_brokers_observe(version: int) -> None:
    others = [BrokerRegistration(broker_id=BrokerId(n), endpoints={"PLAINTEXT": Endpoint("h", n)}) for n in (2, 3, 4)]
    cluster = await ClusterScene().start(*others)
    await cluster.controller.commit(puts={CONTROLLER_KEY: b"2"}, deletes=[session_key(BrokerId(4))])
    cluster.broker.clock.advance(1234)  # type: ignore[attr-defined]  # a manual one
    response = await cluster.ask(describe_quorum.handle, version, METADATA)
    (partition,) = response.topics[0].partitions
    end = cluster.controller.image.revision
    known, unknown = ((1234, 1234), (-1, -1)) if version >= 1 else ((-1, -1), (-1, -1))

    def shown(replicas: list[ReplicaState]) -> list[tuple[int, int, tuple[int, int]]]:
        return [
            (one.replica_id, one.log_end_offset, (one.last_fetch_timestamp, one.last_caught_up_timestamp)) for one in replicas
        ]

    assert (partition.leader_id, partition.high_watermark) == (2, end)
    assert shown(partition.current_voters) == [(2, end, known)]
    assert shown(partition.observers) == [(1, end, known), (3, -1, unknown)]
    nodes = [(node.node_id, [(one.name, one.host, one.port) for one in node.listeners]) for node in response.nodes]
    assert nodes == ([(2, [("PLAINTEXT", "h", 2)])] if version >= 2 else [])


async def test_each_commit_of_the_store_moves_the_log_end_and_the_high_watermark() -> None:
    cluster = await ClusterScene().start()

    async def ends() -> tuple[int, int]:
        response = await cluster.ask(describe_quorum.handle, 2, METADATA)
        (partition,) = response.topics[0].partitions
        return partition.current_voters[0].log_end_offset, partition.high_watermark

    _, before = await cluster.controller._store.list()
    assert await ends() == (before, before)
    await cluster.create("t")
    await cluster.controller.producer_ids.next()
    _, after = await cluster.controller._store.list()
    assert after == before + 2
    assert await ends() == (after, after)


def standing(number: int, revision: int, *, is_leader: bool = False) -> ControllerStanding:
    return ControllerStanding(BrokerId(number), f"kafka-{number}", 9093, is_leader=is_leader, epoch=7, revision=revision)


async def cluster_of(*controllers: ControllerStanding) -> ClusterScene:
    """Return brokers 1, 2 and 8 of a cluster whose controllers report this."""
    others = [BrokerRegistration(broker_id=BrokerId(n), endpoints={}) for n in (2, 8)]
    cluster = await ClusterScene(controller_listener_names=("CONTROL",)).start(*others)
    cluster.broker.clock.advance(1234)  # type: ignore[attr-defined]  # a manual one

    async def ask() -> tuple[ControllerStanding, ...]:
        return controllers

    cluster.broker.ask_controllers = ask
    return cluster


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_controllers_that_the_settings_number_are_the_voters(version: int) -> None:
    cluster = await cluster_of(standing(2, 70), standing(3, 71, is_leader=True), standing(4, -1))
    response = await cluster.ask(describe_quorum.handle, version, METADATA)
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch, partition.high_watermark) == (0, 3, 7, 71)
    replicas = [*partition.current_voters, *partition.observers]
    end = cluster.controller.image.revision
    assert [(one.replica_id, one.log_end_offset) for one in replicas] == [(2, 70), (3, 71), (4, -1), (1, end), (8, -1)]
    if version >= 1:
        times = [(one.last_fetch_timestamp, one.last_caught_up_timestamp) for one in replicas]
        assert times == [(1234, -1), (1234, 1234), (-1, -1), (1234, 1234), (-1, -1)]
    nodes = [(node.node_id, [(one.name, one.host, one.port) for one in node.listeners]) for node in response.nodes]
    assert nodes == ([(n, [("CONTROL", f"kafka-{n}", 9093)]) for n in (2, 3, 4)] if version >= 2 else [])


@pytest.mark.parametrize("version", VERSIONS)
async def test_there_is_no_quorum_while_no_controller_leads(version: int) -> None:
    cluster = await cluster_of(standing(2, 70), standing(3, -1), standing(4, -1))
    response = await cluster.ask(describe_quorum.handle, version, METADATA)
    (partition,) = response.topics[0].partitions
    assert (response.error_code, partition.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (partition.current_voters, partition.observers, response.nodes) == ([], [], [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "request_",
    [
        asking(("__cluster_metadata", [1])),
        asking(("__cluster_metadata", [0, 1])),
        asking(("__cluster_metadata", [0]), ("__cluster_metadata", [0])),
        asking(("t", [0, 7])),
        asking(),
    ],
)
async def test_nothing_else_is_described(version: int, request_: DescribeQuorumRequest) -> None:
    cluster = await ClusterScene().start()
    response = await cluster.ask(describe_quorum.handle, version, request_)
    assert (response.error_code, response.nodes) == (0, [])
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = [(t.topic_name, p.partition_index, p.error_code, p.current_voters) for t in response.topics for p in t.partitions]
    assert found == [(t.topic_name, p.partition_index, code, []) for t in request_.topics for p in t.partitions]
