"""A broker beside others has lost a disk for good: its directory is given up, and the partitions are copied from the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.process.several import SeveralBrokers
from testing.waiting import until

TIMEOUT_S = 60
RECORDS = 50


def directories(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", "directories", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("t", b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0


def in_sync(bootstrap: str, topic: str = "t") -> list[int]:
    return sorted(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S).topics[topic].partitions[0].isrs)


def count(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    _, end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=TIMEOUT_S)
    consumer.close()
    return int(end)


def lost_id(listed: str) -> str:
    """Return the id of the directory that is missing."""
    (row,) = [line.split() for line in listed.splitlines() if " missing " in line]
    return row[0]


@pytest.fixture
def two_with_etcd(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    """Start two brokers of a cluster."""
    with etcd_peer.running() as etcd:

        def settings(number: int) -> Mapping[str, str]:
            return {
                "metadata.store": f"etcd:{etcd.urls}/forgotten",
                "node.id": str(number),
                "broker.session.timeout.ms": "2000",
                "broker.heartbeat.interval.ms": "300",
            }

        two = [BrokerProcess(tmp_path / str(number), dict(settings(number))) for number in (1, 2)]
        try:
            for broker in two:
                broker.start()
            yield two
        finally:
            for broker in two:
                broker.close()


def test_a_lost_directory_of_the_last_broker_in_sync_is_given_up_once_another_leads(two_with_etcd: list[BrokerProcess]) -> None:
    first, second = two_with_etcd
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[2, 1]])])["t"].result(TIMEOUT_S)
    produce(first.bootstrap)
    options = [word for name, value in second.overrides.items() for word in ("--override", f"{name}={value}")]
    options += ["--data-dir", str(second.data_dir)]
    assert " present " in directories("list", *options).stdout
    first.stop()
    until(lambda: in_sync(second.bootstrap) == [2], "broker 2 leads alone")
    second.stop()
    shutil.rmtree(second.data_dir)
    identity = lost_id(directories("list", *options).stdout)
    refused = directories("forget", identity, *options)
    assert refused.returncode == 1
    assert "Broker 2 has the only replica in sync of 1 partitions (t-0), and others have older ones" in refused.stderr
    first.start()
    entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)
    until(lambda: in_sync(first.bootstrap) == [1], "broker 1 leads")
    assert directories("forget", identity, *options).returncode == 0
    second.start()
    until(lambda: in_sync(first.bootstrap) == [1, 2], "broker 2 has copied the partition")
    assert count(first.bootstrap) == RECORDS


def forgotten(data_dir: Path, number: str) -> subprocess.CompletedProcess[str]:
    """Take a broker's directory away, and have it forgotten."""
    (data_dir / f"broker_{number}").rename(data_dir / "kept")
    (data_dir / f"broker_{number}").mkdir()
    place = ["--data-dir", str(data_dir), "--broker", number]
    return directories("forget", lost_id(directories("list", *place).stdout), *place)


def test_a_lost_directory_of_one_of_several_brokers_is_given_up_and_copied(tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path, 3) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result(TIMEOUT_S)
        produce(brokers.bootstrap)
        until(lambda: in_sync(brokers.bootstrap) == [1, 2, 3], "all are in sync")
        data = ["--data-dir", str(brokers.data_dir)]
        assert "in use" in directories("list", *data, "--broker", "2").stderr
        assert brokers.stop() == 0
        assert "name one of them by --broker" in directories("list", *data).stderr
        done = forgotten(brokers.data_dir, "2")
        if done.returncode:  # it was the last to stop, and is the only one in sync: another one is lost instead
            assert "unclean.leader.election.enable" in done.stderr
            shutil.rmtree(brokers.data_dir / "broker_2")
            (brokers.data_dir / "kept").rename(brokers.data_dir / "broker_2")
            done = forgotten(brokers.data_dir, "3")
        assert done.returncode == 0, done
        assert "is forgotten; the next start creates its partitions again, empty, or copies them" in done.stdout
        brokers.start()
        until(lambda: in_sync(brokers.bootstrap) == [1, 2, 3], "the broker has copied the partition")
        assert count(brokers.bootstrap) == RECORDS
        logs = [(brokers.data_dir / f"broker_{number}" / "t-0" / f"{0:020}.log").read_bytes() for number in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]
