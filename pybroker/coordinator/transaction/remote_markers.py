"""Markers of transactions for partitions that other brokers lead: they go there as WriteTxnMarkers requests.

One request at a time is under way to each broker. It has the markers that have come since the request before, of any number of
transactions. The leader of a partition is looked up when its marker comes. Where that broker does not lead the partition any
more, or does not respond, the result is NOT_LEADER_OR_FOLLOWER: the coordinator sends the marker again later, to the leader of
then. A partition that a marker has reached without a response gets it twice, which changes nothing.

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.coordinator.transaction.state import by_topic
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, code_of_number
from pybroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from pybroker.coordinator.transaction.state import Marker
    from pybroker.metadata.image import ClusterImage
    from pybroker.model import BrokerId
    from pybroker.replication.peers import Peers

PARTITIONS_MAX: Final = 1_000
"""The number of markers in one request, where a transaction has one in each of its partitions."""
LANE: Final = "markers"

Taken = Callable[[TopicPartition, ErrorCode], None]


class _Waiting(NamedTuple):
    marker: Marker
    topic_partition: TopicPartition
    done: Taken


class RemoteMarkers:
    """The markers on their way to other brokers. It is used from the event loop only.

    `image` returns the present image. `call_soon` runs its argument in the loop's next iteration, so that the markers of one
    turn share a request.
    """

    def __init__(
        self,
        peers: Peers,
        image: Callable[[], ClusterImage],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        timeout_ms: int,
    ) -> None:
        self._peers, self._image, self._call_soon, self._timeout_ms = peers, image, call_soon, timeout_ms
        self._queues: dict[BrokerId, deque[_Waiting]] = {}  # of brokers that have a request under way, or get one soon

    def take(self, topic_partition: TopicPartition, marker: Marker, done: Taken) -> bool:
        """Take a marker whose partition another broker leads, or no broker; `done` gets the result. Return False for others."""
        image = self._image()
        if not image.has_partition(topic_partition):
            return False
        leader = image.topics[topic_partition.topic].partitions[topic_partition.partition].leader
        if leader == image.broker_id:
            return False
        if leader not in image.brokers:  # NO_LEADER, or a broker that is not live
            done(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return True
        waiting = _Waiting(marker, topic_partition, done)
        if leader in self._queues:
            self._queues[leader].append(waiting)
        else:
            self._queues[leader] = deque([waiting])
            self._call_soon(partial(self._send, leader))
        return True

    def note_removed(self, topics: Mapping[str, int]) -> None:
        """Note that topics were deleted, by their numbers of partitions, so that no marker that waits goes to a new partition of
        the same name.
        """
        for queue in self._queues.values():
            for _ in range(len(queue)):
                one = queue.popleft()
                topic, number = one.topic_partition
                if number < topics.get(topic, 0):
                    one.done(one.topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    queue.append(one)

    def _send(self, broker_id: BrokerId) -> None:
        """Send what waits for a broker."""
        queue = self._queues[broker_id]
        if not queue:
            del self._queues[broker_id]
            return
        sent = [queue.popleft() for _ in range(min(len(queue), PARTITIONS_MAX))]
        partitions: dict[Marker, list[TopicPartition]] = {}
        for one in sent:
            partitions.setdefault(one.marker, []).append(one.topic_partition)
        request = WriteTxnMarkersRequest(markers=[_written(marker, some) for marker, some in partitions.items()])
        responded = partial(self._responded, broker_id, sent)
        self._peers.send(broker_id, request, responded, lane=LANE, timeout_ms=self._timeout_ms)

    def _responded(self, broker_id: BrokerId, sent: list[_Waiting], response: Any | None) -> None:
        codes = {} if response is None else _codes(response)
        for one in sent:
            code = codes.get((one.marker.producer_id, *one.topic_partition), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # there; whether it was deleted, the image here shows next time
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            one.done(one.topic_partition, code)
        self._send(broker_id)


def _written(marker: Marker, partitions: list[TopicPartition]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(partitions).items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )


def _codes(response: Any) -> dict[tuple[int, str, int], ErrorCode]:
    return {
        (one.producer_id, topic.name, partition.partition_index): code_of_number(partition.error_code)
        for one in response.markers
        for topic in one.topics
        for partition in topic.partitions
    }
