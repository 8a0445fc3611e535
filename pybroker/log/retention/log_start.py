"""Lets a log begin later, for DeleteRecords and for retention.

Source: UnifiedLog.maybeIncrementLogStartOffset; KIP-107.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.retention import record_retention
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.log.log_state import LogState
    from pybroker.model import Offset


def increment_log_start_offset(log: LogState, offset: Offset, *, high_watermark: Offset) -> bool:
    """Let the log begin at `offset` if that is later (DeleteRecords). Raises OFFSET_OUT_OF_RANGE above the watermark."""
    log.check_usable()
    if offset > high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition} cannot begin at {offset}, above its high watermark {high_watermark}",
        )
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    log.producers.on_log_start_offset(offset)
    log.guarded(lambda: log.epochs.truncate_from_start(offset))
    log.guarded(lambda: record_retention.note_head(log))
    return True
