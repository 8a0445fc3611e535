"""Lists the records of a batch that break the topic's rules, for the response that refuses the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from pybroker.protocol.error_codes import ErrorCode
from pybroker.records import sections
from pybroker.records.batch import LOG_APPEND_TIME_BIT, NO_TIMESTAMP
from pybroker.records.errors import RecordError, RecordValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.records._sections_python import Refused
    from pybroker.records.batch import BatchView
    from pybroker.records.rules import ValidationRules

_LISTED_MAX: Final = 1000
"""The number of refused records that a response lists. Kafka lists all; identical records compress to millions in a few kB."""
_NO_KEY: Final = "Compacted topic cannot accept message without key"
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


class LookedThrough(Protocol):
    """Records that were looked through, and can be again."""

    @property
    def rules(self) -> ValidationRules:
        """The rules by which they are refused."""

    def pieces_again(self) -> Iterator[bytes | memoryview]:
        """Yield the uncompressed records."""


def refuse(batch: BatchView, records: LookedThrough, now_ms: int) -> NoReturn:
    """Raise RecordValidationError with the first records that are refused: `_LISTED_MAX` at most, of perhaps millions."""
    rules = records.rules
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    base_timestamp = batch.base_timestamp
    if batch.attributes & LOG_APPEND_TIME_BIT:
        _refuse_log_append_time(batch, records, earliest=earliest, latest=latest)
    if rules.is_log_append_time:
        earliest, latest = _INT64_MIN, _INT64_MAX
    earliest_known, latest_known = max(earliest, _INT64_MIN), min(latest, _INT64_MAX)
    found = _refused(records, batch.record_count, base_timestamp=base_timestamp, earliest=earliest_known, latest=latest_known)
    errors = [
        RecordError(
            index, _NO_KEY if rules.is_compacted and not has_key else f"Timestamp {time} is outside of [{earliest}, {latest}]"
        )
        for index, time, has_key in found.first
    ]
    code = ErrorCode.INVALID_TIMESTAMP if found.is_late_or_early else ErrorCode.INVALID_RECORD
    raise RecordValidationError(errors, code, count=found.total)


def _refused(records: LookedThrough, count: int, *, base_timestamp: int, earliest: int, latest: int) -> Refused:
    walk = sections.Refusals(count, base_timestamp, records.rules.is_compacted, earliest, latest, _LISTED_MAX)
    for piece in records.pieces_again():
        walk.feed(piece)
    return walk.refused


def _refuse_log_append_time(batch: BatchView, records: LookedThrough, *, earliest: int, latest: int) -> NoReturn:
    """Refuse a batch whose timestamps a producer has marked as the broker's: the max timestamp holds for every record."""
    rules = records.rules
    timestamp = batch.max_timestamp
    text = "Producer should not set timestamp type to LogAppendTime"
    if not rules.is_log_append_time and timestamp != NO_TIMESTAMP:
        text = f"Timestamp {timestamp} is outside of [{earliest}, {latest}]"
    is_refused = rules.is_log_append_time or timestamp == NO_TIMESTAMP or not earliest <= timestamp <= latest
    found = _refused(records, batch.record_count, base_timestamp=0, earliest=_INT64_MIN, latest=_INT64_MAX)
    keyless = {index for index, _, _ in found.first}
    indexes = range(min(batch.record_count, _LISTED_MAX)) if is_refused else sorted(keyless)
    errors = [RecordError(index, _NO_KEY if index in keyless else text) for index in indexes]
    count = batch.record_count if is_refused else found.total
    code = ErrorCode.INVALID_TIMESTAMP if count > found.total else ErrorCode.INVALID_RECORD
    raise RecordValidationError(errors, code, count=count)
