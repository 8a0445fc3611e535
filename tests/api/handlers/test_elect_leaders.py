"""ElectLeaders, both kinds, for the only replica and between several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pybroker.api.handlers import elect_leaders
from pybroker.metadata.entries import encode_partition, partition_key
from pybroker.metadata.image import NO_LEADER
from pybroker.metadata.member_entries import session_key
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from testing.scenes.api.cluster import ClusterScene
from tests.api.administration import started, versions

PREFERRED, UNCLEAN = 0, 1
VERSIONS = range(3)


async def three(*, others: tuple[int, ...] = (2, 3)) -> ClusterScene:
    made = [BrokerRegistration(broker_id=BrokerId(n), endpoints={"PLAINTEXT": Endpoint("h", n)}) for n in others]
    return await ClusterScene().start(*made)


async def create(cluster: ClusterScene, *partitions: tuple[tuple[int, ...], int, tuple[int, ...]]) -> None:
    """Create the topic t, and let each partition have these replicas, this leader and this ISR."""
    assignments = tuple((number, tuple(map(BrokerId, replicas))) for number, (replicas, _, _) in enumerate(partitions))
    (outcome,) = await cluster.controller.create_topics([NewTopic(name="t", assignments=assignments, configs={})])
    assert outcome.topic is not None
    for number, (_, leader, isr) in enumerate(partitions):
        state = replace(
            outcome.topic.partitions[number], leader=BrokerId(leader), isr=tuple(map(BrokerId, isr)), partition_epoch=1
        )
        key = partition_key(outcome.topic.topic_id, number)
        await cluster.controller.commit(puts={key: encode_partition(state)})


async def die(cluster: ClusterScene, broker_id: int) -> None:
    await cluster.controller.commit(deletes=[session_key(BrokerId(broker_id))])


async def elect(
    cluster: ClusterScene, kind: int, *partitions: int, version: int = 2, topic: str = "t"
) -> dict[int, tuple[int, str | None]]:
    asked = [TopicPartitions(topic=topic, partitions=list(partitions))] if partitions else None
    response = await cluster.ask(elect_leaders.handle, version, ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    assert response.error_code == 0
    return {
        one.partition_id: (one.error_code, one.error_message)
        for result in response.replica_election_results
        for one in result.partition_result
    }


def state(cluster: ClusterScene) -> list[tuple[int, list[int], int]]:
    return [(one.leader, list(one.isr), one.leader_epoch) for one in cluster.controller.image.topics["t"].partitions]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_first_replica_leads_after_a_preferred_election(version: int) -> None:
    cluster = await three()
    await create(cluster, ((1, 2), 2, (1, 2)), ((1, 2), 1, (1, 2)), ((1, 2), 2, (2,)))
    epoch = cluster.controller.image.leader_epochs.counter
    results = await elect(cluster, PREFERRED, 0, 1, 2, 7, version=version)
    assert results[0] == (ErrorCode.NONE, None)
    assert {number: code for number, (code, _) in results.items()} == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # it is not in sync
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert state(cluster) == [(1, [1, 2], epoch + 1), (1, [1, 2], 0), (2, [2], 0)]


async def test_a_first_replica_that_is_away_cannot_lead() -> None:
    cluster = await three()
    await create(cluster, ((3, 2), 2, (3, 2)))
    await die(cluster, 3)
    assert [code for code, _ in (await elect(cluster, PREFERRED, 0)).values()] == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert [leader for leader, *_ in state(cluster)] == [2]


async def test_the_only_replica_of_a_broker_that_is_away_cannot_lead() -> None:
    cluster = await three()
    await create(cluster, ((3,), 3, (3,)))
    assert [code for code, _ in (await elect(cluster, PREFERRED, 0)).values()] == [ErrorCode.ELECTION_NOT_NEEDED]
    await die(cluster, 3)
    assert [code for code, _ in (await elect(cluster, PREFERRED, 0)).values()] == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert [code for code, _ in (await elect(cluster, UNCLEAN, 0)).values()] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


async def test_a_request_for_all_partitions_gets_those_that_need_an_election() -> None:
    cluster = await three()
    await create(cluster, ((1, 2), 2, (1, 2)), ((1, 2), 1, (1, 2)), ((1, 2), 2, (2,)))
    results = await elect(cluster, PREFERRED)
    assert {number: code for number, (code, _) in results.items()} == {0: 0, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert {number: code for number, (code, _) in (await elect(cluster, PREFERRED)).items()} == {
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


async def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    cluster = await three(others=(2, 3, 4))
    await create(cluster, ((3, 2), NO_LEADER, (3,)), ((1, 2), 2, (1, 2)), ((3, 4), NO_LEADER, (3,)), ((2, 1), NO_LEADER, (1, 3)))
    await die(cluster, 3)
    await die(cluster, 4)
    results = await elect(cluster, UNCLEAN, 0, 1, 2, 3)
    assert {number: code for number, (code, _) in results.items()} == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        3: ErrorCode.NONE,
    }
    # the third has no replica that is live; the last one had one in sync, and loses nothing
    assert [(leader, isr) for leader, isr, _ in state(cluster)] == [(2, [2]), (2, [1, 2]), (NO_LEADER, [3]), (1, [1])]


@pytest.mark.parametrize("version", versions(43))
async def test_no_election_is_needed(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    topics = [
        TopicPartitions(topic="t", partitions=[0, 9]),
        TopicPartitions(topic="nope", partitions=[0]),
    ]
    response = await whole.ask(ElectLeadersRequest(topic_partitions=topics), version)
    not_needed, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[one.error_code for one in topic.partition_result] for topic in response.replica_election_results] == [
        [not_needed, unknown],
        [unknown],
    ]
    response = await whole.ask(ElectLeadersRequest(topic_partitions=None), version)
    assert (response.error_code, response.replica_election_results) == (0, [])
    if version >= 1:
        response = await whole.ask(ElectLeadersRequest(topic_partitions=topics, election_type=5), version)
        assert response.error_code == ErrorCode.INVALID_REQUEST
