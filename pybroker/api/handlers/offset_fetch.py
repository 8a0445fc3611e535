"""OffsetFetch (key 9), v0-10: how far groups have read.

Behaviour
    Partitions without an offset have -1 and no error; so has an unknown group. Null topics ask for all partitions that have an
    offset. The response shows durable offsets. With `require_stable` a partition whose offset an open transaction has written is
    UNSTABLE_OFFSET_COMMIT, and the client asks again.
Versions
    v0 a partition without an offset is UNKNOWN_TOPIC_OR_PARTITION, as when Kafka kept offsets in ZooKeeper. v2 null topics, error
    of the group; up to v7 its partitions have that error, too. v3 throttle time. v5 leader epoch. v6 flexible. v7 require stable
    (KIP-447). v8 several groups (KIP-709). v9 KIP-848: member and epoch (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH).
    v10 topic ids; an unknown id is UNKNOWN_TOPIC_ID, and with null topics those that no longer exist are left out.
Not done
    Nothing.
Source: KafkaApis.handleOffsetFetchRequest, OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.api.pieces import Pieces
from pybroker.coordinator.offsets import NOTHING_COMMITTED, Fetched
from pybroker.model import GroupId, MemberEpoch, MemberId, TopicId, TopicPartition, new_tuple
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.records import CommittedOffset

_SEVERAL_GROUPS_VERSION: Final = 8
_TOPIC_ID_VERSION: Final = 10

_PARTITION_FIELDS: Final = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
_new_partition: Final = maker(OffsetFetchResponsePartitions, *_PARTITION_FIELDS)
_new_old_partition: Final = maker(OffsetFetchResponsePartition, *_PARTITION_FIELDS)

PIECES: Final = Pieces(
    ("groups.topics.partition_indexes", "groups.topics.partitions"), ("topics.partition_indexes", "topics.partitions")
)


def handle(
    broker: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Future[OffsetFetchResponse]:
    """Respond from the committed offsets."""
    version = context.api_version
    if version < _SEVERAL_GROUPS_VERSION:
        group = _as_group(request)
        deferred: Deferred[Any, OffsetFetchResponse] = Deferred(
            lambda outcome: _old_response(_group_response(broker, version, group, outcome), version)
        )
        broker.groups.fetch(
            GroupId(group.group_id), _wanted(broker, version, group), deferred.complete, is_stable=request.require_stable
        )
        return deferred.response()
    responses: list[Any] = []
    for group in request.groups:
        one: Deferred[Any, OffsetFetchResponseGroup] = Deferred(
            lambda outcome, group=group: _group_response(broker, version, group, outcome)  # type: ignore[misc]
        )
        broker.groups.fetch(
            GroupId(group.group_id),
            _wanted(broker, version, group),
            one.complete,
            member_id=None if group.member_id is None else MemberId(group.member_id),
            member_epoch=MemberEpoch(group.member_epoch),
            is_stable=request.require_stable,
        )
        responses.append(one.response())
    if any(isinstance(response, asyncio.Future) for response in responses):
        return asyncio.ensure_future(_all(responses))
    return OffsetFetchResponse(groups=responses)


async def _all(responses: list[Any]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[await one if isinstance(one, asyncio.Future) else one for one in responses])


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _name(broker: Services, version: int, topic: OffsetFetchRequestTopics) -> str | None:
    if version < _TOPIC_ID_VERSION:
        return topic.name
    known = broker.controller.image.topics_by_id.get(TopicId(topic.topic_id))
    return None if known is None else known.name


def _wanted(broker: Services, version: int, group: OffsetFetchRequestGroup) -> list[TopicPartition] | None:
    if group.topics is None:
        return None
    return [
        new_tuple(TopicPartition, (name, index))
        for topic in group.topics
        if (name := _name(broker, version, topic)) is not None
        for index in topic.partition_indexes
    ]


def _group_response(
    broker: Services, version: int, group: OffsetFetchRequestGroup, outcome: Fetched | ErrorCode
) -> OffsetFetchResponseGroup:
    if isinstance(outcome, ErrorCode):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=outcome, topics=_failed(version, group, outcome))
    if group.topics is None:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=_all_topics(broker, version, outcome))
    topics = []
    for topic in group.topics:
        known = _name(broker, version, topic)
        name = known or ""
        missing = ErrorCode.UNKNOWN_TOPIC_ID if known is None else ErrorCode.NONE
        topics.append(
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _fetched(outcome, new_tuple(TopicPartition, (name, index)), missing) for index in topic.partition_indexes
                ],
            )
        )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _all_topics(broker: Services, version: int, fetched: Fetched) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for topic_partition in fetched.offsets:
        known = broker.controller.image.topics.get(topic_partition.topic)
        if known is None and version >= _TOPIC_ID_VERSION:
            continue
        topic = topics.get(topic_partition.topic)
        if topic is None:
            topic = topics[topic_partition.topic] = OffsetFetchResponseTopics(name=topic_partition.topic)
            if known is not None:
                topic.topic_id = known.topic_id
        topic.partitions.append(_fetched(fetched, topic_partition, ErrorCode.NONE))
    return list(topics.values())


def _fetched(fetched: Fetched, topic_partition: TopicPartition, missing: ErrorCode) -> OffsetFetchResponsePartitions:
    if topic_partition in fetched.unstable:
        return _partition(topic_partition.partition, NOTHING_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return _partition(topic_partition.partition, fetched.offsets.get(topic_partition, NOTHING_COMMITTED), missing)


def _partition(index: int, committed: CommittedOffset, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return _new_partition(index, committed.offset, committed.leader_epoch, committed.metadata, code)


def _failed(version: int, group: OffsetFetchRequestGroup, code: ErrorCode) -> list[OffsetFetchResponseTopics]:
    """Return the partitions with the error of the group.

    Before v2 the response has no other place for it. Kafka leaves them out from v2 on, and aiokafka, which reads the errors of
    partitions alone, takes that for a group without offsets: after a restart of the broker it would read everything again.
    """
    if version >= _SEVERAL_GROUPS_VERSION:
        return []
    return [
        OffsetFetchResponseTopics(
            name=topic.name, partitions=[_partition(index, NOTHING_COMMITTED, code) for index in topic.partition_indexes]
        )
        for topic in group.topics or ()
    ]


def _old_response(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """Build the response of one group, in the form up to v7."""
    if version == 0:
        for topic in group.topics:
            for partition in topic.partitions:
                if partition.committed_offset == NOTHING_COMMITTED.offset and not partition.error_code:
                    partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _new_old_partition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
