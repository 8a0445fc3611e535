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
from pybroker.coordinator.offsets import Committer
from pybroker.model import GenerationId, GroupId, MemberId, TopicId
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.offsets import Refused
    from pybroker.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

_UNKNOWN_GROUP_VERSION: Final = 9
_TOPIC_ID_VERSION: Final = 10
_NONE: Final = ErrorCode.NONE  # looking up an enum's member costs more than the decision by it
_UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_topic = maker(OffsetCommitResponseTopic, "name", "topic_id", "partitions")
_partition = maker(OffsetCommitResponsePartition, "partition_index", "error_code")


def handle(
    broker: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred[Refused | ErrorCode, OffsetCommitResponse]:
    """Commit the offsets that can be committed."""
    topic_ids = context.api_version >= _TOPIC_ID_VERSION
    new: list[tuple[str, Sequence[OffsetCommitRequestPartition]]] = []
    layout: list[tuple[ErrorCode, int]] = []  # the code of each topic's partitions, from this number of partitions on
    is_known = True  # that is, everything that is named
    image = broker.controller.image
    for topic in request.topics:
        known = image.topics_by_id.get(TopicId(topic.topic_id)) if topic_ids else image.topics.get(topic.name)
        if known is None:
            layout.append((ErrorCode.UNKNOWN_TOPIC_ID if topic_ids else _UNKNOWN_PARTITION, 0))
            is_known = False
            continue
        count = len(known.partitions)
        layout.append((_UNKNOWN_PARTITION, count))
        partitions = [one for one in topic.partitions if 0 <= one.partition_index < count]
        is_known = is_known and len(partitions) == len(topic.partitions)
        if partitions:
            new.append((known.name, partitions))

    def respond(outcome: Refused | ErrorCode) -> OffsetCommitResponse:
        if not outcome and is_known:
            return OffsetCommitResponse(topics=[_all_committed(topic) for topic in request.topics])
        place = -1  # among the partitions that were committed
        topics = []
        for topic, (unknown, count) in zip(request.topics, layout, strict=True):
            responses = []
            for one in topic.partitions:
                code = unknown
                if 0 <= one.partition_index < count:
                    place += 1
                    code = _NONE if not outcome else outcome if isinstance(outcome, ErrorCode) else outcome.get(place, _NONE)
                responses.append(_partition(one.partition_index, code))
            topics.append(_topic(topic.name, topic.topic_id, responses))
        return OffsetCommitResponse(topics=topics)

    if not new:
        return respond(_NONE)
    deferred = Deferred(respond)
    broker.groups.commit(
        _committer(context, request), new, request.retention_time_ms, deferred.complete, source=context.connection
    )
    return deferred.later()


def _all_committed(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    partitions = [_partition(one.partition_index, _NONE) for one in topic.partitions]
    return _topic(topic.name, topic.topic_id, partitions)


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
