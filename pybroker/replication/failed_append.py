"""The result of an append that failed, and what the metrics count of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.failures import drop_frames, is_shortage
from pybroker.model import NO_OFFSET
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.errors import RecordValidationError
from pybroker.replication.produce_data import PartitionProduceResult

if TYPE_CHECKING:
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.records.validate import Checked
    from pybroker.replication.partition import Partition

logger = logging.getLogger(__name__)

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

_NOTHING_KNOWN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of a produce request whose responses do not have the partition's log start offset."""


def failed_append(
    partition: Partition, records: memoryview | Checked, error: Exception, metrics: BrokerMetrics
) -> PartitionProduceResult:
    """Count an append that raised `error`, and return its result; an error that is no refusal of the records is logged."""
    if isinstance(error, KafkaError):
        code, message = error.code, error.message if error.message != error.code.message else None
    elif is_shortage(error):
        logger.info("An append to %s failed for a shortage: KAFKA_STORAGE_ERROR (%r)", partition.topic_partition, error)
        code, message = ErrorCode.KAFKA_STORAGE_ERROR, None
    elif isinstance(error, OSError):
        logger.error("The disk refused an append to %s: KAFKA_STORAGE_ERROR", partition.topic_partition, exc_info=error)
        code, message = ErrorCode.KAFKA_STORAGE_ERROR, None
    else:
        logger.error("An append to %s failed, which is a bug: UNKNOWN_SERVER_ERROR", partition.topic_partition, exc_info=error)
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
    drop_frames(error)
    counters = metrics.topic(partition.topic_partition.topic)
    counters.produce_requests += 1
    counters.failed_produce_requests += 1
    counters.bytes_rejected += len(records) if code in _TOO_LARGE else 0
    return PartitionProduceResult(
        code,
        log_start_offset=NO_OFFSET if code in _NOTHING_KNOWN else partition.log.log_start_offset,
        record_errors=error.record_errors if isinstance(error, RecordValidationError) else (),
        error_message=message,
    )
