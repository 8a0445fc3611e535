"""One partition in a Fetch response, in every case: errors, aborted transactions, conversions for old clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.fetch.down_conversion import Converted, DownConversion, magic_for
from pybroker.model import Offset
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import fetch as messages
from pybroker.protocol.messages.fetch import PartitionData
from pybroker.replication.fetch_data import FetchPartition, FetchPartitionData, FetchResults
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.context import Services
    from pybroker.log.segments.file_records import FileRecords
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.model import TopicPartition
    from pybroker.network.context import ConnectionContext
    from pybroker.protocol.messages.fetch import FetchRequest
    from pybroker.sharing.work import Work

_STORAGE_ERROR_VERSION: Final = 6

_NEVER_READ: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors with which Kafka responds before it reads; its list of aborted transactions is empty then, and null for all others."""
_NO_DATA: Final = FetchPartitionData()

_new_aborted: Final = maker(messages.AbortedTransaction, "producer_id", "first_offset")


def _refused(wanted: FetchPartition, code: ErrorCode, data: FetchPartitionData = _NO_DATA) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=code,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=[] if code in _NEVER_READ else None,
        records=b"",
    )


def partition_response(
    version: int, wanted: FetchPartition, data: FetchPartitionData, converted: Converted | None
) -> PartitionData:
    """Return the response about `wanted`, which owns the records of `data`; `converted` is what `for_old_client` has made."""
    code = data.error_code
    if code:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # older clients do not know the storage error, and none of them retries it
        return _refused(wanted, code, data)
    records = data.records
    response = PartitionData(
        partition_index=wanted.partition,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        preferred_read_replica=data.preferred_read_replica,
        records=b"" if records is None else records,
    )
    if data.aborted_transactions is not None:
        response.aborted_transactions = [
            _new_aborted(producer_id, first_offset) for producer_id, first_offset, _, _ in data.aborted_transactions
        ]
    else:
        response.aborted_transactions = None
    if data.diverging_epoch is not None:
        response.diverging_epoch = messages.EpochEndOffset(
            epoch=data.diverging_epoch.epoch, end_offset=data.diverging_epoch.end_offset
        )
    if isinstance(converted, ErrorCode):
        return _refused(wanted, converted)
    if converted is not None:
        response.records = converted
    return response


def _refusal(broker: Services, version: int, wanted: FetchPartition) -> ErrorCode | None:
    """Return why a client of an old version cannot read a topic, as its settings have it; None if it can."""
    partition = broker.replica_manager.partitions.get(wanted.topic_partition)
    config = None if partition is None else partition.log.config
    if config is None:
        return None
    if config.compression_type == "zstd":
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.UNSUPPORTED_VERSION if magic_for(version) is not None and not config.message_downconversion_enable else None


def for_old_client(
    broker: Services, connection: ConnectionContext, version: int, results: FetchResults
) -> Work[dict[TopicPartition, Converted]]:
    """Return what partitions have for a client from before ZSTD_VERSION in place of their records: converted ones, or an error.

    The partitions that are not in the dict have what was read.
    """
    found: dict[TopicPartition, Converted] = {}
    magic = magic_for(version)
    conversion = None if magic is None else DownConversion(broker, connection, magic)
    for some in portions(results):
        for wanted, data in some:
            topic_partition, records = wanted.topic_partition, data.records
            refusal = None if data.error_code else _refusal(broker, version, wanted)
            if refusal is not None:
                found[topic_partition] = refusal
            elif conversion is not None and records is not None:
                found[topic_partition] = yield from conversion.convert(
                    topic_partition.topic,
                    records,
                    wanted.fetch_offset,
                    cut_batch_size=data.cut_batch_size,
                    read_on=_following(broker, topic_partition, records.size),
                )
                yield None
        yield None
    return found


def _following(broker: Services, topic_partition: TopicPartition, bytes_max: int) -> Callable[[int], FileRecords | None]:
    """Return a function that reads what follows from an offset on."""
    partition = broker.replica_manager.partitions.get(topic_partition)
    return lambda offset: None if partition is None else partition.read_on(Offset(offset), bytes_max)


def count_partition(metrics: BrokerMetrics, wanted: FetchPartition, data: FetchPartitionData) -> None:
    """Count what one partition of a response carries."""
    name, code = wanted.topic, data.error_code
    # Names of unknown topics must not fill the memory with counters.
    counters = metrics.no_topic if name is None or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else metrics.topic(name)
    counters.fetch_requests += 1
    counters.bytes_out += 0 if data.records is None else data.records.size
    if code:
        counters.failed_fetch_requests += 1


def repeats_a_partition(request: FetchRequest) -> bool:
    """Return whether a partition, or at least a topic, is named twice."""
    topics = request.topics
    if len(topics) > 1 and len({(topic.topic, topic.topic_id) for topic in topics}) < len(topics):
        return True
    return any(
        len(topic.partitions) > 1 and len({one.partition for one in topic.partitions}) < len(topic.partitions) for topic in topics
    )
