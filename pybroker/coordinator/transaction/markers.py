"""The one seam through which the markers of ended transactions go to partitions: `MarkerWriter.send`.

The writer appends the markers for partitions that this broker leads; `remote_markers` sends those for partitions of other
brokers. What other brokers send comes to `MarkerWriter.write_all`. The writer gives the loop back after 5 ms, so a transaction
over 10,000 partitions, or 10,000 transactions that end together, hold up no other request.

`marker_results` has what the result of a marker means for its transaction.

Source: TransactionMarkerChannelManager; KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.transaction.marker_results import MarkerResults
from pybroker.coordinator.transaction.state import EPOCH_BUMP_VERSION, Marker, by_topic
from pybroker.log.results import AppendOrigin
from pybroker.metadata.names import OFFSETS_TOPIC
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.replication.produce_data import REFUSED
from pybroker.sharing.mailbox import Mailbox

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.coordinator.service import GroupCoordinator
    from pybroker.coordinator.transaction.remote_markers import RemoteMarkers, Taken
    from pybroker.coordinator.transaction.state import Ending
    from pybroker.model import ProducerId
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

_ACKS_ALL: Final = -1
_NOT_READY: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


Written = Callable[[Marker, Mapping["TopicPartition", ErrorCode]], None]
"""A callback that gets the result of a marker in each partition."""

_Write = Callable[["TopicPartition", Marker, "Taken"], None]
"""A function that writes a marker to one partition, whose result goes to the callback."""


class MarkerWriter:
    """Writes markers. It is used from the event loop only.

    `groups` returns what writes those of `__consumer_offsets`, because they change the offsets of groups. `call_soon` runs its
    argument in the loop's next iteration. `sent` gets each ending with the partitions that are left, and whether it is fenced:
    then no more markers are sent.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        groups: Callable[[], GroupCoordinator],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        timeout_ms: int,
        sent: Callable[[Ending, bool], None],
        remote: RemoteMarkers | None = None,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._groups = groups
        self._timeout_ms = timeout_ms
        self._sent = sent
        self._remote = remote
        self._mailbox = Mailbox(call_soon, "markers of transactions")
        self._results = MarkerResults(self._has_open_transaction)
        self._removal_count = 0
        self._removed: dict[str, tuple[int, int]] = {}
        """While markers wait: of each deleted topic, the number of its last removal, and of partitions, which only grows."""

    def send(self, ending: Ending) -> None:
        """Write the markers of a transaction, and report to `sent` when all partitions have responded."""
        marker = Marker(ending.producer_id, ending.epoch, ending.is_commit, ending.coordinator_epoch, ending.client_version)

        def written(_: Marker, codes: Mapping[TopicPartition, ErrorCode]) -> None:
            left, is_fenced = self._results.judge(ending, codes)
            self._sent(ending._replace(partitions=left), is_fenced)

        self._add([(marker, ending.partitions)], written, self._write_anywhere)

    def write_all(self, markers: Iterable[tuple[Marker, Iterable[TopicPartition]]], written: Written) -> None:
        """Write each marker to its partitions, which this broker must lead, after all that was given before; `written` gets the
        codes of each marker.
        """
        self._add(markers, written, self.write)

    def _add(self, markers: Iterable[tuple[Marker, Iterable[TopicPartition]]], written: Written, write: _Write) -> None:
        if not self._mailbox.is_busy:
            self._removed.clear()
        for marker, partitions in markers:
            self._mailbox.run(partial(self._write_all, marker, partitions, written, write, self._removal_count), _log_bug)

    def note_removed(self, topics: Mapping[str, int]) -> None:
        """Note that topics were deleted, by their numbers of partitions, so that no marker that waits goes to a new partition of
        the same name.
        """
        self._results.forget(topics)
        if self._remote is not None:
            self._remote.note_removed(topics)
        if self._mailbox.is_busy:
            self._removal_count += 1
            for topic, count in topics.items():
                self._removed[topic] = self._removal_count, max(count, self._removed.get(topic, (0, 0))[1])

    def _has_open_transaction(self, topic_partition: TopicPartition, producer_id: ProducerId) -> bool:
        """Return whether the partition has an open transaction of the producer, also where only its leader knows."""
        found = self._replicas.partition(topic_partition)
        if found is ErrorCode.NOT_LEADER_OR_FOLLOWER or not (isinstance(found, ErrorCode) or found.is_leader):
            return True
        entry = None if isinstance(found, ErrorCode) else found.log.producers.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0

    def _write_all(
        self, marker: Marker, partitions: Iterable[TopicPartition], written: Written, write: _Write, removal_count: int
    ) -> Pausing[None]:
        waiting = set(partitions)
        codes: dict[TopicPartition, ErrorCode] = {}

        def respond(topic_partition: TopicPartition, code: ErrorCode) -> None:
            waiting.discard(topic_partition)
            codes[topic_partition] = code
            if not waiting:
                written(marker, codes)

        if not waiting:
            written(marker, codes)
        for topic, numbers in by_topic(waiting).items():
            for number in numbers:
                topic_partition = TopicPartition(topic, number)
                removal, count = self._removed.get(topic, (0, 0))
                if removal > removal_count and number < count:
                    respond(topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    write(topic_partition, marker, respond)
                yield

    def _write_anywhere(self, topic_partition: TopicPartition, marker: Marker, done: Taken) -> None:
        if self._remote is None or not self._remote.take(topic_partition, marker, done):
            self.write(topic_partition, marker, done)

    def write(self, topic_partition: TopicPartition, marker: Marker, done: Taken) -> None:
        """Append the marker to one partition of this broker; `done` gets the result when the marker is as acks=all requires."""
        found = self._replicas.partition(topic_partition)
        if isinstance(found, ErrorCode):
            done(topic_partition, found)
            return
        if not found.is_leader:  # what this replica knows of the producer may be out of date
            done(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
        done: Taken,
    ) -> None:
        """Let the group coordinator append the marker. Until it has loaded the partition, the code is NOT_LEADER_OR_FOLLOWER."""
        self._groups().complete_transaction(
            topic_partition.partition,
            batch,
            marker.producer_id,
            lambda code: done(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code),
            is_commit=marker.is_commit,
        )


def _log_bug(error: Exception) -> None:
    logger.error("Markers cannot be written, which is a bug; their transaction ends after the next start", exc_info=error)
