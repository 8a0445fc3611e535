"""Asks the coordinator of a transactional id that is on another broker whether partitions belong to its transaction.

The leader of a partition asks this for each transaction that begins there, and the broker of a group for its offsets (KIP-890).
Without a response the result is NOT_COORDINATOR: the client sends its request again, and the leader of then is asked.

Source: AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, code_of_number
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import Producer
    from pybroker.coordinator.runtime.runtime import Done
    from pybroker.model import BrokerId
    from pybroker.replication.peers import Peers

LANE: Final = "transactions"

_BEHIND: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Codes of a broker that does not know a topic yet. For the client it is as if that broker were not the coordinator."""


def ask(  # noqa: PLR0917  (each is of another kind)
    peers: Peers,
    broker_id: BrokerId,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    done: Done,
    *,
    adds: bool,
    timeout_ms: int,
) -> None:
    """Have a broker add partitions to a transaction, or else verify that they belong to it. `done` gets a code for each of them,
    or a code for all. `partitions` must remain as it is until then.
    """
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=not adds,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=some) for topic, some in numbers.items()],
    )

    def responded(response: Any | None) -> None:
        codes = {} if response is None else _codes(response)
        done({one: codes.get(one, ErrorCode.NOT_COORDINATOR) for one in partitions})

    request = AddPartitionsToTxnRequest(transactions=[transaction])
    peers.send(broker_id, request, responded, lane=LANE, timeout_ms=timeout_ms)


def _codes(response: Any) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, one.partition_index): _code(one.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for one in topic.results_by_partition
    }


def _code(number: int) -> ErrorCode:
    found = code_of_number(number)
    return ErrorCode.NOT_COORDINATOR if found in _BEHIND else found
