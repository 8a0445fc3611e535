"""OffsetCommit (key 8), v0-10: store a group's offsets in partitions.

Behaviour
    The broker responds when the offsets are durable. Each partition has a result; an error of the group is that of all.
    Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION, an unknown topic id is UNKNOWN_TOPIC_ID; their offsets are not
    kept. The text beside an offset may have `offset.metadata.max.bytes` characters. `coordinator/state/classic_group.py` has the
    rules of which member may commit when.
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

from pybroker.api.committed_offsets import CommitLayout, responses
from pybroker.api.deferred import Deferred
from pybroker.coordinator.state.group import Committer
from pybroker.model import GenerationId, GroupId, MemberId
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.offsets import Refused

_UNKNOWN_GROUP_VERSION: Final = 9
_TOPIC_ID_VERSION: Final = 10

_topic = maker(OffsetCommitResponseTopic, "name", "topic_id", "partitions")
_partition = maker(OffsetCommitResponsePartition, "partition_index", "error_code")


def handle(
    broker: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred[Refused | ErrorCode, OffsetCommitResponse]:
    """Commit the offsets that can be committed."""
    has_topic_ids = context.api_version >= _TOPIC_ID_VERSION
    layout = CommitLayout(broker.controller.image, request.topics, has_topic_ids=has_topic_ids)

    def respond(outcome: Refused | ErrorCode) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=responses(layout, request.topics, outcome, _topic, _partition))

    if not layout.new:
        return respond(ErrorCode.NONE)
    deferred = Deferred(respond)
    broker.groups.commit(
        _committer(context, request), layout.new, request.retention_time_ms, deferred.complete, source=context.connection
    )
    return deferred.later()


def _committer(context: RequestContext, request: OffsetCommitRequest) -> Committer:
    knows_epochs = context.api_version >= _UNKNOWN_GROUP_VERSION
    group_id, member_id = GroupId(request.group_id), MemberId(request.member_id)
    generation_id = GenerationId(request.generation_id_or_member_epoch)
    unknown_group, producer = ErrorCode.GROUP_ID_NOT_FOUND if knows_epochs else ErrorCode.ILLEGAL_GENERATION, None
    return Committer(group_id, generation_id, member_id, request.group_instance_id, unknown_group, knows_epochs, producer)
