"""Several brokers of a test are one cluster, of which any can die and come back."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.testing import Cluster
from testing.waiting import Deadline

TIMEOUT_S = 30.0


async def in_sync(cluster: Cluster, count: int) -> None:
    deadline = Deadline(f"{count} replicas are in sync")
    while len((await cluster.topics())["orders"].partitions[0].isr) < count:
        deadline.check()
        await asyncio.sleep(0.01)


async def test_each_leader_that_dies_is_followed_by_another_and_nothing_is_lost() -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("orders", 2)
        written = [await cluster.produce("orders", b"0", b"1")]
        for _ in range(2):
            await in_sync(cluster, 3)
            leader = await cluster.leader_of("orders")
            await cluster.kill(leader)
            assert await cluster.leader_of("orders") != leader
            written.append(await cluster.produce("orders", b"more"))
            await cluster.restart(leader)
        assert written == [0, 2, 3]
        assert [one.value for one in await cluster.wait_for("orders", 4)] == [b"0", b"1", b"more", b"more"]
        assert [len(one.replicas) for one in (await cluster.topics())["orders"].partitions] == [3, 3]


async def test_a_broker_that_is_restarted_keeps_its_address() -> None:
    async with Cluster(2) as cluster:
        before = cluster.bootstrap
        await cluster.restart(2)
        assert cluster.bootstrap == before
        assert len(before.split(",")) == 2
        await cluster.kill(1)
        host, _, port = before.split(",")[0].rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), TIMEOUT_S)


async def test_a_topic_that_is_not_there_has_no_leader() -> None:
    async with Cluster(1) as cluster:
        with pytest.raises(KafkaError) as caught:
            await cluster.leader_of("none")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_cluster_in_a_thread_leaves_nothing() -> None:
    before = threading.enumerate(), len([*Path("/proc/self/fd").iterdir()])
    with Cluster.in_thread(2) as cluster:
        cluster.create_topic("orders")
        cluster.produce("orders", b"1")
        cluster.kill(cluster.leader_of("orders"))
        assert [one.value for one in cluster.wait_for("orders", 1)] == [b"1"]
        assert {*cluster.faults} == {1, 2}
        assert cluster.requests is not None
    assert (threading.enumerate(), len([*Path("/proc/self/fd").iterdir()])) == before
