"""Makes `golden/data-9f165b88.tar.xz`, the data directory of a broker of 9f165b88, the last commit before brokers were several.

    git worktree add --detach /tmp/old 9f165b88
    PYTHONPATH=/tmp/old .venv/bin/python integration/durability/old_metadata.py integration/durability/golden/data-9f165b88.tar.xz

The broker, and what starts it, are those of the other commit.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from testing.process.broker import BrokerProcess

TIMEOUT_S = 60
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "cluster.id": "cluster-of-before",
}


def produce(address: str, first: int, last: int, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": address, **settings})
    is_transaction = "transactional.id" in settings
    if is_transaction:
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
    for number in range(first, last):
        producer.produce("orders", b"order %d" % number, partition=number % 3, timestamp=1_700_000_000_000 + number)
    if is_transaction:
        producer.commit_transaction(TIMEOUT_S)
    producer.flush(TIMEOUT_S)


def alter(admin: AdminClient, kind: ResourceType, name: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def fill(folder: Path) -> None:
    """Run the broker twice: it is killed once, so that its leader epochs are raised, and then stopped."""
    broker = BrokerProcess(folder, SETTINGS)
    broker.start()
    address = broker.bootstrap
    admin = AdminClient({"bootstrap.servers": address})
    new = [NewTopic("orders", 2, 1, config={"retention.ms": "-1"}), NewTopic("gone", 1, 1)]
    new.append(NewTopic("prices", 1, 1, config={"cleanup.policy": "compact"}))
    for future in admin.create_topics(new).values():
        future.result(TIMEOUT_S)
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(TIMEOUT_S)
    admin.delete_topics(["gone"])["gone"].result(TIMEOUT_S)
    alter(admin, ResourceType.TOPIC, "prices", "min.cleanable.dirty.ratio", "0.25")
    alter(admin, ResourceType.BROKER, "1", "log.retention.ms", "123456789")
    produce(address, 0, 30)
    broker.kill()
    broker.start()
    produce(address, 30, 60, **{"transactional.id": "shop"})
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    consumer.close()
    broker.stop()


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        with tarfile.open(path, "w:xz") as archive:
            archive.add(Path(folder) / "data", "data")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
