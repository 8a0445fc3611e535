"""The volume of a broker in a cluster is full: others lead, writing continues, and the broker catches up when there is room."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.faults.clusters import TIMEOUT_S, WithEtcd
from testing.faults.replicas import agree
from testing.hosts.small_disk import SmallDisk, small_disk
from testing.process.broker import BrokerProcess
from testing.waiting import until

SMALL = 3
DISK_BYTES = 16 << 20
RECORD_BYTES = 50_000
LEFT_BYTES = 40_000


class WithSmallDisk(WithEtcd):
    """The third broker has its data on a small volume."""

    disk: SmallDisk

    def _broker(self, number: int, settings: dict[str, str]) -> BrokerProcess:
        settings |= {
            "replica.lag.time.max.ms": "2000",
            "log.retention.check.interval.ms": "500",
            "log.initial.task.delay.ms": "100",
        }
        command = shlex.split(self.disk.inside()) if number == SMALL else None
        broker = BrokerProcess(self.folder / str(number), settings, start_command=command)
        if number == SMALL:
            broker.data_dir = self.disk.path
        return broker

    def data_dir(self, number: int) -> Path:
        return self.disk.seen if number == SMALL else super().data_dir(number)

    def restart_small(self) -> None:
        """Stop the broker with the small volume, and start it."""
        self.stop_one(SMALL)
        self.start(SMALL)

    def log_of_small(self) -> str:
        return self._brokers[SMALL].log_text


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WithSmallDisk]:
    with small_disk(tmp_path / "small", DISK_BYTES) as disk:
        made = WithSmallDisk(tmp_path)
        made.disk = disk
        with made:
            yield made


def create(cluster: WithSmallDisk, replicas: list[int]) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic("t", num_partitions=1, replica_assignment=[replicas])])["t"].result(TIMEOUT_S)
    cluster.become_whole()
    return admin


def write(cluster: WithSmallDisk, count: int) -> None:
    """Write records with acks=all. No error may come that the client does not retry."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 2})
    for _ in range(count):
        producer.produce("t", bytes(RECORD_BYTES), on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


def state(admin: AdminClient) -> tuple[int, set[int]]:
    found = admin.list_topics("t", timeout=TIMEOUT_S).topics["t"].partitions[0]
    return found.leader, set(found.isrs)


@pytest.mark.parametrize("replicas", [[1, 2, 3], [3, 1, 2]], ids=["a follower's", "the leader's"])
def test_a_disk_that_is_full_at_once_takes_the_replicas_offline_until_the_next_start(
    replicas: list[int], cluster: WithSmallDisk
) -> None:
    admin = create(cluster, replicas)
    write(cluster, 10)
    cluster.disk.fill(0)
    write(cluster, 10)
    until(lambda: state(admin) == (1, {1, 2}), "others lead, and are in sync", TIMEOUT_S)
    write(cluster, 10)
    cluster.disk.empty()
    cluster.restart_small()
    cluster.become_whole()
    agree(cluster)


def test_a_leader_whose_disk_fills_up_gives_up_what_it_leads_and_copies_again_when_it_has_room(cluster: WithSmallDisk) -> None:
    admin = create(cluster, [3, 1, 2])
    write(cluster, 10)
    cluster.disk.fill(LEFT_BYTES)  # a look, once in a second, finds the volume full before a write does
    until(lambda: state(admin)[0] == 1, "another one leads", TIMEOUT_S)
    write(cluster, 10)
    until(lambda: state(admin) == (1, {1, 2}), "the others are in sync", TIMEOUT_S)
    cluster.disk.empty()
    cluster.become_whole()
    assert "goes offline" not in cluster.log_of_small()
    agree(cluster)
