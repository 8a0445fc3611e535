"""Which records of transactions a job reads: Kafka's isolation levels, under the names that its consumers give them."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """An isolation level. Markers of transactions are never records."""

    READ_COMMITTED = "read_committed"
    """Only records of committed transactions, and a partition only up to its last stable offset."""
    READ_UNCOMMITTED = "read_uncommitted"
    """Records of open and aborted transactions, too."""
