"""The commands and the JSON API of the page show the same state, the API as the OpenAPI document of the broker describes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from pybroker.testing import Broker, ThreadBroker
from tests.admin.api import Api
from tests.admin.described import Described
from tests.cli.cluster import commit, objects

SETTINGS: dict[str, str | int] = {"pybroker.admin.listener": "http://127.0.0.1:0"}


class Page:
    """The API of a broker, described by the document that the broker has sent."""

    def __init__(self, url: str) -> None:
        self._api = Api(url)
        self._described = Described(self._api.request("GET", "/v1/openapi.json").body)

    def get(self, path: str) -> Any:
        reply = self._api.request("GET", path)
        assert reply.status == 200, reply
        self._described.check("GET", path, reply.status, reply.body)
        return reply.body


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    """Return a broker with records of all kinds, and a group that has read some of them."""
    with Broker.in_thread(SETTINGS) as broker:
        broker.create_topic("orders", 2, settings={"retention.ms": -1, "max.message.bytes": 500_000})
        broker.create_topic("empty", 3)
        broker.produce("orders", "1", b"\xff", key="k", headers={"h": b"\xfe", "text": b"x"}, timestamp_ms=1_000)
        broker.produce("orders", "ä", partition=1, timestamp_ms=2_000)
        commit(broker.bootstrap, "billing", "orders", {0: 1, 1: 0})
        yield broker


@pytest.fixture
def page(broker: ThreadBroker) -> Page:
    assert broker.admin_url is not None
    return Page(broker.admin_url)


def test_topics_are_the_same(broker: ThreadBroker, page: Page) -> None:
    listed = {one["name"]: one for one in page.get("/v1/topics")["topics"]}
    rows = {one["topic"]: one for one in objects(broker.bootstrap, "topics", "list", "--internal")}
    assert rows.keys() == listed.keys()
    for name, row in rows.items():
        one = listed[name]
        assert row == {
            "topic": name,
            "partitions": len(one["partitions"]),
            "replicas": max(len(each["replicas"]) for each in one["partitions"]),
            "records": one["record_count"],
            "bytes": one["size_bytes"],
            "under_replicated": sum(len(each["isr"]) < len(each["replicas"]) for each in one["partitions"]),
            "offline": sum(each["leader"] < 0 for each in one["partitions"]),
            "internal": one["is_internal"],
        }


def test_a_topic_is_the_same(broker: ThreadBroker, page: Page) -> None:
    found = page.get("/v1/topics/orders")
    (row,) = objects(broker.bootstrap, "topics", "describe", "orders")
    assert (row["id"], row["internal"]) == (found["topic_id"], found["is_internal"])
    assert row["configs"] == {one["name"]: one["value"] for one in found["settings"] if one["source"] == "topic"}
    assert row["of_partitions"] == [
        {
            "topic": "orders",
            "partition": one["index"],
            "leader": one["leader"],
            "replicas": one["replicas"],
            "in_sync": one["isr"],
            "first": one["start"],
            "end": one["end"],
            "records": one["end"] - one["start"],
            "bytes": one["size_bytes"],
        }
        for one in found["partitions"]
    ]


def test_groups_are_the_same(broker: ThreadBroker, page: Page) -> None:
    (short,) = page.get("/v1/groups?short=true")["groups"]
    (found,) = page.get("/v1/groups")["groups"]
    assert page.get("/v1/groups/billing") == found
    assert objects(broker.bootstrap, "groups", "list") == [
        {
            "group": found["group_id"],
            "state": found["state"],
            "type": found["kind"],
            "topics": [one["topic"] for one in short["topics"]],
            "partitions": len(found["offsets"]),
            "lag": short["lag"],
        }
    ]
    rows = objects(broker.bootstrap, "groups", "describe", "billing")
    names = ("topic", "partition", "offset", "end", "lag")
    assert [[row[name] for name in names] for row in rows] == [[one[name] for name in names] for one in found["offsets"]]


def test_records_are_the_same(broker: ThreadBroker, page: Page) -> None:
    found = page.get("/v1/topics/orders/records?from=start")["records"]
    rows = objects(broker.bootstrap, "consume", "orders")
    in_order = sorted(rows, key=lambda row: (row["timestamp_ms"], row["partition"], row["offset"]))
    assert [as_page(row) for row in in_order] == [{**one, "size_bytes": None} for one in found]


def as_page(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record of a command in the form of the API."""

    def content(of: dict[str, Any], name: str) -> Any:
        return {"base64": of[f"{name}_base64"]} if f"{name}_base64" in of else of[name]

    return {
        **{name: row[name] for name in ("partition", "offset", "timestamp_ms")},
        "key": content(row, "key"),
        "value": content(row, "value"),
        "headers": [{"name": one["name"], "value": content(one, "value")} for one in row.get("headers", ())],
        "size_bytes": None,
    }


def test_transactions_are_the_same(broker: ThreadBroker, page: Page) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shop"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=1)
    assert producer.flush(20) == 0
    try:
        (found,) = page.get("/v1/transactions")["transactions"]
        names = ("transactional_id", "state", "producer_id")
        (listed,) = objects(broker.bootstrap, "transactions", "list")
        (row,) = objects(broker.bootstrap, "transactions", "describe", "shop")
        assert {name: listed[name] for name in names} == {name: found[name] for name in names}
        more = (*names, "producer_epoch", "timeout_ms")
        assert {name: row[name] for name in more} == {name: found[name] for name in more}
        assert row["partitions"] == [f"{one['topic']}-{one['partition']}" for one in found["partitions"]] == ["orders-1"]
    finally:
        producer.abort_transaction(20)
