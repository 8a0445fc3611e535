"""UnregisterBroker: a broker that is gone for good, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.api.handlers import unregister_broker
from pybroker.metadata.member_entries import session_key
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from testing.scenes.api.cluster import ClusterScene


async def three() -> ClusterScene:
    made = [BrokerRegistration(broker_id=BrokerId(n), endpoints={"PLAINTEXT": Endpoint("h", n)}) for n in (2, 3)]
    return await ClusterScene().start(*made)


async def unregister(cluster: ClusterScene, broker_id: int) -> Any:
    return await cluster.ask(unregister_broker.handle, 0, UnregisterBrokerRequest(broker_id=broker_id))


async def test_a_broker_that_is_gone_for_good_is_taken_out() -> None:
    cluster = await three()
    replicas = tuple(map(BrokerId, (1, 3)))
    await cluster.controller.create_topics([NewTopic(name="t", assignments=((0, replicas),), configs={})])
    await cluster.controller.commit(deletes=[session_key(BrokerId(3))])
    assert (await unregister(cluster, 3)).error_code == 0
    assert sorted(cluster.controller.image.registered) == [1, 2]
    assert [one.replicas for one in cluster.controller.image.topics["t"].partitions] == [(1, 3)]
    back = BrokerRegistration(broker_id=BrokerId(3), endpoints={})
    await cluster.controller.register_broker(back)
    assert sorted(cluster.controller.image.registered) == [1, 2, 3]


async def test_a_live_broker_and_an_unknown_one_are_refused() -> None:
    cluster = await three()
    for broker_id, code, text in (
        (
            2,
            ErrorCode.INVALID_REQUEST,
            (
                "Broker 2 is live: stop it before it is unregistered. If it was killed, try again when its session has ended, "
                "9000 ms after that (broker.session.timeout.ms)"
            ),
        ),
        (9, ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 9 is not currently registered"),
    ):
        with pytest.raises(KafkaError) as caught:
            await unregister(cluster, broker_id)
        assert (caught.value.code, caught.value.message) == (code, text)
    assert sorted(cluster.controller.image.registered) == [1, 2, 3]
