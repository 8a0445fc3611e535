"""Kafka's error codes by number."""

from __future__ import annotations

from pybroker.protocol.error_codes import ErrorCode


def error_code(number: int) -> ErrorCode:
    """Return the error with that number. Raises ValueError when Kafka has none."""
    return ErrorCode(number)  # type: ignore[call-arg]  # mypy takes it for a new member, which has three values
