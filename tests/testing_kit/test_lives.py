"""A broker keeps its data and its address over its lives, and a snapshot brings a moment back."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from pybroker.config.setting import ConfigError
from pybroker.testing import Broker
from pybroker.testing.place import NotRunningError
from testing.waiting import Deadline

TIMEOUT_S = 30.0


async def values(broker: Broker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in await broker.consume(topic)]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_records_and_address_outlast_a_restart(*, is_killed: bool) -> None:
    async with Broker() as broker:
        before = broker.bootstrap
        await broker.produce("orders", b"1", b"2")
        if is_killed:
            await broker.kill()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((broker.host, broker.port), TIMEOUT_S)
        await broker.restart()
        assert broker.bootstrap == before
        assert await values(broker) == [b"1", b"2"]
        assert await broker.produce("orders", b"3") == 2


@pytest.mark.parametrize(("is_killed", "is_recovered"), [(False, False), (True, True)])
async def test_a_killed_broker_recovers(is_killed: bool, is_recovered: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with Broker() as broker:
        await broker.produce("orders", b"1")
        if is_killed:
            await broker.kill()
        caplog.clear()
        with caplog.at_level("INFO", logger="pybroker"):
            await broker.restart()
        assert ("unclean" in caplog.text) is is_recovered, caplog.text


def test_a_killed_broker_cuts_its_connections() -> None:
    with Broker.in_thread() as broker, socket.create_connection((broker.host, broker.port), TIMEOUT_S) as client:
        client.settimeout(TIMEOUT_S)
        client.sendall(b"\0\0")  # the beginning of a request
        broker.kill()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        broker.restart()
        socket.create_connection((broker.host, broker.port), TIMEOUT_S).close()


async def test_a_killed_broker_can_be_left() -> None:
    async with Broker() as broker:
        await broker.kill()


async def test_a_snapshot_brings_back_what_was_there() -> None:
    async with Broker() as broker:
        await broker.produce("orders", b"1")
        snapshot = await broker.snapshot()
        for _ in range(2):
            await broker.produce("orders", b"2")
            await broker.create_topic("later")
            await broker.restore(snapshot)
            assert await values(broker) == [b"1"]
            assert {*await broker.topics()} == {"orders"}
            assert await broker.produce("orders", b"other") == 1


async def test_the_snapshot_of_another_broker_is_refused_and_changes_nothing() -> None:
    async with Broker() as one, Broker() as other:
        await one.produce("orders", b"1")
        await other.produce("orders", b"2")
        with pytest.raises(ValueError, match="of another broker"):
            await other.restore(await one.snapshot())
        assert (await values(one), await values(other)) == ([b"1"], [b"2"])


async def test_a_reset_starts_a_killed_broker_with_nothing_in_it() -> None:
    async with Broker() as broker:
        await broker.produce("orders", b"1")
        await broker.kill()
        with pytest.raises(NotRunningError, match=r"restart\(\)"):
            await broker.topics()
        await broker.reset()
        assert await broker.topics() == {}


def test_a_broker_that_does_not_run_raises_it() -> None:
    for broker in (Broker.in_thread(), Broker.subprocess()):
        with pytest.raises(NotRunningError):
            broker.topics()
    with Broker.in_thread() as stopped:
        pass
    with pytest.raises(NotRunningError):
        stopped.topics()


@pytest.mark.parametrize("name", ["log.dirs", "log.dir", "metadata.store"])
def test_the_place_of_the_data_is_no_matter_of_settings(name: str) -> None:
    with pytest.raises(ConfigError, match="a directory of its own"):
        Broker({name: "elsewhere"})


async def test_a_test_that_leaves_a_connection_is_seen() -> None:
    async with Broker() as broker:
        assert await broker.leaks() == []
        with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as client:
            deadline = Deadline("the broker has accepted the connection")
            while not (left := await broker.leaks()):
                deadline.check()
                await asyncio.sleep(0)
            (line,) = left
            assert f"127.0.0.1:{client.getsockname()[1]} (no request) is open" in line
