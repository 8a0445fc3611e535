"""The disks of a broker are slow, full or broken as rules want them, and as they were when the rules are removed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pybroker.faults.rule import Rule, RuleError
from pybroker.log.files.filesystem import Filesystem
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.testing import Broker
from testing.waiting import Deadline

DELAY_S = 0.03


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker() as running:
        await running.create_topic("orders", settings={"flush.messages": 1})
        yield running


async def values(broker: Broker) -> list[bytes | None]:
    return [record.value for record in await broker.consume("orders")]


async def taken_s(work: Any) -> float:
    began = time.monotonic()
    await work
    return time.monotonic() - began


def filesystem(broker: Broker) -> Filesystem:
    return broker._running.filesystem


async def refusal(broker: Broker) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await broker.produce("orders", b"refused")
    return caught.value.code


@pytest.mark.parametrize("operation", ["write", "sync", None])
async def test_an_append_waits_for_a_slow_disk(broker: Broker, operation: str | None) -> None:
    await broker.produce("orders", b"1")  # the file is open
    rule = broker.faults.add(disk_delay_s=DELAY_S, operation=operation)
    assert await taken_s(broker.produce("orders", b"2")) >= DELAY_S
    assert rule.count >= 1
    broker.faults.remove(rule.name)
    count = rule.count
    await broker.produce("orders", b"3")
    assert rule.count == count
    assert vars(filesystem(broker)) == {}
    assert await values(broker) == [b"1", b"2", b"3"]


async def test_a_read_waits_for_a_slow_disk(broker: Broker) -> None:
    await broker.produce("orders", b"1")
    rule = broker.faults.add(disk_delay_s=DELAY_S, operation="read", times=1)
    assert await taken_s(values(broker)) >= DELAY_S
    assert rule.count == 1
    assert await values(broker) == [b"1"]


async def test_delays_of_several_rules_add_up(broker: Broker) -> None:
    broker.faults.add(name="one", disk_delay_s=DELAY_S, operation="write")
    broker.faults.add(name="two", disk_delay_s=DELAY_S)
    assert await taken_s(broker.produce("orders", b"1")) >= 2 * DELAY_S
    broker.faults.remove("two")
    assert [*vars(filesystem(broker))] == ["pwrite"]


async def test_a_full_disk_refuses_records_until_there_is_room(broker: Broker) -> None:
    await broker.produce("orders", b"1")
    rule = broker.faults.add(disk_full=True)
    assert await refusal(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await values(broker) == [b"1"]
    await broker.delete_topic("orders")
    assert rule.count == 1
    broker.faults.clear()
    await broker.produce("orders", b"2")
    assert await values(broker) == [b"2"]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
async def test_a_directory_that_fails_is_back_after_a_restart(broker: Broker, error: str) -> None:
    await broker.produce("orders", b"1")
    rule = broker.faults.add(disk_error=error)
    assert rule.count == 1
    assert await refusal(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    broker.faults.clear()
    assert await refusal(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    await broker.restart()
    await broker.produce("orders", b"2")
    assert await values(broker) == [b"1", b"2"]


async def test_a_rule_that_remains_is_in_force_after_a_restart(broker: Broker) -> None:
    broker.faults.add(disk_full=True)
    await broker.restart()
    assert await refusal(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    await broker.reset()
    await broker.create_topic("orders")
    await broker.produce("orders", b"1")


async def test_a_reset_leaves_a_broker_whose_disk_works(broker: Broker) -> None:
    await broker.produce("orders", b"1")
    broker.faults.add(disk_error="EIO")
    await broker.reset()
    assert await broker.topics() == {}
    assert await broker.produce("orders", b"2") == 0


async def test_a_rule_is_in_force_in_its_time(broker: Broker) -> None:
    rule = broker.faults.add(disk_full=True, after_s=0.05, for_s=0.05)
    assert rule.count == 0
    deadline = Deadline("the disk is full, and then is not any more")
    while not rule.count or broker._running.log_manager.directories[0].room.is_full:
        deadline.check()
        await asyncio.sleep(0.005)
    await broker.produce("orders", b"1")


async def test_a_directory_that_no_rule_names_works_on(broker: Broker) -> None:
    rule = broker.faults.add(disk_full=True, directory="/elsewhere/*")
    await broker.produce("orders", b"1")
    assert rule.count == 0


@pytest.mark.parametrize("is_file", [False, True])
async def test_a_rule_may_be_there_before_the_broker(tmp_path_factory: pytest.TempPathFactory, *, is_file: bool) -> None:
    settings: dict[str, Any] = {}
    fields = {"name": "slow", "disk_delay_s": DELAY_S, "operation": "write"}
    if is_file:
        path = tmp_path_factory.mktemp("faults") / "faults.json"
        path.write_text(json.dumps([fields]))
        settings = {"pybroker.faults.file": str(path)}
    broker = Broker(settings)
    if not is_file:
        broker.faults.put(Rule(**fields))  # type: ignore[arg-type]
    async with broker:
        assert await taken_s(broker.produce("orders", b"1")) >= DELAY_S


def test_rules_begin_and_end_from_another_thread() -> None:
    with Broker.in_thread() as broker:
        broker.create_topic("orders")
        rule = broker.faults.add(disk_full=True)
        with pytest.raises(KafkaError):
            broker.produce("orders", b"1")
        broker.faults.remove(rule.name)
        assert broker.produce("orders", b"2") == 0
    broker.faults.add(disk_full=True)  # there is no broker any more, and no loop to wait for


async def test_a_broker_that_is_alone_has_no_session_to_end(broker: Broker) -> None:
    with pytest.raises(RuleError, match="this one is alone"):
        broker.faults.add(end_session=True)
