"""What a Fetch response says of one partition in every case: errors, aborted transactions, conversions for old clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import fetch as messages
from pybroker.protocol.messages.fetch import PartitionData
from pybroker.replication.fetch_data import FetchPartition, FetchPartitionData

if TYPE_CHECKING:
    from pybroker.api.context import Services
    from pybroker.api.down_conversion import DownConversion
    from pybroker.metrics.broker_metrics import BrokerMetrics

_STORAGE_ERROR_VERSION: Final = 6
ZSTD_VERSION: Final = 10
"""From here on records are sent as they are on disk, whatever compresses them."""

_NEVER_READ: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors with which Kafka answers before it reads; its list of aborted transactions is empty then, and null for all others."""
_NO_DATA: Final = FetchPartitionData()


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


def answer_partition(
    broker: Services, version: int, conversion: DownConversion | None, wanted: FetchPartition, data: FetchPartitionData
) -> PartitionData:
    """What is said of `wanted`. The records of `data` are owned by the answer."""
    code = data.error_code
    if code:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # the other is unknown to clients of that time, and retried by none
        return _refused(wanted, code, data)
    records = data.records
    answered = PartitionData(
        partition_index=wanted.partition,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        preferred_read_replica=data.preferred_read_replica,
        records=b"" if records is None else records,
    )
    if data.aborted_transactions is not None:
        answered.aborted_transactions = [
            messages.AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in data.aborted_transactions
        ]
    else:
        answered.aborted_transactions = None
    if data.diverging_epoch is not None:
        answered.diverging_epoch = messages.EpochEndOffset(
            epoch=data.diverging_epoch.epoch, end_offset=data.diverging_epoch.end_offset
        )
    if version < ZSTD_VERSION:
        partition = broker.replica_manager.partitions.get(wanted.topic_partition)
        config = None if partition is None else partition.log.config
        if config is not None and config.compression_type == "zstd":
            return _refused(wanted, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if conversion is not None:
            if config is not None and not config.message_downconversion_enable:
                return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
            if records is not None:
                converted = conversion.convert(
                    wanted.topic_partition.topic,
                    records,
                    wanted.fetch_offset,
                    cut_batch_size=data.cut_batch_size,
                    read_on=lambda offset: None if partition is None else partition.read_on(offset, records.size),
                )
                if isinstance(converted, ErrorCode):
                    return _refused(wanted, converted)
                answered.records = converted
    return answered


def count_partition(metrics: BrokerMetrics, wanted: FetchPartition, data: FetchPartitionData) -> None:
    """Count what one partition of an answer carries, for all topics and for its own."""
    size = 0 if data.records is None else data.records.size
    name, code = wanted.topic, data.error_code
    # Names that no topic has must not fill the memory with counters.
    for counters in (
        (metrics.all_topics,) if name is None or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else metrics.of_topic(name)
    ):
        counters.fetch_requests += 1
        counters.bytes_out += size
        if code:
            counters.failed_fetch_requests += 1
