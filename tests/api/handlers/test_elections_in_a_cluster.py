"""ElectLeaders between several replicas, both kinds, and UnregisterBroker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pybroker.api.handlers import elect_leaders, unregister_broker
from pybroker.metadata.entries import encode_partition, partition_key
from pybroker.metadata.image import NO_LEADER
from pybroker.metadata.member_entries import session_key
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pybroker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from testing.scenes.api.cluster import ClusterScene

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


async def unregister(cluster: ClusterScene, broker_id: int) -> Any:
    return await cluster.ask(unregister_broker.handle, 0, UnregisterBrokerRequest(broker_id=broker_id))


async def test_a_broker_that_is_gone_for_good_is_taken_out() -> None:
    cluster = await three()
    await create(cluster, ((1, 3), 1, (1, 3)))
    await die(cluster, 3)
    assert (await unregister(cluster, 3)).error_code == 0
    assert sorted(cluster.controller.image.registered) == [1, 2]
    assert [one.replicas for one in cluster.controller.image.topics["t"].partitions] == [(1, 3)]
    back = BrokerRegistration(broker_id=BrokerId(3), endpoints={})
    await cluster.controller.register_broker(back)
    assert sorted(cluster.controller.image.registered) == [1, 2, 3]


async def test_a_live_broker_and_an_unknown_one_are_refused() -> None:
    cluster = await three()
    for broker_id, code, text in (
        (2, ErrorCode.INVALID_REQUEST, "Broker 2 is live: stop it before it is unregistered"),
        (9, ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 9 is not currently registered"),
    ):
        with pytest.raises(KafkaError, match=text) as caught:
            await unregister(cluster, broker_id)
        assert caught.value.code is code
    assert sorted(cluster.controller.image.registered) == [1, 2, 3]
