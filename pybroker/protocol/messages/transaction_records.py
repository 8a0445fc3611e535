"""The records of `__transaction_state`: the state of each transactional id.

A record's key and value each begin with an int16 that is no part of these messages: the key's is the type of the record (0), and
the value's is the version of its message. A null value deletes.

Source: transaction-coordinator/src/main/resources/common/message/TransactionLog*.json.
"""

from __future__ import annotations

from typing import Final

from pybroker.protocol.schema import Message, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32, Int64

TRANSACTION_LOG: Final = 0
"""The only type of record in this log."""


class TransactionLogKey(Message, versions="0", flexible="none"):
    """The transactional id that a record is about."""

    transactional_id: str = field()


class TransactionPartitions(Struct):
    """Partitions of one topic that a transaction has written to."""

    topic: str = field()
    partition_ids: list[Int32] = field()


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The producer of a transactional id, and its transaction. Times in ms."""

    producer_id: Int64 = field()
    previous_producer_id: Int64 = field("1+", tag=0, default=-1, ignorable=True)
    next_producer_id: Int64 = field("1+", tag=1, default=-1, ignorable=True)
    producer_epoch: Int16 = field()
    next_producer_epoch: Int16 = field("1+", tag=3, default=-1, ignorable=True)
    transaction_timeout_ms: Int32 = field()
    transaction_status: Int8 = field()
    transaction_partitions: list[TransactionPartitions] | None = field()
    transaction_last_update_timestamp_ms: Int64 = field()
    transaction_start_timestamp_ms: Int64 = field()
    client_transaction_version: Int16 = field("1+", tag=2, ignorable=True)


TRANSACTION_RECORDS: Final[dict[int, tuple[type, type]]] = {TRANSACTION_LOG: (TransactionLogKey, TransactionLogValue)}
"""Key and value of every type of record."""
