"""The transactional ids of one partition of `__transaction_state`, and how records become that state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.coordinator.transaction.records import from_bytes, type_of
from pybroker.coordinator.transaction.removed import RemovedPartitions
from pybroker.coordinator.transaction.state import State
from pybroker.protocol.messages.transaction_records import TRANSACTION_LOG

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.coordinator.transaction.state import Ending, Transaction
    from pybroker.model import CoordinatorEpoch
    from pybroker.records.batch import BatchView
    from pybroker.records.entries import Entry
    from pybroker.sharing.work import Pausing


@dataclass(slots=True, frozen=True, kw_only=True)
class TransactionSettings:
    """The broker's settings of transactions, times in ms, and what a shard reaches outside of itself."""

    max_timeout_ms: int
    id_expiration_ms: int
    clean_up_interval_ms: int
    transaction_version: Callable[[], int]
    """Returns the level of transaction.version in force."""
    send: Callable[[Ending], None]
    """Sends the markers of a transaction whose end is durable."""


class TransactionShard:
    """The state of one partition, without behaviour. Only `replay` changes transactions.

    The rest is soft state: `due` holds the ids whose time is up, and when the transaction that is due began; `ending` those whose
    markers are on their way; `attempts` how often a step of an end has failed, by id. `gone` holds partitions that were removed
    and that transactions may still have, and `forgetting` is the walk that takes them out (`forgetting.py`).
    """

    __slots__ = (
        "attempts",
        "coordinator_epoch",
        "due",
        "ending",
        "forgetting",
        "gone",
        "partition",
        "settings",
        "transactions",
    )

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self.due: dict[str, int] = {}
        self.ending: set[str] = set()
        self.attempts: Counter[str] = Counter()
        self.gone = RemovedPartitions()
        self.forgetting: Iterator[str] = iter(())
        self.partition = -1  # of the topic; set with the epoch when the loading ends
        self.coordinator_epoch: CoordinatorEpoch

    def open_since(self, transactional_id: str, start_ms: int) -> Transaction | None:
        """Return the transaction that began at that time; None if it has ended, and perhaps another one has begun."""
        one = self.transactions.get(transactional_id)
        return one if one is not None and one.state is State.ONGOING and one.start_ms == start_ms else None

    def replay(self, record: CoordinatorRecord) -> bool:
        """Apply the record to the state."""
        if record.value is None:
            self.transactions.pop(record.key, None)
        else:
            self.transactions[record.key] = record.value
        return True


def replay_batch(shard: TransactionShard, _batch: BatchView, some: Iterator[Entry], skipped: Counter[int]) -> Pausing[None]:
    """Replay some records of a batch, and count those of types that mean nothing here in `skipped`."""
    for key, value in some:
        if key is None:
            continue
        type_id = type_of(key)
        if type_id == TRANSACTION_LOG:
            shard.replay(from_bytes(key, value))
        else:
            skipped[type_id] += 1
        yield
