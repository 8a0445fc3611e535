"""Which batches of a fetch of committed records belong to aborted transactions, by the list that the broker sends (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from pybroker.records.control import ControlType, control_type

if TYPE_CHECKING:
    from pybroker.records.batch import BatchView


@final
class AbortedTransactions:
    """The aborted transactions of one response: pairs of producer id and first offset."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda one: one[1], reverse=True)
        self._open: set[int] = set()

    def has(self, batch: BatchView) -> bool:
        """Return whether a batch has records of an aborted transaction. Call this for all batches, in their order."""
        if not batch.is_transactional or not (self._coming or self._open):
            return False
        while self._coming and self._coming[-1][1] <= batch.last_offset:
            self._open.add(self._coming.pop()[0])
        if batch.producer_id not in self._open:
            return False
        if not batch.is_control:
            return True
        if control_type(batch) is ControlType.ABORT:
            self._open.discard(batch.producer_id)
        return False
