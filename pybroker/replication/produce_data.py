"""The results that the replicas and the produce handler pass to each other, by partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import NO_OFFSET, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.records.errors import RecordError

SETTLED: Final = NO_OFFSET
"""Used instead of the offset that an append must reach before its result is valid: the result is final."""
REFUSED: Final = Offset(-2)
"""As `SETTLED`, and nothing was appended."""


class PartitionProduceResult(NamedTuple):
    """The result for one partition of a produce request.

    `log_append_time_ms` is -1 for CreateTime topics; `record_errors` names the invalid records of a refused batch.
    """

    error_code: ErrorCode = ErrorCode.NONE
    base_offset: Offset = NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: Offset = NO_OFFSET
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None


ProduceResults = dict[TopicPartition, PartitionProduceResult]

Unsettled = dict[TopicPartition, Offset]
"""The offset (exclusive) that each partition must reach, replicated or durable, before its result is valid."""
