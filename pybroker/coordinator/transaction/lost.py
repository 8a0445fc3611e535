"""Names transactions that a lost machine has brought back in part: the decision of their end is lost, and a marker is not.

A decision is durable before the first marker only where `__transaction_state` has `flush.messages=1`. Without it a loss of power
may keep the marker of one partition and lose the record that decided it. The loaded transaction is open then, and will be aborted
when its time is up: the partitions without a marker get an abort, although the client may have the response of a commit.

A marker is of the open transaction if its epoch is larger than the transaction's, as those of transaction version 2 are, or if it
is younger than the beginning of the transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pybroker.coordinator.transaction.state import State

if TYPE_CHECKING:
    from pybroker.coordinator.transaction.shard import TransactionShard
    from pybroker.coordinator.transaction.state import Transaction
    from pybroker.log.producers.producer_entry import ProducerEntry
    from pybroker.model import ProducerId, TopicPartition
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

EntryOf = Callable[["TopicPartition", "ProducerId"], "ProducerEntry | None"]
"""Returns what the log of a partition knows of a producer, if there are both."""


def name_lost_decisions(shard: TransactionShard, entry_of: EntryOf) -> Pausing[None]:
    """Log each open transaction of a loaded shard that has its marker in some of its partitions already."""
    for transactional_id, one in shard.transactions.items():
        ended = []
        for topic_partition in one.partitions if one.state is State.ONGOING else ():
            if _has_marker(one, entry_of(topic_partition, one.producer_id)):
                ended.append(topic_partition)
            yield
        if ended:
            logger.error(
                "Transaction of %s (producer %d, epoch %d) is open, but the machine has lost the decision that ended it: %s had "
                "the marker already, the broker aborts the transaction in the other partitions of %d",
                transactional_id,
                one.producer_id,
                one.epoch,
                ", ".join(map(str, sorted(ended))),
                len(one.partitions),
            )
        yield


def _has_marker(transaction: Transaction, entry: ProducerEntry | None) -> bool:
    if entry is None or entry.transaction_first_offset >= 0:
        return False
    if entry.producer_epoch != transaction.epoch:
        return entry.producer_epoch > transaction.epoch
    return entry.last_timestamp > transaction.start_ms
