"""Decides what the result of a marker in a partition means for its transaction.

    done        NONE; UNKNOWN_TOPIC_OR_PARTITION, because the partition was deleted; UNSUPPORTED_FOR_MESSAGE_FORMAT and
                UNSUPPORTED_VERSION, because the partition is too old for transactions
    fenced      INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: a later producer or coordinator was there. No more markers
                are sent, and the transaction stays as it is until its coordinator is loaded again
    sent again  the others: those that pass with a warning, any other with an error

A partition that refuses the producer's epoch and has no open transaction of this producer is done. After a machine was lost that
had no flush settings, a coordinator may be several epochs behind the partitions. Kafka would never complete the transaction then.

Source: TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.transaction.state import Ending
    from pybroker.model import ProducerId, TopicPartition

logger = logging.getLogger(__name__)

DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class MarkerResults:
    """The judge of results. It logs each cause once: the first time that a partition has a code, until it takes a marker again.

    `has_open_transaction` returns whether a partition has an open transaction of a producer.
    """

    def __init__(self, has_open_transaction: Callable[[TopicPartition, ProducerId], bool]) -> None:
        self._has_open_transaction = has_open_transaction
        self._causes: dict[str, dict[int, ErrorCode]] = {}  # by topic and number

    def judge(self, ending: Ending, codes: Mapping[TopicPartition, ErrorCode]) -> tuple[frozenset[TopicPartition], bool]:
        """Return the partitions to which the marker is sent again, and whether the transaction is fenced."""
        left, is_fenced = [], False
        for topic_partition, code in codes.items():
            if code in DONE or (
                code is ErrorCode.INVALID_PRODUCER_EPOCH and not self._has_open_transaction(topic_partition, ending.producer_id)
            ):
                if self._causes:
                    self._causes.get(topic_partition.topic, {}).pop(topic_partition.partition, None)
            elif code in FENCED:
                is_fenced = True
                self._log_fenced(ending, topic_partition, code)
            else:
                left.append(topic_partition)
                self._log_again(ending, topic_partition, code)
        return frozenset(left), is_fenced

    def forget(self, topics: Iterable[str]) -> None:
        """Forget the causes of topics that were deleted: a new topic of the same name is another one."""
        for topic in topics if self._causes else ():
            self._causes.pop(topic, None)

    def _log_again(self, ending: Ending, topic_partition: TopicPartition, code: ErrorCode) -> None:
        level = logging.WARNING if code in PASSING else logging.ERROR
        causes = self._causes.setdefault(topic_partition.topic, {})
        if causes.get(topic_partition.partition) is code:
            level = logging.DEBUG
        causes[topic_partition.partition] = code
        logger.log(
            level,
            "%s cannot take the marker of %s (producer %d, epoch %d) now: %s; the broker tries again, less and less often",
            topic_partition,
            ending.transactional_id,
            ending.producer_id,
            ending.epoch,
            code.name,
        )

    @staticmethod
    def _log_fenced(ending: Ending, topic_partition: TopicPartition, code: ErrorCode) -> None:
        logger.warning(
            "%s refuses the marker of %s (producer %d, epoch %d) for good: %s; the broker sends no more markers of this "
            "transaction before the partition %d of __transaction_state is loaded again",
            topic_partition,
            ending.transactional_id,
            ending.producer_id,
            ending.epoch,
            code.name,
            ending.shard_partition,
        )
