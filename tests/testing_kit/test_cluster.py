"""Several brokers of a test are one cluster, of which any can die and come back."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from pybroker.faults.rule import RuleError
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.testing import Cluster
from pybroker.testing.place import NotRunningError
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


async def test_a_reset_leaves_a_whole_cluster_with_nothing_in_it() -> None:
    async with Cluster(3) as cluster:
        for _ in range(3):
            await cluster.create_topic("orders", 2)
            assert await cluster.produce("orders", b"1") == 0
            leader = await cluster.leader_of("orders")
            cluster.faults.add(api="Metadata", close=True)  # later than the topic, which brokers that reach no other wait for
            await cluster.kill(leader)
            cluster.faults[leader % 3 + 1].add(disk_error="EIO")
            await cluster.reset()
            assert (await cluster.topics(), cluster.faults.rules, cluster.requests) == ({}, {}, [])
        await cluster.create_topic("orders", replication_factor=3)
        await in_sync(cluster, 3)


async def test_a_snapshot_brings_a_cluster_back() -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("orders", replication_factor=3)
        await cluster.produce("orders", b"1")
        await in_sync(cluster, 3)
        snapshot = await cluster.snapshot()
        before = cluster.bootstrap
        for _ in range(2):
            await cluster.produce("orders", b"2")
            await cluster.create_topic("later")
            await cluster.kill(await cluster.leader_of("orders"))
            await cluster.restore(snapshot)
            assert cluster.bootstrap == before
            assert [one.value for one in await cluster.wait_for("orders", 1)] == [b"1"]
            assert {*await cluster.topics()} == {"orders"}
            await in_sync(cluster, 3)


async def test_a_rule_of_all_brokers_has_one_count() -> None:
    async with Cluster(2) as cluster:
        rule = cluster.faults.add(name="closed", api="ApiVersions", close=True, times=1)
        assert cluster.faults.rules == {"closed": rule} == cluster.faults[1].rules == cluster.faults[2].rules
        closed = [await is_closed(address) for address in cluster.bootstrap.split(",")]
        assert closed == [True, False]
        cluster.faults[1].add(name="of one", drop=True)
        with pytest.raises(RuleError, match="another rule has this name"):
            cluster.faults.add(name="of one", drop=True)
        cluster.faults.remove("of one")
        with pytest.raises(KeyError, match="there is no rule of one"):
            cluster.faults.remove("of one")
        with pytest.raises(NotRunningError, match="no broker 9 that runs, but 1, 2"):
            await cluster.kill(9)
        with pytest.raises(ValueError, match="give produce a value for orders"):
            await cluster.produce("orders")
        assert len(cluster.faults) == 2


async def is_closed(address: str) -> bool:
    """Return whether the broker closes the connection on which a client asks for its versions."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(bytes.fromhex("0000000a00120000000000070000"))
    try:
        return await reader.read(1) == b""
    finally:
        writer.close()


async def test_others_lead_while_a_broker_has_no_session() -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("orders", replication_factor=3)
        await cluster.produce("orders", b"1")
        await in_sync(cluster, 3)
        leader = await cluster.leader_of("orders")
        control = cluster._servers[leader].membership.control  # type: ignore[union-attr]
        assert control is not None
        assert await control.end_session()
        deadline = Deadline("another broker leads")
        while await cluster.leader_of("orders") == leader:
            deadline.check()
            await asyncio.sleep(0.01)
        await in_sync(cluster, 3)
        assert [one.value for one in await cluster.wait_for("orders", 1)] == [b"1"]


@pytest.mark.parametrize("fault", [{"disk_full": True}, {"disk_error": "EIO"}])
async def test_a_replica_whose_disk_takes_no_records_holds_nothing_up(fault: dict[str, Any]) -> None:
    async with Cluster(3) as cluster:
        await cluster.create_topic("orders", partitions=3, replication_factor=3)
        node = await cluster.leader_of("orders")
        for partition in range(3):
            await cluster.produce("orders", "before", partition=partition)
        cluster.faults[node].add(**fault)
        async with asyncio.timeout(20):  # a follower that counts as in sync holds acks=all up for 30 s
            for round_ in range(3):
                for partition in range(3):
                    await written(cluster, f"after {round_}", partition)
        assert all(node not in one.isr for one in (await cluster.topics())["orders"].partitions)


async def written(cluster: Cluster, value: str, partition: int) -> None:
    """Write a record as a client does: a broker whose disk takes none gives its partitions up."""
    while True:
        try:
            await cluster.produce("orders", value, partition=partition)
        except KafkaError as error:
            if error.code not in {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}:
                raise
            await asyncio.sleep(0.01)
        else:
            return
