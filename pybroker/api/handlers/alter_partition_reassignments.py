"""AlterPartitionReassignments (key 45), v0-1: move partitions to other brokers, or stop moving them.

Behaviour
    A partition can only be moved to where it is, which is done at once. An assignment that names an unknown broker,
    a broker twice, or no broker is INVALID_REPLICA_ASSIGNMENT. No move is ever under way, so there is none to stop:
    NO_REASSIGNMENT_IN_PROGRESS.
Versions
    v1 may refuse another number of replicas (KIP-860), INVALID_REPLICATION_FACTOR.
Not done
    Moves between brokers: INVALID_REPLICA_ASSIGNMENT.
Source: ReplicationControlManager.alterPartitionReassignments; KIP-455.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.metadata.new_topic import check_assignment
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage

PIECES: Final = Pieces(("topics.partitions", "responses.partitions"))


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    """Respond from the image."""
    is_factor_free = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=is_factor_free,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _result(broker.controller.image, topic.name, partition, is_factor_free=is_factor_free)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _result(
    image: ClusterImage, name: str, asked: ReassignablePartition, *, is_factor_free: bool
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        _move(image, name, asked, is_factor_free=is_factor_free)
    except KafkaError as error:
        code, message = error.code, error.message
    return ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=code, error_message=message)


def _move(image: ClusterImage, name: str, asked: ReassignablePartition, *, is_factor_free: bool) -> None:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= asked.partition_index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{asked.partition_index}.")
    if asked.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    target, current = tuple(map(BrokerId, asked.replicas)), topic.partitions[asked.partition_index].replicas
    check_assignment(image, target, len(target))
    if not is_factor_free and len(target) != len(current):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(current)} to {len(target)}, which the request does not allow.",
        )
    if target != current:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions cannot be moved between brokers in this version.")
