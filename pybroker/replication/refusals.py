"""Partitions whose logs a start could not open, logged in one line per reason, because a missing directory has many."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.listed import listed

if TYPE_CHECKING:
    from pybroker.model import TopicPartition

logger = logging.getLogger(__name__)


class Refusals:
    """The refusals so far. Call `report` once."""

    def __init__(self) -> None:
        self._by_reason: dict[str, list[TopicPartition]] = {}

    def add(self, topic_partition: TopicPartition, reason: str) -> None:
        """Add an offline partition; `reason` is for people. The partition's own name at its start is left out."""
        self._by_reason.setdefault(reason.removeprefix(f"{topic_partition} is offline: "), []).append(topic_partition)

    def report(self) -> None:
        """Log the lines."""
        for reason, partitions in self._by_reason.items():
            logger.error("%d of the partitions are offline (%s): %s", len(partitions), listed(partitions), reason)
