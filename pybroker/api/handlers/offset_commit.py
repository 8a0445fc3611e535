"""OffsetCommit (key 8), v0-10: store a group's offsets in partitions.

Behaviour
    The broker responds when the offsets are durable. Each partition has a result; an error of the group is that of all.
    Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION, an unknown topic id is UNKNOWN_TOPIC_ID; their offsets are not
    kept. The text beside an offset may have `offset.metadata.max.bytes` characters. `coordinator/classic/group.py` has the rules
    of which member may commit when.
Versions
    v0 no member: kept with the group like all others (Kafka kept them in ZooKeeper). v1 member and generation, commit time by the
    client. v2-v4 retention by the client. v3 throttle time. v6 leader epoch. v7 static members (KIP-345). v8 flexible. v9
    KIP-848: the number may be a member's epoch (STALE_MEMBER_EPOCH), before UNSUPPORTED_VERSION for such members; a group that
    does not exist is GROUP_ID_NOT_FOUND, before ILLEGAL_GENERATION. v10 topic ids.
Not done
    Nothing.
Source: KafkaApis.handleOffsetCommitRequest, OffsetMetadataManager.commitOffset; KIP-211.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.coordinator.offsets import Codes, Committer, NewOffset
from pybroker.model import GenerationId, GroupId, LeaderEpoch, MemberId, Offset, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services

_UNKNOWN_GROUP_VERSION: Final = 9
_TOPIC_ID_VERSION: Final = 10


def handle(
    broker: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Future[OffsetCommitResponse]:
    """Commit the offsets that can be committed."""
    refused: Codes = {}
    new: dict[TopicPartition, NewOffset] = {}
    layout: list[tuple[str, bytes, list[TopicPartition]]] = []  # the response's, in the request's order
    image = broker.controller.image
    for topic in request.topics:
        if context.api_version >= _TOPIC_ID_VERSION:
            known = image.topics_by_id.get(TopicId(topic.topic_id))
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            known = image.topics.get(topic.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Partitions of unknown ids are identified by the id's bytes, which no topic's name can equal.
        name = (topic.name or topic.topic_id.hex(" ")) if known is None else known.name
        asked: list[TopicPartition] = []
        layout.append((topic.name, topic.topic_id, asked))
        for partition in topic.partitions:
            topic_partition = TopicPartition(name, partition.partition_index)
            asked.append(topic_partition)
            if known is None:
                refused[topic_partition] = unknown
            elif not 0 <= partition.partition_index < len(known.partitions):
                refused[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                new[topic_partition] = NewOffset(
                    Offset(partition.committed_offset),
                    LeaderEpoch(partition.committed_leader_epoch),
                    partition.committed_metadata,
                    partition.commit_timestamp,
                )

    def respond(outcome: Codes | ErrorCode) -> OffsetCommitResponse:
        codes = dict.fromkeys(new, outcome) if isinstance(outcome, ErrorCode) else outcome
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=tp.partition, error_code=refused[tp] if tp in refused else codes[tp]
                        )
                        for tp in asked
                    ],
                )
                for name, topic_id, asked in layout
            ]
        )

    if not new:
        return respond(ErrorCode.NONE)
    deferred = Deferred(respond)
    broker.groups.commit(_committer(context, request), new, request.retention_time_ms, deferred.complete)
    return deferred.response()


def _committer(context: RequestContext, request: OffsetCommitRequest) -> Committer:
    is_new = context.api_version >= _UNKNOWN_GROUP_VERSION
    return Committer(
        GroupId(request.group_id),
        GenerationId(request.generation_id_or_member_epoch),
        MemberId(request.member_id),
        request.group_instance_id,
        ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION,
        is_new,
    )
