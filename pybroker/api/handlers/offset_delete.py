"""OffsetDelete (key 47), v0: remove a group's offsets of some partitions.

Behaviour
    From a group of consumers with members, only offsets of topics without a subscriber can be deleted: GROUP_SUBSCRIBED_TO_TOPIC.
    From another group with members, none can: NON_EMPTY_GROUP. A partition without an offset is no error; a partition that does
    not exist is UNKNOWN_TOPIC_OR_PARTITION.
Versions
    Only one.
Not done
    Nothing.
Source: KafkaApis.handleOffsetDeleteRequest, OffsetMetadataManager.deleteOffsets; KIP-496.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.pieces import Pieces
from pybroker.model import GroupId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.offsets import Codes

PIECES: Final = Pieces(("topics.partitions", "topics.partitions"))


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse | Future[OffsetDeleteResponse]:
    """Delete the offsets that can be deleted."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    asked = [TopicPartition(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    known = list(filter(broker.controller.image.has_partition, asked))

    def respond(outcome: Codes | ErrorCode) -> OffsetDeleteResponse:
        if isinstance(outcome, ErrorCode):
            return OffsetDeleteResponse(error_code=outcome)
        return OffsetDeleteResponse(
            error_code=ErrorCode.NONE,
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=outcome.get(
                                TopicPartition(topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                            ),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    deferred = Deferred(respond)
    broker.groups.delete_offsets(GroupId(request.group_id), known, deferred.complete)
    return deferred.response()
