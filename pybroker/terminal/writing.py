"""Writes records: gathers them by partition, and sends the batches of one leader in one request.

With acks=all, batches have a producer id and sequences, so that a batch that is sent again is not written twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.client.partitioner import partition_of
from pybroker.client.requests import request_parts
from pybroker.listed import did_you_mean
from pybroker.model import FIRST_OFFSET, Offset
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.wire import ZERO_UUID
from pybroker.records.batch import NO_SEQUENCE, Record, increment_sequence
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.spark.wire.client import NO_LEADER, pauses
from pybroker.spark.wire.errors import check
from pybroker.terminal.numbers import counted, now_ms
from pybroker.terminal.session import FailedError
from pybroker.terminal.transaction import NO_PRODUCER, ProducerOf

if TYPE_CHECKING:
    from pybroker.spark.wire.client import Topic, WireClient
    from pybroker.terminal.formats import Given
    from pybroker.terminal.transaction import Transaction

BATCH_BYTES: Final = 256 << 10
GATHERED_BYTES: Final = 4 << 20
RECORD_BYTES: Final = 32
"""About what a record needs beside its key, its value and its headers."""
TIMEOUT_MS: Final = 30_000
PRODUCE_BY_ID_SINCE: Final = 13
OLD_TRANSACTIONS_MAX: Final = 11
"""The last version of Produce for which a producer adds partitions to a transaction by itself (KIP-890)."""
ALL, NONE = -1, 0
CREATION_S = 5.0
"""How long a topic may be unknown: brokers respond the same when they are creating it and when they create none."""


class Written(NamedTuple):
    """The records that were written to a partition. Without a response, there is no offset: -1."""

    partition: int
    first: int
    records: int


class Writer:
    """Writes to one topic, which the broker creates if it may. `flush` sends what is gathered. `count` is the number of records
    that are written, also when an error comes after them.

    Methods raise PipelineError, FailedError.
    """

    def __init__(
        self,
        client: WireClient,
        topic: str,
        *,
        acks: int = ALL,
        codec: CompressionType = CompressionType.NONE,
        transaction: Transaction | None = None,
    ) -> None:
        if topic not in client.topics([topic]):
            _create(client, topic)
        self.count = 0
        self._client, self._name, self._acks, self._codec, self._transaction = client, topic, acks, codec, transaction
        self._topic: Topic = client.topic(topic)
        self._gathered: dict[int, list[Given]] = {}
        self._sizes: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        self._sticky = self._any_partition()
        self._producer = NO_PRODUCER
        if transaction is not None:
            self._producer = transaction.producer
        elif acks == ALL:
            self._producer = ProducerOf(*client.init_producer_id())

    def add(self, record: Given) -> list[Written]:
        """Gather a record, and return what was written because there was enough."""
        index = self._partition(record)
        size = RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        size += sum(len(name) + len(value or b"") for name, value in record.headers)
        self._gathered.setdefault(index, []).append(record)
        self._sizes[index] = self._sizes.get(index, 0) + size
        return self.flush() if self._sizes[index] >= BATCH_BYTES or sum(self._sizes.values()) >= GATHERED_BYTES else []

    def flush(self) -> list[Written]:
        """Send all that is gathered, and return what was written."""
        batches = {index: (self._batch(index, records), len(records)) for index, records in self._gathered.items()}
        self._gathered, self._sizes = {}, {}
        self._sticky = self._any_partition()
        if not batches:
            return []
        if self._transaction is not None:
            self._transaction.add(self._name, batches)
        written = self._send(batches)
        for index, (_, count) in batches.items():
            self._sequences[index] = increment_sequence(self._sequences.get(index, 0), count)
        return written

    def _partition(self, record: Given) -> int:
        count = len(self._topic.leaders)
        if record.partition is not None:
            if not 0 <= record.partition < count:
                raise FailedError(
                    f"{self._name}-{record.partition}: UNKNOWN_TOPIC_OR_PARTITION: {self._name} has {counted(count, 'partition')}"
                )
            return record.partition
        return self._sticky if record.key is None else partition_of(record.key, count)

    def _any_partition(self) -> int:
        """Return the partition of the next records without a key: random, and with a leader (KIP-480)."""
        led = [index for index, leader in enumerate(self._topic.leaders) if leader != NO_LEADER]
        return random.choice(led or range(len(self._topic.leaders)))  # noqa: S311  no secret

    def _batch(self, index: int, records: Iterable[Given]) -> memoryview:
        now = now_ms()
        listed = [
            Record(
                Offset(FIRST_OFFSET + position),
                now if one.timestamp_ms is None else one.timestamp_ms,
                one.key,
                one.value,
                one.headers,
            )
            for position, one in enumerate(records)
        ]
        has_producer = self._producer is not NO_PRODUCER
        return memoryview(
            build_batch(
                listed,
                compression=self._codec,
                producer_id=self._producer.producer_id,
                producer_epoch=self._producer.epoch,
                base_sequence=self._sequences.get(index, 0) if has_producer else NO_SEQUENCE,
                is_transactional=self._transaction is not None,
            )
        )

    def _send(self, batches: dict[int, tuple[memoryview, int]]) -> list[Written]:
        """Send batches until each is acknowledged, again those whose leader has moved or whose connection broke."""
        left, written = dict(batches), list[Written]()

        def attempt() -> None:
            by_leader: dict[Any, list[int]] = {}
            for index in left:
                by_leader.setdefault(self._client.leader(self._name, index), []).append(index)
            for leader, indexes in by_leader.items():
                self._request(leader, {index: left[index][0] for index in indexes})
            error: tuple[int, int, str | None] | None = None
            for leader in by_leader if self._acks != NONE else ():
                for topic in leader.receive().responses:
                    for one in topic.partition_responses:
                        if one.error_code:
                            error = one.index, one.error_code, one.error_message
                        else:
                            written.append(Written(one.index, one.base_offset, left.pop(one.index)[1]))
                            self.count += written[-1].records
            if error is not None:
                check(f"{self._name}-{error[0]}", error[1], error[2])

        self._client.retrying(attempt, self._name)
        if self._acks == NONE:
            written = [Written(index, -1, count) for index, (_, count) in batches.items()]
            self.count += sum(one.records for one in written)
        return written

    def _request(self, leader: Any, batches: dict[int, memoryview]) -> None:
        version = leader.version_of(ApiKey.PRODUCE)
        if self._transaction is not None:
            version = min(version, OLD_TRANSACTIONS_MAX)
        is_by_id = version >= PRODUCE_BY_ID_SINCE
        data = TopicProduceData(
            name="" if is_by_id else self._name,
            topic_id=self._topic.topic_id if is_by_id else ZERO_UUID,
            partition_data=[PartitionProduceData(index=index, records=batch) for index, batch in batches.items()],
        )
        request = ProduceRequest(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=self._acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[data],
        )
        if self._acks == NONE:  # no response comes
            leader.frames.correlation_id += 1
            parts = request_parts(
                request, version, correlation_id=leader.frames.correlation_id, client_id=leader.frames.client_id
            )
            leader.frames.send(parts)
        else:
            leader.send(request, version)


def _create(client: WireClient, name: str) -> None:
    """Let the broker create a topic, as Kafka's producers do, and wait until each partition has a leader. Raises FailedError."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    deadline = time.monotonic() + CREATION_S
    for pause in pauses():
        [topic] = client.retrying(lambda: client.any_broker().call(request)).topics
        if topic.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
            check(f"topic {name}", topic.error_code)
            if all(one.leader_id != NO_LEADER for one in topic.partitions):
                return
        if time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise FailedError(
            f"topic {name}: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic, and the broker creates none by itself: "
            f"`pybroker topics create {name}` does{did_you_mean(name, client.topics())}"
        )
    raise FailedError(f"topic {name}: LEADER_NOT_AVAILABLE: it was created, and has no leader after {CREATION_S:g} s")
