"""Decides which transactions' records and markers compaction may drop: records of aborted transactions, and markers
without records.

Idea
    The aborted transactions are known from the transaction indexes before their records are read. A record of one is dropped,
    and is no newer version of its key. A marker may be dropped after a whole pass has met none of its transaction's records
    before it. A time in its batch (`delete_horizon_ms`) keeps it for a while, so that slow readers still find it.

Source: CleanedTransactionMetadata of Kafka; KIP-98, KIP-534.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from pybroker.records.control import ControlType, transaction_marker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.log.indexes.transaction_index import AbortedTransaction, TransactionIndex
    from pybroker.model import Offset
    from pybroker.records.batch import BatchView


class CleanedTransactions:
    """The transactions of one pass, which reports all batches in the order of their offsets.

    `index`, if set, gets the aborted transactions of which something is left.
    """

    __slots__ = ("_aborted", "_committed", "_known", "_seen", "_waiting", "index")

    def __init__(self) -> None:
        self.index: TransactionIndex | None = None
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []  # by first offset; their first batch has not been read yet
        self._known: set[AbortedTransaction] = set()
        self._aborted: dict[int, AbortedTransaction] = {}  # producer id -> the one that is open here
        self._seen: set[int] = set()  # producers whose open aborted transaction has had a batch
        self._committed: set[int] = set()  # producers with records of a transaction that will be committed

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions, before their first batch is read; a transaction may be added again."""
        for one in transactions:
            if one not in self._known:
                self._known.add(one)
                heapq.heappush(self._waiting, (one.first_offset, one.producer_id, one))

    def on_batch(self, batch: BatchView) -> bool:
        """Handle a batch of records. Returns whether it belongs to an aborted transaction."""
        self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def on_control_batch(self, batch: BatchView) -> bool:
        """Handle a control batch. Returns whether it may be dropped: its transaction has no records. Raises
        CorruptRecordError.
        """
        self._begin(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:  # emptied by an earlier pass
            return True
        control_type, _ = transaction_marker(record)
        if control_type is ControlType.ABORT:
            transaction = self._aborted.pop(batch.producer_id, None)
            if transaction is None or batch.producer_id not in self._seen:
                return True
            self._seen.discard(batch.producer_id)
            if self.index is not None:
                self.index.gather(transaction)
            return False
        if control_type is ControlType.COMMIT:
            had_records = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not had_records
        return False

    def _begin(self, offset: Offset) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, producer_id, transaction = heapq.heappop(self._waiting)
            self._aborted[producer_id] = transaction
            self._seen.discard(producer_id)
