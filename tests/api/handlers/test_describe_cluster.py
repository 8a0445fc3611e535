"""The brokers that DescribeCluster returns; other types of endpoints are refused, and a controller out of reach is not named."""

from __future__ import annotations

import pytest

from pybroker.api.handlers import describe_cluster
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.model import BrokerId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_cluster import DescribeClusterRequest
from testing.scenes.api.cluster import ClusterScene

VERSIONS = range(message_versions(ApiKey.DESCRIBE_CLUSTER)[1] + 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operations", [False, True])
async def test_the_brokers_in_every_version(version: int, operations: bool) -> None:
    other = BrokerRegistration(broker_id=BrokerId(2), endpoints={"PLAINTEXT": Endpoint("two", 2)})
    cluster = await ClusterScene().start(other)
    request = DescribeClusterRequest(include_cluster_authorized_operations=operations, include_fenced_brokers=version >= 2)
    response = await cluster.ask(describe_cluster.handle, version, request)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "cluster-id", 1)
    assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in response.brokers] == [
        (1, "10.0.0.7", 9092, "r1", False),
        (2, "two", 2, None, False),
    ]
    assert response.cluster_authorized_operations == (8096 if operations else -(2**31))
    assert response.endpoint_type == 1


async def test_a_broker_that_is_not_live_is_shown_as_fenced_to_those_that_ask_for_it() -> None:
    cluster = await ClusterScene().start()
    away = BrokerRegistration(broker_id=BrokerId(2), endpoints={"PLAINTEXT": Endpoint("two", 2)}, rack="r")
    await cluster.controller.register_broker(away)
    for is_included, expected in ((False, [(1, False)]), (True, [(1, False), (2, True)])):
        request = DescribeClusterRequest(include_fenced_brokers=is_included)
        response = await cluster.ask(describe_cluster.handle, VERSIONS.stop - 1, request)
        assert [(one.broker_id, one.is_fenced) for one in response.brokers] == expected


@pytest.mark.parametrize("version", range(1, VERSIONS.stop))
@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_other_endpoints_are_refused(version: int, endpoint_type: int, code: ErrorCode) -> None:
    cluster = await ClusterScene().start()
    response = await cluster.ask(describe_cluster.handle, version, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (response.error_code, response.brokers) == (code, [])
    assert response.error_message


async def test_a_controller_out_of_reach_is_not_named() -> None:
    cluster = await ClusterScene().start()
    await cluster.controller._store.commit(deletes=["brokers/1"])
    response = await cluster.ask(describe_cluster.handle, 0, DescribeClusterRequest())
    assert (response.controller_id, response.brokers) == (-1, [])
