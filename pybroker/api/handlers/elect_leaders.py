"""ElectLeaders (key 43), v0-2: give partitions their preferred leader, or any.

Behaviour
    A preferred election makes the first replica the leader: PREFERRED_LEADER_NOT_AVAILABLE while it is not live and in sync. An
    unclean election is for partitions without a leader. It takes the first live replica, from the ISR where it can, and else
    records are lost: ELIGIBLE_LEADERS_NOT_AVAILABLE where none is live. A partition that has such a leader already is
    ELECTION_NOT_NEEDED; Kafka's tool takes that for "already done". A request for all partitions gets only those that need an
    election. The broker responds when the metadata store has the outcome.
Versions
    v1 the type of election, an error for the whole response (KIP-460). v2 flexible.
Not done
    The timeout: an election takes as long as a few commits of the metadata store.
Source: ReplicationControlManager.electLeaders; KIP-183, KIP-460.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage

PREFERRED: Final = 0
UNCLEAN: Final = 1

Asked = list[tuple[str, "Sequence[int]"]]
"""The names of topics, with the numbers of partitions."""

PIECES: Final = Pieces(("topic_partitions.partitions", "replica_election_results.partition_result"))


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: ElectLeadersRequest,
) -> ElectLeadersResponse | Awaitable[ElectLeadersResponse]:
    """Respond from the image, after the elections if any are needed."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    before = broker.controller.image
    asked: Asked = (
        [(topic.name, range(len(topic.partitions))) for topic in before.topics.values()]
        if request.topic_partitions is None
        else [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    )
    is_preferred, is_terse = request.election_type == PREFERRED, request.topic_partitions is None
    wanted = [
        TopicPartition(name, number)
        for name, numbers in asked
        for number in numbers
        if before.has_partition(TopicPartition(name, number)) and not _has_leader(before, name, number, is_preferred=is_preferred)
    ]
    if wanted:
        return _elect(broker, asked, wanted, is_preferred=is_preferred, is_terse=is_terse)
    return _response(before, asked, set(), is_preferred=is_preferred, is_terse=is_terse)


async def _elect(
    broker: Services, asked: Asked, wanted: list[TopicPartition], *, is_preferred: bool, is_terse: bool
) -> ElectLeadersResponse:
    await broker.controller.elect_leaders(wanted, is_unclean=not is_preferred)
    return _response(broker.controller.image, asked, set(wanted), is_preferred=is_preferred, is_terse=is_terse)


def _has_leader(image: ClusterImage, name: str, number: int, *, is_preferred: bool) -> bool:
    """Return whether the partition has a leader that is live, and the wanted one."""
    partition = image.topics[name].partitions[number]
    return partition.leader in image.brokers and (not is_preferred or partition.leader == partition.replicas[0])


def _response(
    image: ClusterImage, asked: Asked, elected: set[TopicPartition], *, is_preferred: bool, is_terse: bool
) -> ElectLeadersResponse:
    topics = []
    for name, numbers in asked:
        results = [
            _partition(image, TopicPartition(name, number), elected, is_preferred=is_preferred)
            for number in numbers
            if not is_terse or TopicPartition(name, number) in elected
        ]
        if results or not is_terse:
            topics.append(ReplicaElectionResult(topic=name, partition_result=results))
    return ElectLeadersResponse(replica_election_results=topics)


def _partition(
    image: ClusterImage, topic_partition: TopicPartition, elected: set[TopicPartition], *, is_preferred: bool
) -> PartitionResult:
    name, number = topic_partition
    if name not in image.topics:
        return _result(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not image.has_partition(topic_partition):
        return _result(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    if not _has_leader(image, name, number, is_preferred=is_preferred):
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return _result(number, code, code.message)
    if topic_partition in elected:
        return _result(number, ErrorCode.NONE, None)
    return _result(number, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message)


def _result(number: int, code: ErrorCode, message: str | None) -> PartitionResult:
    return PartitionResult(partition_id=number, error_code=code, error_message=message)
