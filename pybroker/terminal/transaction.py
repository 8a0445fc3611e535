"""A transaction of a producer, with the requests of Kafka 3, which brokers of 4.x serve, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pybroker.protocol.messages.end_txn import EndTxnRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.terminal.session import FailedError, check

if TYPE_CHECKING:
    from pybroker.terminal.session import Cluster

INIT_VERSION, ADD_VERSION, END_VERSION = 4, 3, 3
PAUSE_S: Final = 0.05
PATIENCE_S: Final = 30.0
NOT_YET: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class ProducerOf(NamedTuple):
    """The id and the epoch of a producer."""

    producer_id: ProducerId
    epoch: ProducerEpoch


NO_PRODUCER: Final = ProducerOf(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Transaction:
    """The transactions of one transactional id, one after the other. Making it fences an earlier producer of the id.

    Methods raise FailedError, ClientError.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._cluster, self.transactional_id = cluster, transactional_id
        self._added: set[tuple[str, int]] = set()
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        found = self._ask(request, INIT_VERSION, lambda response: int(response.error_code))
        self.producer = ProducerOf(found.producer_id, found.producer_epoch)

    def add(self, topic: str, partitions: Iterable[int]) -> None:
        """Add partitions that the transaction writes to."""
        new = sorted(index for index in partitions if (topic, index) not in self._added)
        if not new:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=new)],
        )
        self._ask(request, ADD_VERSION, _first_error)
        self._added |= {(topic, index) for index in new}

    def end(self, *, committed: bool) -> None:
        """Commit or abort, if there is anything in the transaction."""
        if not self._added:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=committed,
        )
        self._ask(request, END_VERSION, lambda response: int(response.error_code))
        self._added = set()

    def _ask(self, request: object, version: int, error_of: Callable[[Any], int]) -> Any:
        """Return the coordinator's response, once it is ready for the request."""
        end = time.monotonic() + PATIENCE_S
        while True:
            broker_id = self._cluster.transaction_coordinator(self.transactional_id)
            response = self._cluster.ask(request, version, broker_id=broker_id)
            code = error_of(response)
            if code not in NOT_YET or time.monotonic() > end:
                break
            time.sleep(PAUSE_S)
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:
            raise FailedError(f"transactional id {self.transactional_id}: PRODUCER_FENCED: another producer has the id now")
        check(f"transactional id {self.transactional_id}", code)
        return response


def _first_error(response: Any) -> int:
    codes = [one.partition_error_code for topic in response.results_by_topic_v3_and_below for one in topic.results_by_partition]
    return next((code for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED), 0)
