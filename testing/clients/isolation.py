"""Reads a partition with an isolation level: its records, and its end."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka.admin import AdminClient, OffsetSpec

TIMEOUT_S = 60
_EOF = confluent_kafka.KafkaError._PARTITION_EOF


def reader_options(bootstrap: str, isolation: str) -> dict[str, object]:
    """Return the options of a consumer that reads partitions by assignment, and reports their ends."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "log_level": 0,
    }


def read_whole(bootstrap: str, topic: str, partition: int, isolation: str) -> list[confluent_kafka.Message]:
    """Return the records of a partition from offset 0 to the end that this isolation has."""
    consumer = confluent_kafka.Consumer(reader_options(bootstrap, isolation))
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    messages: list[confluent_kafka.Message] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{topic}-{partition} has no end after {len(messages)} records"
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == _EOF:
                return messages
            else:
                raise confluent_kafka.KafkaException(error)
    finally:
        consumer.close()


def read_values(bootstrap: str, topic: str, partition: int, isolation: str) -> list[bytes]:
    """Return the values of `read_whole`."""
    return [message.value() for message in read_whole(bootstrap, topic, partition, isolation)]


def last_offset(admin: AdminClient, topic: str, partition: int, isolation: str) -> int:
    """Return the offset where a reader with this isolation ends; negative when librdkafka has no error and no offset."""
    level = confluent_kafka.IsolationLevel[isolation.upper()]
    wanted = {confluent_kafka.TopicPartition(topic, partition): OffsetSpec.latest()}
    (future,) = admin.list_offsets(wanted, isolation_level=level, request_timeout=TIMEOUT_S).values()
    return int(future.result(TIMEOUT_S).offset)


def has_no_open_transaction(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Return whether the last stable offset of each partition is at the end."""
    levels = ("read_committed", "read_uncommitted")
    return all(len({last_offset(admin, topic, number, level) for level in levels}) == 1 for number in range(partitions))
