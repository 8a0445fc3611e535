"""One request at a time over a connection, with its error code, for tests whose model must know what was acknowledged.

A client library would retry without the test's knowledge. `LostError` means that the connection ended before the response came,
so the test cannot know whether the request was carried out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pybroker.model import Offset
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode_response, encode_request, response_class
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pybroker.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from testing.wire import raw

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
TOPIC, BROKER = 2, 4
WAIT_S = 60
NOT_YET = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


class LostError(ConnectionError):
    """The connection ended before the response came."""


class Read(NamedTuple):
    """The result of a fetch: the error, the limits of the log, the records from the offset on, and the offset of the next fetch.

    The records are checked against their checksums. `next_offset` is needed because compaction leaves batches without a record.
    """

    error: int
    start: int
    end: int
    records: list[Record]
    next_offset: int


def values(first: int, pairs: Iterable[tuple[bytes | None, bytes | None]], time_ms: int) -> list[Record]:
    """Make records with the offset deltas that a producer gives them."""
    return [Record(Offset(first + n), time_ms, key, value) for n, (key, value) in enumerate(pairs)]


def _creation(name: str, partitions: int, configs: Mapping[str, str]) -> CreateTopicsRequest:
    wanted = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=wanted)
    return CreateTopicsRequest(topics=[topic])


def _production(topic: str, partition: int, batch: bytes, acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


class Wire:
    """A client that sends each request once."""

    def __init__(self, bootstrap: str) -> None:
        self._connection = raw.Connection(bootstrap)
        self._ids = itertools.count()
        self._sent: list[int] = []

    def close(self) -> None:
        self._connection.socket.close()

    def ask(self, key: ApiKey, version: int, request: object) -> Any:
        """Send the request and return the response. Raises LostError."""
        number = self._send(key, version, request)
        return self._receive(key, version, number)

    def _send(self, key: ApiKey, version: int, request: object) -> int:
        number = next(self._ids)
        parts = encode_request(request, version, correlation_id=number, client_id="a test")
        try:
            self._connection.socket.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]  # no late parts
        except OSError as error:
            raise LostError(str(error)) from error
        return number

    def _receive(self, key: ApiKey, version: int, number: int) -> Any:
        try:
            size = int.from_bytes(self._connection.receive_exactly(4))
            frame = memoryview(self._connection.receive_exactly(size))
        except OSError as error:
            raise LostError(str(error)) from error
        found, response = decode_response(response_class(key), version, frame)
        assert found == number
        return response

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> int:
        (made,) = self.ask(ApiKey.CREATE_TOPICS, 5, _creation(name, partitions, configs)).topics
        return int(made.error_code)

    def send_create_topic(self, name: str, partitions: int) -> None:
        """Send without waiting for the response, because the test ends the broker next."""
        self._send(ApiKey.CREATE_TOPICS, 5, _creation(name, partitions, {}))

    def delete_topic(self, name: str) -> int:
        (gone,) = self.ask(ApiKey.DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)).responses
        return int(gone.error_code)

    def send_delete_topic(self, name: str) -> None:
        """Send without waiting for the response."""
        self._send(ApiKey.DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000))

    def produce(self, topic: str, partition: int, records: Sequence[Record], *, acks: int = -1, **batch: Any) -> tuple[int, int]:
        """Send a batch, and return the error and the offset of its first record."""
        request = _production(topic, partition, bytes(build_batch(records, **batch)), acks)
        (topic_response,) = self.ask(ApiKey.PRODUCE, 9, request).responses
        (one,) = topic_response.partition_responses
        return one.error_code, one.base_offset

    def send_batches(self, topic: str, partition: int, sent_batches: Iterable[Sequence[Record]]) -> None:
        """Send a request per batch without waiting for responses; `acknowledged` reads them."""
        self._sent = [
            self._send(ApiKey.PRODUCE, 9, _production(topic, partition, bytes(build_batch(one)), -1)) for one in sent_batches
        ]

    def acknowledged(self) -> list[tuple[int, int]]:
        """Return the errors and offsets of `send_batches` that came before the connection ended."""
        found: list[tuple[int, int]] = []
        for number in self._sent:
            try:
                response = self._receive(ApiKey.PRODUCE, 9, number)
            except LostError:
                break
            (one,) = response.responses[0].partition_responses
            found.append((one.error_code, one.base_offset))
        return found

    def fetch(self, topic: str, partition: int, offset: int, *, bytes_max: int = 1 << 20) -> Read:
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[asked])])
        (topic_response,) = self.ask(ApiKey.FETCH, 11, request).responses
        (one,) = topic_response.partitions
        found: list[Record] = []
        next_offset = offset
        for batch in batches(bytes(one.records or b"")):
            batch.ensure_valid()
            found += [record for record in batch.records() if record.offset >= offset]
            next_offset = batch.next_offset
        return Read(one.error_code, one.log_start_offset, one.high_watermark, found, next_offset)

    def read_all(self, topic: str, partition: int, offset: int = 0, *, bytes_max: int = 1 << 20) -> Read:
        """Fetch repeatedly up to the end, from `offset` or from the start of the log if that is later."""
        found: list[Record] = []
        while True:
            read = self.fetch(topic, partition, offset, bytes_max=bytes_max)
            if read.error == ErrorCode.OFFSET_OUT_OF_RANGE and not found:
                start = self.limit(topic, partition, EARLIEST)
                if offset < start:
                    offset = start
                    continue
            found += read.records
            if read.error or read.next_offset == offset:
                return read._replace(records=found)
            offset = read.next_offset

    def limit(self, topic: str, partition: int, which: int) -> int:
        """Return the first offset (EARLIEST) or the next offset (LATEST); wait while a new leader does not know it yet."""
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=which)])
        end = time.monotonic() + WAIT_S
        while True:
            (topic_response,) = self.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=[asked])).topics
            (one,) = topic_response.partitions
            if one.error_code != ErrorCode.OFFSET_NOT_AVAILABLE or time.monotonic() > end:
                break
            time.sleep(0.01)
        assert one.error_code == 0, one
        return int(one.offset)

    def offset_at(self, topic: str, partition: int, timestamp: int) -> tuple[int, int]:
        """Return offset and timestamp of the first record at or after a time, or of the largest time (MAX_TIMESTAMP); -1, -1
        for none.
        """
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)])
        (topic_response,) = self.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[asked])).topics
        (one,) = topic_response.partitions
        assert one.error_code == 0, one
        return one.offset, one.timestamp

    def partition_size(self, topic: str, partition: int) -> int:
        """Return the bytes of a partition that DescribeLogDirs reports."""
        asked = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[partition])])
        sizes = [
            one.partition_size
            for folder in self.ask(ApiKey.DESCRIBE_LOG_DIRS, 2, asked).results
            for found in folder.topics
            for one in found.partitions
        ]
        return sum(sizes)

    def delete_records(self, topic: str, partition: int, offset: int) -> tuple[int, int]:
        """Delete the records before `offset`, and return the error and the new log start offset."""
        asked = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)])
        (topic_response,) = self.ask(ApiKey.DELETE_RECORDS, 1, DeleteRecordsRequest(topics=[asked], timeout_ms=30_000)).topics
        (one,) = topic_response.partitions
        return one.error_code, one.low_watermark

    def configure(self, topic: str, key: str, value: str) -> int:
        return self._configure(TOPIC, topic, key, value)

    def configure_brokers(self, key: str, value: str) -> int:
        """Change a setting of all brokers, while they run."""
        return self._configure(BROKER, "", key, value)

    def _configure(self, kind: int, name: str, key: str, value: str) -> int:
        changes = [AlterableConfig(name=key, config_operation=0, value=value)]
        asked = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=False)
        (one,) = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        return int(one.error_code)

    def find_coordinator(self, group: str) -> int:
        return int(self.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=group)).error_code)

    def commit(self, group: str, topic: str, partition: int, offset: int, *, wait_s: float = WAIT_S) -> int:
        """Commit as a simple consumer, which is no member, and wait up to `wait_s` for the coordinator."""
        one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[one])]
        end = time.monotonic() + wait_s
        while True:
            (topic_response,) = self.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=group, topics=topics)).topics
            (done,) = topic_response.partitions
            if done.error_code not in NOT_YET or time.monotonic() > end:
                return int(done.error_code)
            self.find_coordinator(group)  # creates the offsets topic the first time
            time.sleep(0.01)

    def committed(self, group: str, topic: str, partition: int, *, wait_s: float = WAIT_S) -> tuple[int, int]:
        """Return the error and the committed offset, -1 when there is none; wait up to `wait_s` for the coordinator."""
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
        end = time.monotonic() + wait_s
        while True:
            response = self.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=group, topics=topics))
            if response.error_code not in NOT_YET or time.monotonic() > end:
                break
            self.find_coordinator(group)
            time.sleep(0.01)
        if response.error_code:
            return response.error_code, -1
        (one,) = response.topics[0].partitions
        return one.error_code, one.committed_offset

    def producer_id(self) -> tuple[int, int]:
        """Get a new producer id and its epoch."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        made = self.ask(ApiKey.INIT_PRODUCER_ID, 2, request)
        assert made.error_code == 0
        return made.producer_id, made.producer_epoch
