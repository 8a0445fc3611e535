"""The records of `__transaction_state`: how they are made from a state, written to bytes and read back.

A key is the int16 of its type, then a message; a value is the int16 of its version, then a message; see
`protocol/messages/transaction_records.py`. Values have version 1 from transaction version 1 on, and version 0 below it, which a
Kafka before 4.0 reads.

Source: TransactionLog, TransactionLogValue.json.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from pybroker.coordinator.runtime.result import CoordinatorRecord
from pybroker.coordinator.transaction.state import State, Transaction, by_topic
from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.codec import DecodeError, decode, encode
from pybroker.protocol.messages.transaction_records import (
    TRANSACTION_LOG,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)

FLEXIBLE_VERSION: Final = 1
_KEY_VERSION: Final = 0
_INT16: Final = struct.Struct(">h")


def record_of(transactional_id: str, transaction: Transaction, version: int) -> CoordinatorRecord:
    """Return the record of a state, whose value has this version."""
    return CoordinatorRecord(TRANSACTION_LOG, transactional_id, transaction, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the record that deletes a transactional id."""
    return CoordinatorRecord(TRANSACTION_LOG, transactional_id)


def to_bytes(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as they lie in the log. Raises EncodeError."""
    key = _INT16.pack(TRANSACTION_LOG) + _encoded(TransactionLogKey(transactional_id=record.key), _KEY_VERSION)
    if record.value is None:
        return key, None
    version = record.value_version
    return key, _INT16.pack(version) + _encoded(_message(record.value, version), version)


def type_of(key: bytes) -> int:
    """Return the type of the record with this key. Raises struct.error."""
    type_id: int = _INT16.unpack_from(key)[0]
    return type_id


def from_bytes(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """Read what `to_bytes` writes. Raises DecodeError, struct.error."""
    transactional_id = decode(TransactionLogKey, _KEY_VERSION, memoryview(key), _INT16.size).transactional_id
    if value is None:
        return tombstone(transactional_id)
    (version,) = _INT16.unpack_from(value)
    message = decode(TransactionLogValue, version, memoryview(value), _INT16.size)
    return record_of(transactional_id, _transaction(message), version)


def _message(transaction: Transaction, version: int) -> TransactionLogValue:
    topics = by_topic(transaction.partitions)
    partitions = [TransactionPartitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is State.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= FLEXIBLE_VERSION:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return value


def _transaction(value: TransactionLogValue) -> Transaction:
    """Return the state in a record's value. Raises DecodeError."""
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise DecodeError(f"a transaction has the unknown status {value.transaction_status}") from error
    return Transaction(
        producer_id=ProducerId(value.producer_id),
        epoch=ProducerEpoch(value.producer_epoch),
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(one.topic, number) for one in value.transaction_partitions or () for number in one.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=ProducerId(value.previous_producer_id),
        next_producer_id=ProducerId(value.next_producer_id),
        client_version=value.client_transaction_version,
    )


def _encoded(message: Any, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]  # there are no records in it, hence no late parts
