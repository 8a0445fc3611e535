"""The page of a broker shows the whole cluster. It asks other brokers as brokers ask each other, for what its user may see."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from pybroker.client.connection import Connection
from pybroker.client.frames import Frames
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pybroker.security.acl.binding import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.security.sasl.plain import MODULE
from pybroker.testing import Cluster
from testing.clients.certificates import Stores
from tests.admin.api import Api, Reply

TOKEN = "of-the-operator"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": AUTHORIZERS[0],
    "super.users": "User:broker;User:ANONYMOUS",
    "pybroker.admin.listener": "http://127.0.0.1:0",
    "pybroker.admin.token": TOKEN,
}
USERS = f'{MODULE} required username="broker" password="b-secret" user_broker="b-secret" user_bob="secret";'
PARTITIONS = 4


def settings_of(protocol: str, folder: Path) -> dict[str, str]:
    stores = Stores(folder).of_broker() if protocol == "SASL_SSL" else {}
    return {
        **SETTINGS,
        **stores,
        "listeners": f"PLAINTEXT://127.0.0.1:0,{protocol}://127.0.0.1:0",
        "inter.broker.listener.name": protocol,
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": USERS,
    }


class Page:
    """The page of broker 1."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self._api = cluster, Api(cluster.admin_urls[1])

    async def operator(self, method: str, path: str, body: object = None) -> Reply:
        return await self._send(f"Bearer {TOKEN}", method, path, body)

    async def bob(self, method: str, path: str, body: object = None) -> Reply:
        return await self._send(f"Basic {base64.b64encode(b'bob:secret').decode()}", method, path, body)

    async def _send(self, authorization: str, method: str, path: str, body: object) -> Reply:
        reply: Reply = await self._api.of_loop(method, path, body, headers={"Authorization": authorization})
        return reply

    async def allow(self, operation: AclOperation, resource: ResourceType, name: str) -> None:
        """Allow something to bob."""
        acl = AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:bob",
            host="127.0.0.1",
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )

        def send() -> None:
            host, _, port = self.cluster.bootstrap.partition(",")[0].rpartition(":")
            with Frames(socket.create_connection((host, int(port))), address="", client_id="test") as frames:
                response = Connection(frames).call(CreateAclsRequest(creations=[acl]), 2)
            assert [one.error_code for one in response.results] == [0]

        await asyncio.to_thread(send)


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Page]:
    async with Cluster(2, settings_of(request.param, tmp_path)) as cluster:
        yield Page(cluster)


async def test_a_page_shows_what_other_brokers_lead_to_those_that_may_see_it(page: Page) -> None:
    names = ("orders", "hidden")
    for name in names:
        body = {"name": name, "partitions": PARTITIONS, "replication_factor": 1}
        assert (await page.operator("POST", "/v1/topics", body)).status == 201
        records = {"records": [{"value": f"{name} {number}", "partition": number} for number in range(PARTITIONS)]}
        assert (await page.operator("POST", f"/v1/topics/{name}/records", records)).status == 201
        for number in range(8):
            moved = await page.operator("POST", f"/v1/groups/{name}-{number}/offsets", {"topic": name, "to": "earliest"})
            assert moved.status == 200, moved
    found = (await page.operator("GET", "/v1/topics/orders")).body["partitions"]
    assert {one["leader"] for one in found} == {1, 2}
    assert [(one["end"], one["size_bytes"] > 0) for one in found] == [(1, True)] * PARTITIONS
    assert len((await page.operator("GET", "/v1/groups")).body["groups"]) == 16

    async def seen(path: str) -> Any:
        reply = await page.bob("GET", path)
        assert reply.status == 200, reply
        return reply.body

    assert await seen("/v1/topics") == {"topics": []}
    assert await seen("/v1/groups") == {"groups": []}
    for operation in (AclOperation.READ, AclOperation.DESCRIBE):
        await page.allow(operation, ResourceType.TOPIC, "orders")
    for number in range(8):
        await page.allow(AclOperation.DESCRIBE, ResourceType.GROUP, f"orders-{number}")
    (topic,) = (await seen("/v1/topics"))["topics"]
    assert [(one["end"], one["size_bytes"]) for one in topic["partitions"]] == [(1, None)] * PARTITIONS
    groups = (await seen("/v1/groups?short=true"))["groups"]
    assert [(one["group_id"], one["lag"]) for one in groups] == [(f"orders-{number}", PARTITIONS) for number in range(8)]
    shown = (await seen("/v1/topics/orders/records?from=start"))["records"]
    assert sorted(one["value"] for one in shown) == [f"orders {number}" for number in range(PARTITIONS)]
    attempts: tuple[tuple[str, str, Any], ...] = (
        ("GET", "/v1/topics/hidden/records", None),
        ("POST", "/v1/topics/orders/records", {"records": [{"value": "", "partition": one} for one in range(PARTITIONS)]}),
        ("POST", "/v1/topics/orders/delete-records", {}),
        ("POST", "/v1/groups/orders-0/offsets", {"topic": "orders", "to": "latest"}),
        ("POST", "/v1/groups/hidden-0/offsets", {"topic": "orders", "to": "latest"}),
        ("DELETE", "/v1/groups/orders-1", None),
    )
    for method, path, given in attempts:
        refused = await page.bob(method, path, given)
        assert (refused.status, "AUTHORIZATION_FAILED" in refused.error) == (403, True), (path, refused)
    assert [one["end"] for one in (await seen("/v1/topics"))["topics"][0]["partitions"]] == [1] * PARTITIONS
    await page.allow(AclOperation.WRITE, ResourceType.TOPIC, "orders")
    more = {"records": [{"value": "bob", "partition": one} for one in range(PARTITIONS)]}
    assert (await page.bob("POST", "/v1/topics/orders/records", more)).status == 201
    assert [one["end"] for one in (await seen("/v1/topics"))["topics"][0]["partitions"]] == [2] * PARTITIONS


async def test_transactions_of_other_brokers_are_shown_and_aborted_by_those_that_may(page: Page) -> None:
    ids = [f"shop-{number}" for number in range(6)]
    producers = [AIOKafkaProducer(bootstrap_servers=page.cluster.bootstrap, transactional_id=one) for one in ids]
    for producer in producers:
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"1")
    assert (await page.bob("GET", "/v1/transactions")).body == {"transactions": []}
    for name in ids:
        await page.allow(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
        assert (await page.bob("POST", f"/v1/transactions/{name}/abort")).status == 403
        await page.allow(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    listed = (await page.bob("GET", "/v1/transactions")).body["transactions"]
    assert [(one["transactional_id"], one["is_open"], one["partitions"]) for one in listed] == [(name, True, []) for name in ids]
    for name in ids:
        assert (await page.bob("POST", f"/v1/transactions/{name}/abort")).body["state"] == "Empty"
    for producer in producers:
        await producer.stop()


async def test_what_a_broker_that_is_gone_has_led_is_without_a_leader(page: Page) -> None:
    body = {"name": "orders", "partitions": PARTITIONS, "replication_factor": 1}
    assert (await page.operator("POST", "/v1/topics", body)).status == 201
    await page.cluster.kill(2)
    found = (await page.operator("GET", "/v1/topics/orders")).body["partitions"]
    assert {one["leader"] for one in found} == {1, -1}
    assert (await page.operator("GET", "/v1/cluster")).body["offline_count"] > 0
