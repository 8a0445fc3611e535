"""The one seam through which the markers of ended transactions go to partitions: `MarkerWriter.send`.

All partitions are led by this broker, so the writer appends the markers itself. Those for partitions of another broker would
become a WriteTxnMarkers request here. The writer gives the loop back after 5 ms, so a transaction over 10,000 partitions, or
10,000 transactions that end together, hold up no other request.

What the result of a marker means for its transaction

    NONE                                     the partition is done
    UNKNOWN_TOPIC_OR_PARTITION               the partition was deleted, and needs no marker
    INVALID_PRODUCER_EPOCH,                  a later epoch has ended the transaction there already
    TRANSACTION_COORDINATOR_FENCED
    any other                                the marker is sent again later

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler; KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.coordinator.transaction.state import EPOCH_BUMP_VERSION
from pybroker.log.results import AppendOrigin
from pybroker.metadata.names import OFFSETS_TOPIC
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.replication.fetch_data import REFUSED
from pybroker.slicing import run_slice

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.coordinator.service import GroupCoordinator
    from pybroker.coordinator.transaction.ending import Ending
    from pybroker.model import CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
    from pybroker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

_ACKS_ALL: Final = -1
_DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)

_NOT_READY: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


class Marker(NamedTuple):
    """The end of one producer's transaction, the same for all partitions."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: CoordinatorEpoch
    version: int = 0
    """The transaction version of the client that has ended the transaction; 0 where the coordinator has ended it."""


Written = Callable[[Marker, Mapping["TopicPartition", ErrorCode]], None]
"""A callback that gets the result of a marker in each partition."""


class MarkerWriter:
    """Writes markers. It is used from the event loop only.

    `groups` returns what writes those of `__consumer_offsets`, because they change the offsets of groups. `call_soon` runs its
    argument in the loop's next iteration; `sent` gets each ending with the partitions that are left.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        groups: Callable[[], GroupCoordinator],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        timeout_ms: int,
        sent: Callable[[Ending], None],
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._groups = groups
        self._call_soon = call_soon
        self._timeout_ms = timeout_ms
        self._sent = sent
        self._queue: deque[Generator[None, None, None]] = deque()

    def send(self, ending: Ending) -> None:
        """Write the markers of a transaction, and report to `sent` when all partitions have responded."""
        marker = Marker(ending.producer_id, ending.epoch, ending.is_commit, ending.coordinator_epoch, ending.client_version)

        def written(_: Marker, codes: Mapping[TopicPartition, ErrorCode]) -> None:
            left = {topic_partition: code for topic_partition, code in codes.items() if code not in _DONE}
            for topic_partition, code in left.items():
                logger.warning("%s cannot take %s now: %s; the broker tries again", topic_partition, marker, code.name)
            self._sent(ending._replace(partitions=frozenset(left)))

        self.write_all(marker, ending.partitions, written)

    def write_all(self, marker: Marker, partitions: Iterable[TopicPartition], written: Written) -> None:
        """Write a marker to partitions, after all that was given before; `written` gets the codes of all of them."""
        self._queue.append(self._write_all(marker, partitions, written))
        if len(self._queue) == 1:
            self._run()

    def _run(self) -> None:
        is_over, _ = run_slice(self._all())
        if not is_over:
            self._call_soon(self._run)

    def _all(self) -> Generator[None, None, None]:
        while self._queue:
            try:
                for _ in self._queue[0]:
                    yield
            except Exception:  # whatever it is, the markers of the other transactions must be written
                logger.exception("Markers cannot be written, which is a bug; their transaction ends after the next start")
            self._queue.popleft()

    def _write_all(self, marker: Marker, partitions: Iterable[TopicPartition], written: Written) -> Generator[None, None, None]:
        waiting = set(partitions)
        codes: dict[TopicPartition, ErrorCode] = {}

        def respond(topic_partition: TopicPartition, code: ErrorCode) -> None:
            waiting.discard(topic_partition)
            codes[topic_partition] = code
            if not waiting:
                written(marker, codes)

        if not waiting:
            written(marker, codes)
        for topic_partition in sorted(waiting):
            self.write(topic_partition, marker, respond)
            yield

    def write(self, topic_partition: TopicPartition, marker: Marker, done: Callable[[TopicPartition, ErrorCode], None]) -> None:
        """Append the marker to one partition; `done` gets the result when the marker is as acks=all requires."""
        found = self._replicas.partition(topic_partition)
        if isinstance(found, ErrorCode):
            done(topic_partition, found)
            return
        if marker.version >= EPOCH_BUMP_VERSION and not found.log.producers.takes_new_epoch(marker.producer_id, marker.epoch):
            done(topic_partition, ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        now_ms = self._clock.time_ms()
        kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
        batch = build_transaction_marker(
            TransactionMarker(kind, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            timestamp_ms=now_ms,
        )
        if topic_partition.topic == OFFSETS_TOPIC:
            self._complete_offsets(topic_partition, memoryview(batch), marker, done)
            return
        replicas = self._replicas
        result, required_offset = replicas.append_one(
            topic_partition, memoryview(batch), _ACKS_ALL, now_ms, None, AppendOrigin.COORDINATOR, True
        )
        if required_offset != REFUSED:
            replicas.wake(topic_partition)
        if required_offset < 0:
            done(topic_partition, result.error_code)
            return
        replicas.await_settled(
            timeout_ms=self._timeout_ms,
            acks=_ACKS_ALL,
            results={topic_partition: result},
            unsettled={topic_partition: required_offset},
            on_complete=lambda results: done(topic_partition, results[topic_partition].error_code),
        )

    def _complete_offsets(
        self,
        topic_partition: TopicPartition,
        batch: memoryview,
        marker: Marker,
        done: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        """Let the group coordinator append the marker. Until it has loaded the partition, the code is NOT_LEADER_OR_FOLLOWER."""
        self._groups().complete_transaction(
            topic_partition.partition,
            batch,
            marker.producer_id,
            lambda code: done(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code),
            is_commit=marker.is_commit,
        )
