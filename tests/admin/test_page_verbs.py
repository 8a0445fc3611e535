"""The API has all that the page needs: topics, records, groups and transactions are shown and changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pybroker import __version__
from pybroker.client.partitioner import partition_of
from pybroker.testing import Broker
from tests.admin.api import Api, Reply

SETTINGS: dict[str, str | int] = {"pybroker.admin.listener": "http://127.0.0.1:0", "queued.max.request.bytes": 1 << 27}
BYTES = {"base64": "/w=="}


class Page(Api):
    """The API of a broker in this loop."""

    async def get(self, path: str) -> Any:
        return await self.send("GET", path)

    async def send(self, method: str, path: str, body: object = None) -> Any:
        reply = await self.of_loop(method, path, body)
        assert reply.status < 300, reply
        return reply.body

    async def refused(self, method: str, path: str, body: object = None) -> Reply:
        reply: Reply = await self.of_loop(method, path, body)
        assert reply.status >= 400, reply
        return reply


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def page(broker: Broker) -> Page:
    assert broker.admin_url is not None
    return Page(broker.admin_url)


async def test_the_cluster_is_shown(broker: Broker, page: Page) -> None:
    await broker.create_topic("orders", 3)
    found = await page.get("/v1/cluster")
    assert (found["version"], found["node_id"], found["controller_id"]) == (__version__, 1, 1)
    assert [one["port"] for one in found["brokers"]] == [broker.port]
    assert (found["topic_count"], found["partition_count"], found["under_replicated_count"], found["offline_count"]) == (
        1,
        3,
        0,
        0,
    )
    assert found["broker"] == {
        "listeners": [
            {"name": "PLAINTEXT", "security_protocol": "PLAINTEXT", "address": f"127.0.0.1:{broker.port}", "advertised": None}
        ],
        "connections": 0, "muted_connections": 0, "request_bytes": 0, "request_bytes_max": 1 << 27, "queued_requests": 0,
    }  # fmt: skip


async def test_a_topic_is_made_changed_emptied_and_deleted(broker: Broker, page: Page) -> None:
    new = {
        "name": "orders",
        "partitions": 2,
        "settings": {"retention.ms": 1000, "cleanup.policy": "compact", "min.insync.replicas": None},
    }
    assert await page.send("POST", "/v1/topics", new) == {"name": "orders"}
    found = await page.get("/v1/topics/orders")
    own = {one["name"]: one["value"] for one in found["settings"] if one["source"] == "topic"}
    assert own == {"retention.ms": "1000", "cleanup.policy": "compact"}
    changed = await page.send(
        "PATCH", "/v1/topics/orders", {"partitions": 3, "settings": {"retention.ms": None, "cleanup.policy": "delete"}}
    )
    assert len(changed["partitions"]) == 3
    assert {one["name"]: one["value"] for one in changed["settings"] if one["source"] == "topic"} == {"cleanup.policy": "delete"}
    await broker.produce("orders", b"1", b"2", b"3", partition=1)
    (listed,) = (await page.get("/v1/topics"))["topics"]
    assert listed["size_bytes"] == listed["partitions"][1]["size_bytes"] == (await broker.batches("orders", 1))[0].size
    assert await page.send("POST", "/v1/topics/orders/delete-records", {"partition": 1, "before": 2}) == {"starts": {"1": 2}}
    assert await page.send("POST", "/v1/topics/orders/delete-records", {}) == {"starts": {"0": 0, "1": 3, "2": 0}}
    await page.send("DELETE", "/v1/topics/orders")
    assert await page.get("/v1/topics") == {"topics": []}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "topics", {}, 400, "needs name"),
        ("POST", "topics", {"name": 1}, 400, "name must be string"),
        ("POST", "topics", {"name": "a", "partitions": True}, 400, "partitions must be integer"),
        ("POST", "topics", {"name": "a", "partitions": 0}, 400, "at least 1"),
        ("POST", "topics", {"name": "a", "settings": {"retention.ms": []}}, 400, "retention.ms must be string or"),
        ("POST", "topics", {"name": "a", "settings": {"retention.ms": "x"}}, 400, "INVALID_CONFIG"),
        ("POST", "topics", {"name": "a b"}, 400, "INVALID_TOPIC_EXCEPTION"),
        ("POST", "topics", {"name": "a", "replication_factor": 3}, 400, "INVALID_REPLICATION_FACTOR"),
        ("POST", "topics", {"name": "there"}, 409, "TOPIC_ALREADY_EXISTS"),
        ("GET", "topics/a", None, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("PATCH", "topics/a", {"partitions": 3}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("PATCH", "topics/there", {"partitions": 1}, 400, "INVALID_PARTITIONS"),
        ("DELETE", "topics/a", None, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("POST", "topics/there/delete-records", {"partition": 9}, 404, "no partition 9"),
        ("POST", "topics/there/delete-records", {"partition": 0, "before": 9}, 400, "OFFSET_OUT_OF_RANGE"),
        ("GET", "topics/a/records", None, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("GET", "topics/there/records?partition=9", None, 404, "no partition 9"),
        ("GET", "topics/there/records?offset=1", None, 400, "offset needs partition"),
        ("GET", "topics/there/records?from=x", None, 400, "start, last or end"),
        ("GET", "topics/there/records?next=1:2:3", None, 400, "0:17,1:20"),
        ("GET", "topics/there/records?next=0:1&from=end", None, 400, "exclude each other"),
        ("GET", "topics/there/records?limit=x", None, 400, "limit=x"),
        ("POST", "topics/there/records", {"records": []}, 400, "at least one"),
        ("POST", "topics/there/records", {"records": [{"value": {"base64": "?"}}]}, 400, "value is not base64"),
        ("POST", "topics/there/records", {"records": [{"value": 1}]}, 400, "value must be string or object or null"),
        ("POST", "topics/there/records", {"records": [{"valeu": "1"}]}, 400, r"records[0] has no field valeu"),
        ("POST", "topics/there/records", {"records": [{"value": "1", "partition": 4}]}, 404, "no partition 4"),
        ("POST", "topics/a/records", {"records": [{"value": "1"}]}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("GET", "groups/a", None, 404, "no group a"),
        ("DELETE", "groups/a", None, 404, "GROUP_ID_NOT_FOUND"),
        ("POST", "groups/a/offsets", {"topic": "there"}, 400, "exactly one of"),
        ("POST", "groups/a/offsets", {"topic": "there", "to": "middle"}, 400, "earliest, latest"),
        ("POST", "groups/a/offsets", {"topic": "there", "partition": 9, "offset": 1}, 404, "no partition 9"),
        ("POST", "transactions/a/abort", None, 404, "no transactional id a"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused(
    broker: Broker, page: Page, method: str, path: str, body: object, status: int, text: str
) -> None:
    await broker.create_topic("there", 2)
    reply = await page.refused(method, f"/v1/{path}", body)
    assert (reply.status, text in reply.error) == (status, True), reply
    assert [name for name, one in (await broker.topics()).items() if not one.is_internal] == ["there"]


async def test_records_that_cannot_be_deleted_are_named_with_the_reason(broker: Broker, page: Page) -> None:
    await broker.create_topic("kept", settings={"cleanup.policy": "compact"})
    await broker.create_topic("orders")
    await page.send("POST", "/v1/groups/g/offsets", {"topic": "orders", "to": "earliest"})
    for name, text in (("kept", "kept has cleanup.policy=compact"), ("__consumer_offsets", "is a topic of the broker itself")):
        reply = await page.refused("POST", f"/v1/topics/{name}/delete-records", {})
        assert (reply.status, text in reply.error) == (400, True), reply


async def test_records_are_written_as_they_are_and_shown_so(broker: Broker, page: Page) -> None:
    await broker.create_topic("orders", 2)
    given: list[dict[str, Any]] = [
        {"key": "a", "value": "x", "headers": [{"name": "h", "value": None}, {"name": "h", "value": BYTES}], "timestamp_ms": 1},
        {"key": BYTES, "value": None, "timestamp_ms": 2, "partition": 0},
        {"value": "ä", "timestamp_ms": 3, "partition": 0},
    ]  # fmt: skip
    written = (await page.send("POST", "/v1/topics/orders/records", {"records": given}))["records"]
    by_key = partition_of(b"a", 2)
    assert [one["partition"] for one in written] == [by_key, 0, 0]
    found = await page.get("/v1/topics/orders/records?from=start")
    assert [(one["key"], one["value"], one["headers"], one["timestamp_ms"]) for one in found["records"]] == [
        (one.get("key"), one["value"], one.get("headers", []), one["timestamp_ms"]) for one in given
    ]
    assert [{"partition": one["partition"], "offset": one["offset"]} for one in found["records"]] == written
    consumed = {one.timestamp_ms: one for one in await broker.consume("orders")}
    assert consumed[1].headers == (("h", None), ("h", b"\xff"))
    assert (consumed[2].key, consumed[2].value, consumed[3].value) == (b"\xff", None, "ä".encode())


async def test_records_are_found_by_place_and_time_and_read_on(broker: Broker, page: Page) -> None:
    await broker.create_topic("orders", 2)
    for number in range(10):
        await broker.produce("orders", str(number), partition=number % 2, timestamp_ms=1_000 * number)

    async def values(query: str) -> list[str]:
        return [one["value"] for one in (await page.get(f"/v1/topics/orders/records?{query}"))["records"]]

    assert await values("limit=3") == ["4", "5", "6"], "three of each partition are there, and the earliest come first"
    assert await values("from=start&limit=4") == ["0", "1", "2", "3"]
    assert await values("from=end") == []
    assert await values("partition=1&offset=3") == ["7", "9"]
    assert await values("timestamp_ms=6500") == ["7", "8", "9"]
    assert await values("timestamp_ms=9500") == []
    place, read = "from=start", []
    while (found := await page.get(f"/v1/topics/orders/records?{place}&limit=3"))["records"]:
        read += [one["value"] for one in found["records"]]
        assert found["left"] == 10 - len(read)
        place = f"next={found['next']}"
    assert read == [str(number) for number in range(10)]


async def test_a_window_waits_for_new_records(broker: Broker, page: Page) -> None:
    await broker.create_topic("orders")
    end = (await page.get("/v1/topics/orders/records?from=end"))["next"]
    waiting = asyncio.ensure_future(page.get(f"/v1/topics/orders/records?next={end}&wait_ms=30000"))
    await broker.produce("orders", "new")
    assert [one["value"] for one in (await waiting)["records"]] == ["new"]


async def test_long_values_are_cut_where_that_is_asked_for(broker: Broker, page: Page) -> None:
    await broker.produce("orders", "ä" * 100)
    (one,) = (await page.get("/v1/topics/orders/records?bytes=7"))["records"]
    assert (one["value"], one["size_bytes"]) == ("äää", 200)


async def test_batches_are_shown_as_they_lie(broker: Broker, page: Page) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="shop", compression_type="gzip")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("orders", b"1" * 100)
    await producer.stop()
    data, marker = (await page.get("/v1/topics/orders/batches"))["batches"]
    assert (data["codec"], data["is_transactional"], data["is_control"], data["is_valid"]) == ("gzip", True, False, True)
    assert (marker["base_offset"], marker["is_control"]) == (1, True)
    assert (await page.get("/v1/topics/orders/batches?offset=1"))["batches"] == [marker]
    found = await page.get("/v1/topics/orders/records?from=start")
    assert ([one["offset"] for one in found["records"]], found["next"], found["left"]) == ([0], "0:2", 0)


async def test_an_aborted_transaction_is_hidden_where_that_is_asked_for(broker: Broker, page: Page) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="shop")
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"1")
    (one,) = (await page.get("/v1/transactions"))["transactions"]
    assert (one["transactional_id"], one["is_open"]) == ("shop", True)
    assert (await page.get("/v1/topics/orders/records?committed=true"))["records"] == []
    assert len((await page.get("/v1/topics/orders/records"))["records"]) == 1
    ended = await page.send("POST", "/v1/transactions/shop/abort")
    assert (ended["state"], ended["producer_epoch"] > one["producer_epoch"]) == ("Empty", True)
    await producer.stop()
    assert (await page.get("/v1/topics/orders/records?committed=true"))["records"] == []


async def test_a_group_is_moved_and_removed_when_it_has_no_members(broker: Broker, page: Page) -> None:
    await broker.create_topic("orders", 2)
    for number in range(4):
        await broker.produce("orders", str(number), partition=number % 2, timestamp_ms=1_000 * number)
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="shop", auto_offset_reset="earliest")
    await consumer.start()
    await consumer.getone()
    busy = await page.refused("POST", "/v1/groups/shop/offsets", {"topic": "orders", "to": "latest"})
    assert (busy.status, "has members" in busy.error) == (409, True)
    assert (await page.refused("DELETE", "/v1/groups/shop")).status == 409
    assert len((await page.get("/v1/groups/shop"))["members"]) == 1
    await consumer.stop()
    for body, offsets in (
        ({"to": "latest"}, {"0": 2, "1": 2}),
        ({"to": "earliest", "partition": 1}, {"1": 0}),
        ({"offset": 1}, {"0": 1, "1": 1}),
        ({"offset": 99, "partition": 0}, {"0": 2}),
        ({"timestamp_ms": 1500}, {"0": 1, "1": 1}),
        ({"timestamp_ms": 2500}, {"0": 2, "1": 1}),
    ):
        path, whole = "/v1/groups/shop/offsets", {"topic": "orders", **body}
        before = (await page.get("/v1/groups/shop"))["offsets"]
        assert await page.send("POST", path, {**whole, "dry_run": True}) == {"topic": "orders", "offsets": offsets}
        assert (await page.get("/v1/groups/shop"))["offsets"] == before
        await page.send("POST", path, whole)
        now = {str(one["partition"]): one["offset"] for one in (await page.get("/v1/groups/shop"))["offsets"]}
        assert now.items() >= offsets.items()
    await page.send("DELETE", "/v1/groups/shop")
    assert await page.get("/v1/groups") == {"groups": []}


async def test_a_group_that_has_committed_nothing_has_no_lag(broker: Broker, page: Page) -> None:
    await broker.produce("orders", "1")
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="shop", enable_auto_commit=False)
    await consumer.start()
    for path in ("/v1/groups", "/v1/groups?short=true"):
        assert [one["lag"] for one in (await page.get(path))["groups"]] == [None]
    found = await page.get("/v1/groups/shop")
    assert (found["lag"], found["offsets"], len(found["members"])) == (None, [], 1)
    await consumer.stop()
    await page.send("POST", "/v1/groups/shop/offsets", {"topic": "orders", "to": "latest"})
    assert (await page.get("/v1/groups/shop"))["lag"] == 0


async def test_names_may_have_any_sign(page: Page) -> None:
    name = "a/b?ü"
    await page.send("POST", "/v1/topics", {"name": "orders"})
    await page.send("POST", f"/v1/groups/{quote(name, safe='')}/offsets", {"topic": "orders", "to": "earliest"})
    assert [one["group_id"] for one in (await page.get("/v1/groups"))["groups"]] == [name]
    assert (await page.get(f"/v1/groups/{quote(name, safe='')}"))["state"] == "Empty"


@pytest.mark.parametrize(
    ("part", "name"), [("%252E", "."), ("%252E%252E", ".."), ("%25252E", "%2E"), ("%252e", "%2e"), ("a%252E", "a%2E")]
)
async def test_the_names_that_a_browser_cannot_send_are_encoded_twice(page: Page, part: str, name: str) -> None:
    assert (await page.refused("GET", f"/v1/groups/{part}")).error == f"There is no group {name}"


async def test_more_groups_than_fit_into_a_request_are_shown(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.admin.groups.GROUPS_AT_ONCE", 2)
    await page.send("POST", "/v1/topics", {"name": "orders"})
    for number in range(5):
        await page.send("POST", f"/v1/groups/g{number}/offsets", {"topic": "orders", "to": "earliest"})
    groups = (await page.get("/v1/groups"))["groups"]
    assert [(one["group_id"], len(one["offsets"])) for one in groups] == [(f"g{number}", 1) for number in range(5)]


async def test_the_metrics_are_there_too(page: Page) -> None:
    text = await asyncio.to_thread(page.text, "/metrics")
    assert b"pybroker_native_part" in text
    described = (await page.get("/v1/openapi.json"))["paths"]["/metrics"]["get"]["responses"]
    assert [*described["200"]["content"]] == ["text/plain"]
