"""Stock clients manage settings, partitions and records, and what they changed survives `kill -9`."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourceType,
)
from kafka.admin import KafkaAdminClient

from testing.clients.stock import KafkaPython, confluent_produce, create_topic, unique, wait
from testing.process.broker import BrokerProcess
from testing.samples import varied


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, tuple[str | None, ConfigSource]]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {key: (entry.value, ConfigSource(entry.source)) for key, entry in wait(future).items()}


def change(admin: AdminClient, kind: ResourceType, name: str, operation: AlterConfigOpType, **values: str | None) -> None:
    entries = [ConfigEntry(key.replace("_", "."), value, incremental_operation=operation) for key, value in values.items()]
    (future,) = admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values()
    wait(future)


def test_confluent_changes_settings(bootstrap: str) -> None:
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), unique("settings")
    create_topic(bootstrap, topic, 1, {"retention.ms": "86400000"})
    of_topic = (admin, ResourceType.TOPIC, topic)
    change(*of_topic, AlterConfigOpType.SET, segment_bytes="5000")
    change(*of_topic, AlterConfigOpType.APPEND, cleanup_policy="compact")
    found = described(*of_topic)
    assert found["segment.bytes"] == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert found["cleanup.policy"][0] == "delete,compact"
    assert found["compression.type"] == ("producer", ConfigSource.DEFAULT_CONFIG)
    change(*of_topic, AlterConfigOpType.SUBTRACT, cleanup_policy="delete")
    change(*of_topic, AlterConfigOpType.DELETE, segment_bytes=None)
    found = described(*of_topic)
    assert (found["segment.bytes"][0], found["cleanup.policy"][0]) == ("1073741824", "compact")
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        change(*of_topic, AlterConfigOpType.SET, nonsense="1")
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        described(admin, ResourceType.TOPIC, unique("nope"))
    assert described(admin, ResourceType.BROKER, "1")["num.partitions"] == ("1", ConfigSource.DEFAULT_CONFIG)


def test_confluent_adds_partitions_and_deletes_records(bootstrap: str) -> None:
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), unique("grow")
    create_topic(bootstrap, topic)
    KafkaPython().produce(bootstrap, topic, varied(10))
    wait(admin.create_partitions([NewPartitions(topic, 3)])[topic])
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 3
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        wait(admin.create_partitions([NewPartitions(topic, 3)])[topic])
    (future,) = admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 4)]).values()
    assert wait(future).low_watermark == 4
    assert [one.offset for one in KafkaPython().consume(bootstrap, topic, 6, first_offset=4)] == list(range(4, 10))
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", partition=2)
    assert producer.flush(30) == 0
    assert len(KafkaPython().consume(bootstrap, topic, 1, partition=2)) == 1


def test_kafka_python_describes_log_directories(bootstrap: str) -> None:
    topic = unique("described")
    create_topic(bootstrap, topic, 1, {"retention.ms": "86400000"})
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert topic in str(admin.describe_log_dirs())
    finally:
        admin.close()


def test_what_was_changed_survives_a_kill(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = unique("survives")
    create_topic(broker.bootstrap, topic, 1)
    change(admin, ResourceType.TOPIC, topic, AlterConfigOpType.SET, segment_bytes="5000")
    change(admin, ResourceType.BROKER, "1", AlterConfigOpType.SET, message_max_bytes="200")
    wait(admin.create_partitions([NewPartitions(topic, 2)])[topic])
    broker.kill()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = described(admin, ResourceType.TOPIC, topic)
    assert found["segment.bytes"] == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert found["max.message.bytes"] == ("200", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 2
    large = [varied(5)[0]._replace(value=b"x" * 500)]
    config = {"bootstrap.servers": broker.bootstrap}
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        confluent_produce(config, topic, large)
    change(admin, ResourceType.BROKER, "1", AlterConfigOpType.DELETE, message_max_bytes=None)
    assert confluent_produce(config, topic, large) == [0]
