"""The API over HTTP shows and does what the methods in the process do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pybroker.model import topic_id_text
from pybroker.testing import Broker, Cluster
from tests.admin.api import Api

LISTENER = {"pybroker.admin.listener": "http://127.0.0.1:0"}
API_VERSIONS = bytes.fromhex("0000000d001200000000000700036f6e65")  # of the client `one`
DAY_MS = 86_400_000


def api_of(broker: Broker) -> Api:
    assert broker.admin_url is not None
    return Api(broker.admin_url)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(LISTENER, virtual_time=True) as running:
        yield running


async def request(broker: Broker) -> bytes:
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    writer.write(API_VERSIONS)
    response = await reader.read(4)
    writer.close()
    await writer.wait_closed()
    return response


async def test_topics_are_those_of_the_process(broker: Broker) -> None:
    await broker.create_topic("orders", 2)
    await broker.produce("orders", b"1", b"2", partition=1)
    (found,) = (await api_of(broker).of_loop("GET", "/v1/topics")).body["topics"]
    there = (await broker.topics())["orders"]
    assert found["topic_id"] == topic_id_text(there.topic_id)  # type: ignore[arg-type]
    assert (found["name"], found["record_count"], found["is_internal"]) == ("orders", 2, False)
    assert [(one["index"], one["start"], one["end"], one["stable"]) for one in found["partitions"]] == [
        (0, 0, 0, 0),
        (1, 0, 2, 2),
    ]
    assert found["partitions"][0]["isr"] == [1]
    for path in ("groups", "transactions"):
        assert (await api_of(broker).of_loop("GET", f"/v1/{path}")).body == {path: []}


async def test_rules_are_those_of_the_process_and_act(broker: Broker) -> None:
    api = api_of(broker)
    rule = (await api.of_loop("POST", "/v1/faults", {"api": "ApiVersions", "client_id": "one", "close": True})).body
    assert await request(broker) == b""
    assert broker.faults.rules[rule["name"]].count == 1
    assert (await api.of_loop("GET", f"/v1/faults/{rule['name']}")).body["count"] == 1
    await api.of_loop("DELETE", f"/v1/faults/{rule['name']}")
    assert await request(broker) != b""


async def test_requests_of_clients_are_shown(broker: Broker) -> None:
    api = api_of(broker)
    for _ in range(3):
        await request(broker)
    found = (await api.of_loop("GET", "/v1/requests?api=Api*&client_id=one&limit=2")).body
    assert found["count"] == 3
    assert [one["connection"] for one in found["requests"]] == [one.connection for one in broker.requests[1:]]
    shown: dict[str, Any] = found["requests"][0]
    assert shown == {
        "api": "ApiVersions", "version": 0, "client_id": "one", "connection": broker.requests[1].connection,
        "topics": [], "partitions": [], "groups": [], "transactional_ids": [],
    }  # fmt: skip
    assert (await api.of_loop("GET", "/v1/requests?topic=orders")).body == {"count": 0, "requests": []}
    assert (await api.of_loop("GET", "/v1/requests?limit=0")).body == {"count": 3, "requests": []}
    assert (await api.of_loop("GET", "/v1/requests?limit=-1")).status == 400


async def test_time_passes_and_does_what_is_due(broker: Broker) -> None:
    api = api_of(broker)
    await broker.create_topic("events", settings={"retention.ms": 7 * DAY_MS})
    await broker.produce("events", b"1")
    before = (await api.of_loop("GET", "/v1/clock")).body
    assert before["is_virtual"]
    status, after, _ = await api.of_loop("POST", "/v1/clock/advance", {"by": "7d 1m"})
    assert status == 200
    assert 7 * DAY_MS < after["time_ms"] - before["time_ms"] < 8 * DAY_MS
    assert await broker.consume("events") == []
    await api.of_loop("POST", "/v1/clock/advance", {"by": "1d", "only": ["groups"]})
    offsets_ms = (await api.of_loop("GET", "/v1/clock")).body["offsets_ms"]
    assert offsets_ms["groups"] - offsets_ms["logs"] == DAY_MS


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "by must be a text"),
        ({"by": 7}, "by must be a text"),
        ({"by": "7"}, "no duration"),
        ({"by": "1d", "only": "logs"}, "only must be a list"),
        ({"by": "1d", "only": []}, "must be a list of some of logs"),
        ({"by": "1d", "only": ["disks"]}, "which disks is not"),
        ({"by": "1d", "to": "x"}, "no field to"),
    ],
)
async def test_an_advance_that_cannot_be_is_refused(broker: Broker, body: dict[str, Any], text: str) -> None:
    reply = await api_of(broker).of_loop("POST", "/v1/clock/advance", body)
    assert reply.status == 400
    assert text in reply.error


async def test_the_clock_of_the_machine_cannot_be_moved() -> None:
    async with Broker({**LISTENER, "pybroker.admin.requests": 0}) as broker:
        reply = await api_of(broker).of_loop("POST", "/v1/clock/advance", {"by": "1d"})
        assert reply.status == 409
        assert "the broker has the clock of the machine" in reply.error
        clock = (await api_of(broker).of_loop("GET", "/v1/clock")).body
        assert (clock["is_virtual"], clock["offsets_ms"]) == (False, {})


async def test_a_reset_leaves_nothing(broker: Broker) -> None:
    api = api_of(broker)
    broker.faults.add(api="ApiVersions", client_id="one", drop=True)
    await broker.produce("orders", b"1")
    hanging = asyncio.ensure_future(request(broker))
    while not broker.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert (await api.of_loop("POST", "/v1/reset"))[:2] == (200, {"status": "ok"})
    assert await hanging == b""
    assert (broker.requests, broker.faults.rules, await broker.topics()) == ([], {}, {})


async def test_topics_of_a_cluster_are_shown_by_each_broker_and_it_has_no_reset() -> None:
    async with Cluster(2, LISTENER) as cluster:
        await cluster.create_topic("orders", 4, replication_factor=1)
        for partition in range(4):
            await cluster.produce("orders", b"1", partition=partition)
        for url in cluster.admin_urls.values():
            (orders,) = (await Api(url).of_loop("GET", "/v1/topics")).body["topics"]
            assert orders["record_count"] == 4
            assert {one["leader"] for one in orders["partitions"]} == {1, 2}
            reply = await Api(url).of_loop("POST", "/v1/reset")
            assert reply.status == 409
            assert "cluster" in reply.error
        await cluster.kill(2)
        reply = await Api(cluster.admin_urls[1]).of_loop("GET", "/v1/groups")
        assert reply.status in {200, 503}
