"""DeleteRecords (key 21): delete the first records of partitions."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class DeleteRecordsPartition(Struct):
    """A partition, and the offset at which it is to begin."""

    partition_index: Int32 = field()
    offset: Int64 = field()  # the first offset that stays; -1: the high watermark


class DeleteRecordsTopic(Struct):
    """Partitions of one topic."""

    name: str = field()
    partitions: list[DeleteRecordsPartition] = field()


class DeleteRecordsRequest(Request, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    """Partitions to cut, each on its own: some may fail."""

    topics: list[DeleteRecordsTopic] = field()
    timeout_ms: Int32 = field()


class DeleteRecordsPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32 = field()
    low_watermark: Int64 = field()  # where the partition begins now, on every replica; -1 with an error
    error_code: Int16 = field()


class DeleteRecordsTopicResult(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[DeleteRecordsPartitionResult] = field()


class DeleteRecordsResponse(Response, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    topics: list[DeleteRecordsTopicResult] = field()
