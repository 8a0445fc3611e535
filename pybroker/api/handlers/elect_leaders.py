"""ElectLeaders (key 43), v0-2: give partitions their preferred leader, or any.

Behaviour
    A partition's only replica is its preferred one and always leads, so every existing partition is ELECTION_NOT_NEEDED; Kafka's
    tool takes that for "already done". A request for all partitions gets only those that need an election, so none.
Versions
    v1 the type of election, an error for the whole response (KIP-460). v2 flexible.
Not done
    Elections between several replicas: PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE until there is
    replication.
Source: ReplicationControlManager.electLeaders; KIP-183, KIP-460.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.metadata.image import NO_LEADER
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage, PartitionImage

PREFERRED: Final = 0
UNCLEAN: Final = 1

PIECES: Final = Pieces(("topic_partitions.partitions", "replica_election_results.partition_result"))


def handle(broker: Services, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:  # noqa: ARG001
    """Respond from the image."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = broker.controller.image
    if request.topic_partitions is None:
        everything = ((topic.name, range(len(topic.partitions))) for topic in image.topics.values())
        results = [_topic(image, name, numbers, request.election_type, is_terse=True) for name, numbers in everything]
        return ElectLeadersResponse(replica_election_results=[result for result in results if result.partition_result])
    return ElectLeadersResponse(
        replica_election_results=[
            _topic(image, topic.topic, topic.partitions, request.election_type) for topic in request.topic_partitions
        ]
    )


def _topic(
    image: ClusterImage, name: str, numbers: range | list[int], election_type: int, *, is_terse: bool = False
) -> ReplicaElectionResult:
    results = [_partition(image, name, number, election_type=election_type) for number in numbers]
    return ReplicaElectionResult(
        topic=name,
        partition_result=[one for one in results if not is_terse or one.error_code != ErrorCode.ELECTION_NOT_NEEDED],
    )


def _partition(image: ClusterImage, name: str, number: int, *, election_type: int) -> PartitionResult:
    topic = image.topics.get(name)
    if topic is None:
        return _result(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        return _result(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    code = _outcome(topic.partitions[number], election_type)
    return _result(number, code, code.message)


def _outcome(partition: PartitionImage, election_type: int) -> ErrorCode:
    is_preferred = election_type == PREFERRED
    if partition.leader == partition.replicas[0] or (not is_preferred and partition.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def _result(number: int, code: ErrorCode, message: str) -> PartitionResult:
    return PartitionResult(partition_id=number, error_code=code, error_message=message)
