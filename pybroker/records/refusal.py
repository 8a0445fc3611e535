"""Lists the records of a batch that break the topic's rules, for the response that refuses the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from pybroker.protocol.error_codes import ErrorCode
from pybroker.records import sections
from pybroker.records.batch import LOG_APPEND_TIME_BIT, NO_TIMESTAMP
from pybroker.records.errors import RecordError, RecordValidationError

if TYPE_CHECKING:
    from pybroker.records.batch import BatchView
    from pybroker.records.validate import ValidationRules

_LISTED_MAX: Final = 1000
"""The number of refused records that a response lists. Kafka lists all; identical records compress to millions in a few kB."""
_NO_KEY: Final = "Compacted topic cannot accept message without key"
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


def refuse(batch: BatchView, section: bytes | memoryview, rules: ValidationRules, now_ms: int) -> NoReturn:
    """Raise RecordValidationError with the first records that are refused: `_LISTED_MAX` at most, of perhaps millions."""
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    base_timestamp = batch.base_timestamp
    if batch.attributes & LOG_APPEND_TIME_BIT:
        _refuse_log_append_time(batch, section, rules, earliest=earliest, latest=latest)
    if rules.is_log_append_time:
        earliest, latest = _INT64_MIN, _INT64_MAX
    bounds = max(earliest, _INT64_MIN), min(latest, _INT64_MAX)
    found = sections.refused_records(section, batch.record_count, base_timestamp, rules.is_compacted, *bounds, _LISTED_MAX)
    errors = [
        RecordError(
            index, _NO_KEY if rules.is_compacted and not has_key else f"Timestamp {time} is outside of [{earliest}, {latest}]"
        )
        for index, time, has_key in found.first
    ]
    code = ErrorCode.INVALID_TIMESTAMP if found.is_late_or_early else ErrorCode.INVALID_RECORD
    raise RecordValidationError(errors, code, count=found.total)


def _refuse_log_append_time(
    batch: BatchView, section: bytes | memoryview, rules: ValidationRules, *, earliest: int, latest: int
) -> NoReturn:
    """Refuse a batch whose timestamps a producer has marked as the broker's: the max timestamp holds for every record."""
    timestamp = batch.max_timestamp
    text = "Producer should not set timestamp type to LogAppendTime"
    if not rules.is_log_append_time and timestamp != NO_TIMESTAMP:
        text = f"Timestamp {timestamp} is outside of [{earliest}, {latest}]"
    is_refused = rules.is_log_append_time or timestamp == NO_TIMESTAMP or not earliest <= timestamp <= latest
    found = sections.refused_records(section, batch.record_count, 0, rules.is_compacted, _INT64_MIN, _INT64_MAX, _LISTED_MAX)
    keyless = {index for index, _, _ in found.first}
    indexes = range(min(batch.record_count, _LISTED_MAX)) if is_refused else sorted(keyless)
    errors = [RecordError(index, _NO_KEY if index in keyless else text) for index in indexes]
    count = batch.record_count if is_refused else found.total
    code = ErrorCode.INVALID_TIMESTAMP if count > found.total else ErrorCode.INVALID_RECORD
    raise RecordValidationError(errors, code, count=count)
