"""A broker shows what its clients used, also those of its earlier lives."""

from __future__ import annotations

import asyncio
import logging
import struct
import zlib

import pytest

from pybroker.api.seen_clients import SeenClient
from pybroker.log.checkpoints.checkpoint import CLIENTS_FILE
from pybroker.testing import Broker
from testing.wire.raw import API_VERSIONS, Ask, Connection, fetch_one, produce

RECORDS = 10


def message(value: bytes) -> bytes:
    """Return a message of magic 0, without a key."""
    data = struct.pack(">bbii", 0, 0, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(data) + 4, zlib.crc32(data)) + data


def use(bootstrap: str) -> None:
    """Write and read as a client of 0.9 does."""
    with Connection(bootstrap) as connection:
        connection.call(API_VERSIONS, 0, b"")
        produce(connection, 1, "orders", message(b"value") * RECORDS)
        fetch_one(connection, 1, Ask(topic="orders", offset=0))
        connection.call(API_VERSIONS, 0, b"")


async def work(broker: Broker) -> None:
    if "orders" not in await broker.topics():
        await broker.create_topic("orders")
    await asyncio.to_thread(use, broker.bootstrap)


def only(clients: list[SeenClient]) -> SeenClient:
    (client,) = clients
    return client


async def test_a_client_is_shown_with_what_it_used() -> None:
    async with Broker() as broker:
        await work(broker)
        client = only(await broker.clients())
    assert (client.client_id, client.host, client.software_name) == ("raw", "127.0.0.1", "")
    assert client.requests == {"Produce": {1: 1}, "Fetch": {1: 1}, "ApiVersions": {0: 2}}
    assert (client.up_converted_requests, client.down_converted_records) == (1, RECORDS)
    assert client.refused_by_kafka_4 == ("Produce v1 (Kafka 4 begins with v3)", "Fetch v1 (Kafka 4 begins with v4)")
    assert client.connections_made == 1
    assert client.bytes_in > RECORDS * 10
    assert client.bytes_out > RECORDS * 10


@pytest.mark.parametrize("is_reset", [False, True])
async def test_clients_outlast_a_restart_but_not_a_reset(*, is_reset: bool) -> None:
    async with Broker() as broker:
        await work(broker)
        before = only(await broker.clients())
        if is_reset:
            await broker.reset()
        await broker.restart()
        after = await broker.clients()
        if is_reset:
            assert after == []
            return
        assert only(after)._replace(last_seen_ms=0, connections=0) == before._replace(last_seen_ms=0, connections=0)
        await work(broker)
        assert only(await broker.clients()).requests["ApiVersions"] == {0: 4}


async def test_a_damaged_file_is_one_warning_and_counts_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    async with Broker() as broker:
        await work(broker)
        await broker.kill()
        path = broker._of_life.path / "data" / CLIENTS_FILE
        path.write_bytes(b"{")
        caplog.clear()
        with caplog.at_level(logging.WARNING, "pybroker.broker.kept_clients"):
            await broker.restart()
            assert await broker.clients() == []
            await work(broker)
            assert only(await broker.clients()).requests["ApiVersions"] == {0: 2}
            await broker.restart()
        assert len([one for one in caplog.records if one.name == "pybroker.broker.kept_clients"]) == 1
        assert only(await broker.clients()).requests["ApiVersions"] == {0: 2}


async def test_a_file_that_cannot_be_written_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with Broker() as broker:
        (broker._of_life.path / "data" / CLIENTS_FILE).mkdir()
        await work(broker)
        await broker.restart()
        await work(broker)
        assert only(await broker.clients()).requests["ApiVersions"] == {0: 2}
    lines = [one.getMessage() for one in caplog.records if one.name == "pybroker.broker.kept_clients"]
    assert lines
    assert all(line.startswith(("Cannot read ", "Cannot write ")) for line in lines)


async def test_a_broker_without_clients_writes_no_file() -> None:
    async with Broker() as broker:
        await broker.create_topic("orders")  # by a method, which is no client
        await broker.restart()
        assert not (broker._of_life.path / "data" / CLIENTS_FILE).exists()
