"""A test works on a broker beside its clients."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.testing import Broker

WAIT_S = 30.0


async def test_records_come_back_as_they_were_written() -> None:
    async with Broker() as broker:
        await broker.create_topic("orders", 3)
        assert await broker.produce("orders", b"1", "two", None, key="k", headers={"a": b"b", "c": None}, timestamp_ms=5) == 0
        assert await broker.produce("orders", b"4", partition=2) == 0
        assert await broker.produce("orders", b"5", headers=[("h", "1"), ("h", "2")]) == 3
        records = await broker.consume("orders")
        assert [(one.partition, one.offset, one.key, one.value) for one in records] == [
            (0, 0, b"k", b"1"),
            (0, 1, b"k", b"two"),
            (0, 2, b"k", None),
            (0, 3, None, b"5"),
            (2, 0, None, b"4"),
        ]
        assert records[0].timestamp_ms == 5
        assert records[0].headers == (("a", b"b"), ("c", None))
        assert records[3].headers == (("h", b"1"), ("h", b"2"))
        assert [one.value for one in await broker.consume("orders", partition=2)] == [b"4"]
        assert await broker.consume("orders", partition=1) == []


async def test_much_is_read_to_its_end() -> None:
    async with Broker() as broker:
        for _ in range(3):
            await broker.produce("large", bytes(900_000), *[b"x"] * 10)
        for _ in range(10):
            await broker.produce("large", bytes(1_000_000))
        assert len(await broker.consume("large")) == 43


async def test_a_wait_ends_when_the_records_are_there() -> None:
    async with Broker() as broker:
        waiting = asyncio.create_task(broker.wait_for("later", 3, timeout_s=WAIT_S))
        await asyncio.sleep(0)
        await broker.create_topic("later", 2)
        await broker.produce("later", b"1", b"2", partition=1)
        assert not waiting.done()
        await broker.produce("later", b"3")
        assert [one.value for one in await waiting] == [b"3", b"1", b"2"]


@pytest.mark.parametrize("there", [0, 2])
async def test_a_wait_in_vain_shows_what_is_there(there: int) -> None:
    async with Broker() as broker:
        await broker.create_topic("few")
        if there:
            await broker.produce("few", *[b"value"] * there)
        with pytest.raises(TimeoutError, match=rf"few has {there} records after 0.05 s, not 3: \[") as caught:
            await broker.wait_for("few", 3, timeout_s=0.05)
        assert str(caught.value).count("value") == there


async def test_a_wait_for_a_topic_that_never_comes_ends() -> None:
    async with Broker() as broker:
        with pytest.raises(TimeoutError, match="none has 0 records"):
            await broker.wait_for("none", 1, timeout_s=0.05)


async def test_topics_show_what_was_written() -> None:
    async with Broker() as broker:
        await broker.create_topic("orders", 2, settings={"retention.ms": 5})
        await broker.produce("orders", b"1", b"2", partition=1)
        topic = (await broker.topics())["orders"]
        assert [(one.index, one.start, one.end, one.stable, one.leader) for one in topic.partitions] == [
            (0, 0, 0, 0, 1),
            (1, 0, 2, 2, 1),
        ]
        assert topic.record_count == 2
        assert not topic.is_internal
        await broker.delete_topic("orders")
        assert await broker.topics() == {}


async def test_batches_are_as_they_lie_in_the_log() -> None:
    async with Broker() as broker:
        await broker.create_topic("packed", settings={"compression.type": "gzip"})
        await broker.produce("packed", b"1", b"2")
        await broker.produce("packed", b"3")
        first, second = await broker.batches("packed")
        assert (first.base_offset, first.last_offset, first.record_count, first.codec) == (0, 1, 2, "gzip")
        assert (second.base_offset, second.producer_id, second.is_transactional) == (2, -1, False)


async def test_errors_have_kafkas_codes() -> None:
    async with Broker({"auto.create.topics.enable": False}) as broker:
        await broker.create_topic("there")
        for work, code in (
            (broker.create_topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
            (broker.create_topic("bad name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (broker.create_topic("new", settings={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
            (broker.delete_topic("new"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (broker.produce("new", b"1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (broker.produce("there", b"1", partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (broker.consume("new"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (broker.consume("there", partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            with pytest.raises(KafkaError) as caught:
                await work
            assert caught.value.code is code


async def test_what_the_test_asks_is_no_request_of_a_client() -> None:
    async with Broker() as broker:
        await broker.produce("orders", b"1")
        await broker.topics()
        assert broker.requests == []


def test_a_broker_in_a_thread_does_the_same_for_tests_that_block() -> None:
    with Broker.in_thread() as broker:
        broker.create_topic("orders", 2)
        assert broker.produce("orders", b"1", partition=1) == 0
        assert [one.value for one in broker.consume("orders")] == [b"1"]
        assert len(broker.batches("orders", 1)) == 1
        assert broker.topics()["orders"].record_count == 1
        assert (broker.groups(), broker.transactions(), broker.requests) == ({}, {}, [])
        writing = threading.Timer(0.01, lambda: broker.produce("orders", b"2"))
        writing.start()
        assert len(broker.wait_for("orders", 2, timeout_s=WAIT_S)) == 2
        writing.join(WAIT_S)
        broker.delete_topic("orders")
        broker.reset()
        assert broker.topics() == {}


async def test_a_reset_leaves_a_broker_as_new() -> None:
    async with Broker() as broker:
        for _ in range(3):
            await broker.create_topic("orders", 2)
            assert await broker.produce("orders", b"1") == 0
            await broker.reset()
            assert await broker.topics() == {}
        await broker.reset()
