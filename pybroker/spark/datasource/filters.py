"""Filters that names and indexes can decide, so that a query never reads what does not match.

Filters on topics, partitions and offsets are decided here for good. A filter on time only shows which segments and batches may
hold matches, and Spark filters the rows again. The index of a segment knows the greatest time, not the least. So a lower bound
skips segments, and an upper bound skips only batches whose time the broker set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pybroker.model import FIRST_OFFSET, LAST_OFFSET, Offset

TIMESTAMP_MIN: Final = -(1 << 63)
TIMESTAMP_MAX: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND_US: Final = 1000


@dataclass(slots=True)
class Constraints:
    """The bounds of the rows: offsets in [first_offset, end_offset), times (ms) in [min_timestamp, max_timestamp]."""

    first_offset: Offset = FIRST_OFFSET
    end_offset: Offset = LAST_OFFSET
    min_timestamp: int = TIMESTAMP_MIN
    max_timestamp: int = TIMESTAMP_MAX
    rules: list[tuple[str, str, object]] = field(default_factory=list)

    def push(self, column: str, kind: str, value: object) -> bool:
        """Take a filter under PySpark's name, with "Not" before a negated filter. Return whether this decides it for good."""
        if column in {"topic", "partition"}:
            if not _is_rule(kind, value, str if column == "topic" else int):
                return False
            self.rules.append((column, kind, value))
            return True
        if column == "offset":
            return self._push_offset(kind, value)
        if column == "timestamp" and isinstance(value, datetime):
            self._push_time(kind, (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH)
        return False

    def _push_offset(self, kind: str, value: object) -> bool:
        if kind == "In" and isinstance(value, (tuple, list)) and value and all(isinstance(one, int) for one in value):
            self.first_offset, self.end_offset = max(self.first_offset, min(value)), min(self.end_offset, max(value) + 1)
            return False  # the range may hold other offsets in between
        if kind == "IsNotNull":
            return True
        if not isinstance(value, int) or kind not in {
            "EqualTo",
            "GreaterThan",
            "GreaterThanOrEqual",
            "LessThan",
            "LessThanOrEqual",
        }:
            return False
        if kind in {"EqualTo", "GreaterThan", "GreaterThanOrEqual"}:
            self.first_offset = Offset(max(self.first_offset, value + (kind == "GreaterThan")))
        if kind in {"EqualTo", "LessThan", "LessThanOrEqual"}:
            self.end_offset = Offset(min(self.end_offset, value + (kind != "LessThan")))
        return True

    def _push_time(self, kind: str, since_epoch: timedelta) -> None:
        micros = since_epoch // timedelta(microseconds=1)
        if kind in {"EqualTo", "GreaterThanOrEqual"}:
            self.min_timestamp = max(self.min_timestamp, -(-micros // _MILLISECOND_US))
        elif kind == "GreaterThan":
            self.min_timestamp = max(self.min_timestamp, micros // _MILLISECOND_US + 1)
        if kind in {"EqualTo", "LessThanOrEqual"}:
            self.max_timestamp = min(self.max_timestamp, micros // _MILLISECOND_US)
        elif kind == "LessThan":
            self.max_timestamp = min(self.max_timestamp, -(-micros // _MILLISECOND_US) - 1)

    def takes(self, topic: str, partition: int) -> bool:
        """Return whether rows of this partition may match."""
        return all(_holds(kind, topic if column == "topic" else partition, value) for column, kind, value in self.rules)


def _is_rule(kind: str, value: object, of: type) -> bool:
    kind = kind.removeprefix("Not")
    if kind == "In":
        return isinstance(value, (tuple, list)) and all(isinstance(one, of) for one in value)
    if kind in {"StringStartsWith", "StringEndsWith", "StringContains"}:
        return of is str and isinstance(value, str)
    if kind in {"EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"}:
        return isinstance(value, of)
    return kind in {"IsNull", "IsNotNull"}


def _holds(kind: str, actual: object, value: object) -> bool:
    if kind.startswith("Not"):
        return not _holds(kind.removeprefix("Not"), actual, value)
    match kind:
        case "In":
            assert isinstance(value, (tuple, list))
            return actual in value
        case "EqualTo":
            return actual == value
        case "IsNull":
            return False
        case "IsNotNull":
            return True
    if isinstance(actual, str) and isinstance(value, str):
        one, other = actual.encode(), value.encode()  # as Spark compares strings
        if kind.startswith("String"):
            return {
                "StringStartsWith": one.startswith(other),
                "StringEndsWith": one.endswith(other),
                "StringContains": other in one,
            }[kind]
        return _is_in_order(kind, (one > other) - (one < other))
    assert isinstance(actual, int)
    assert isinstance(value, int)
    return _is_in_order(kind, (actual > value) - (actual < value))


def _is_in_order(kind: str, order: int) -> bool:
    return {"GreaterThan": order > 0, "GreaterThanOrEqual": order >= 0, "LessThan": order < 0, "LessThanOrEqual": order <= 0}[
        kind
    ]
