"""OffsetFetch (key 9), v0-10: how far groups have read.

Behaviour
    Partitions without an offset have -1 and no error; so has an unknown group. Null topics ask for all partitions that have an
    offset. The response shows durable offsets. With `require_stable` a partition whose offset an open transaction has written is
    UNSTABLE_OFFSET_COMMIT, and the client asks again.
    A group whose topics are null is in the response once, however often it is named; Kafka repeats all of its offsets. So is a
    partition with long metadata in a large request.
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
from collections.abc import Generator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.api.deferred import Deferred
from pybroker.api.offsets_once import OFFSETS_ONCE, leave_out_groups
from pybroker.api.pieces import Pieces
from pybroker.coordinator.offsets import NOTHING_COMMITTED, OffsetsOfGroup
from pybroker.coordinator.records import CommittedOffset, OffsetKey
from pybroker.model import ZERO_TOPIC_ID, GroupId, MemberEpoch, MemberId, TopicId
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from pybroker.slicing import run_through

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pybroker.api.context import RequestContext, Services

_SEVERAL_GROUPS_VERSION: Final = 8
_TOPIC_ID_VERSION: Final = 10

_PARTITION_FIELDS: Final = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
_new_old_topic: Final = maker(OffsetFetchResponseTopic, "name", "partitions")
_new_old_response: Final = maker(OffsetFetchResponse, "error_code", "topics")
_new_group: Final = maker(OffsetFetchResponseGroup, "group_id", "error_code", "topics")

_NONE: Final = ErrorCode.NONE

STEP_PARTITIONS: Final = 1_000
"""The number of partitions of all topics whose offsets are made into the response in a step."""

_NO_OFFSETS: Final[Mapping[int, CommittedOffset]] = MappingProxyType({})


PIECES: Final = Pieces(
    ("groups.topics.partition_indexes", "groups.topics.partitions"),
    ("topics.partition_indexes", "topics.partitions"),
    once=OFFSETS_ONCE,
)


class _Form(NamedTuple):
    """The way to build the response of topics and partitions, which have other classes from v8 on.

    `nothing` is the error of a partition without an offset.
    """

    topic: Callable[[str, TopicId, list[Any]], Any]
    partition: Callable[[int, int, int, str, ErrorCode], Any]
    nothing: ErrorCode = ErrorCode.NONE


_NEW: Final = _Form(
    maker(OffsetFetchResponseTopics, "name", "topic_id", "partitions"), maker(OffsetFetchResponsePartitions, *_PARTITION_FIELDS)
)
_OLD: Final = _Form(
    lambda name, _topic_id, partitions: _new_old_topic(name, partitions), maker(OffsetFetchResponsePartition, *_PARTITION_FIELDS)
)
_OLDEST: Final = _OLD._replace(nothing=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def handle(
    broker: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Future[OffsetFetchResponse]:
    """Respond from the committed offsets."""
    version = context.api_version
    if version < _SEVERAL_GROUPS_VERSION:
        topics = request.topics
        form = _OLD if version else _OLDEST

        def respond(outcome: list[Any] | ErrorCode) -> OffsetFetchResponse:
            if isinstance(outcome, ErrorCode):
                return _new_old_response(outcome, _failed(topics or (), outcome))
            return _new_old_response(_NONE, outcome)

        def select(offsets: OffsetsOfGroup) -> list[Any] | Generator[None, None, list[Any]]:
            if topics is None:
                return _at_once_if_few(_all_topics(broker, version, form, offsets), offsets)
            return _named_topics(form, topics, offsets)

        deferred = Deferred(respond)
        broker.groups.fetch(GroupId(request.group_id), select, deferred.complete, is_stable=request.require_stable)
        return deferred.response()
    if len(request.groups) > 1:
        leave_out_groups(request, ())
    responses: list[Any] = [_fetch_group(broker, version, group, is_stable=request.require_stable) for group in request.groups]
    if any(isinstance(response, asyncio.Future) for response in responses):
        return asyncio.ensure_future(_all(responses))
    return OffsetFetchResponse(groups=responses)


async def _all(responses: list[Any]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[await one if isinstance(one, asyncio.Future) else one for one in responses])


def _fetch_group(
    broker: Services, version: int, group: OffsetFetchRequestGroup, *, is_stable: bool
) -> OffsetFetchResponseGroup | Future[OffsetFetchResponseGroup]:
    """Fetch the offsets of one of several groups."""

    def select(offsets: OffsetsOfGroup) -> list[Any] | Generator[None, None, list[Any]]:
        if group.topics is None:
            return _at_once_if_few(_all_topics(broker, version, _NEW, offsets), offsets)
        if version < _TOPIC_ID_VERSION:
            return _named_topics(_NEW, group.topics, offsets)
        return [_topic_of_id(broker, topic.topic_id, topic.partition_indexes, offsets) for topic in group.topics]

    def respond(outcome: list[Any] | ErrorCode) -> OffsetFetchResponseGroup:
        if isinstance(outcome, ErrorCode):
            return _new_group(group.group_id, outcome, [])
        return _new_group(group.group_id, _NONE, outcome)

    deferred = Deferred(respond)
    broker.groups.fetch(
        GroupId(group.group_id),
        select,
        deferred.complete,
        member_id=None if group.member_id is None else MemberId(group.member_id),
        member_epoch=MemberEpoch(group.member_epoch),
        is_stable=is_stable,
    )
    return deferred.response()


def _named_topics(form: _Form, topics: Sequence[Any], offsets: OffsetsOfGroup) -> list[Any]:
    """Return the offsets of topics that the request names."""
    return [
        form.topic(
            topic.name, ZERO_TOPIC_ID, _partitions(form, offsets, topic.name, topic.partition_indexes, nothing=form.nothing)
        )
        for topic in topics
    ]


def _topic_of_id(broker: Services, topic_id: bytes, indexes: Sequence[int], offsets: OffsetsOfGroup) -> OffsetFetchResponseTopics:
    known = broker.controller.image.topics_by_id.get(TopicId(topic_id))
    name, nothing = ("", ErrorCode.UNKNOWN_TOPIC_ID) if known is None else (known.name, _NONE)
    topic: OffsetFetchResponseTopics = _NEW.topic(
        "", TopicId(topic_id), _partitions(_NEW, offsets, name, indexes, nothing=nothing)
    )
    return topic


def _at_once_if_few(
    work: Generator[None, None, list[Any]], offsets: OffsetsOfGroup
) -> list[Any] | Generator[None, None, list[Any]]:
    """Return what `work` returns, or `work` itself if the group has many offsets."""
    return run_through(work) if sum(map(len, offsets.topics.values())) <= STEP_PARTITIONS else work


def _all_topics(broker: Services, version: int, form: _Form, offsets: OffsetsOfGroup) -> Generator[None, None, list[Any]]:
    """Return all offsets of the group, in steps."""
    topics = []
    count = 0
    for name, partitions in offsets.topics.items():
        known = broker.controller.image.topics.get(name)
        if known is None and version >= _TOPIC_ID_VERSION:
            continue
        topic_id = ZERO_TOPIC_ID if known is None else known.topic_id
        found: list[Any] = []
        indexes = iter(partitions)
        while some := tuple(islice(indexes, STEP_PARTITIONS - count)):
            found += _partitions(form, offsets, name, some, nothing=_NONE)
            count += len(some)
            if count >= STEP_PARTITIONS:
                count = 0
                yield
        topics.append(form.topic(name, topic_id, found))
    return topics


def _partitions(
    form: _Form, offsets: OffsetsOfGroup, name: str, indexes: Sequence[int] | Mapping[int, Any], *, nothing: ErrorCode
) -> list[Any]:
    """Return the offsets of partitions of a topic; `nothing` is the error of those without one."""
    new, committed = form.partition, offsets.topics.get(name, _NO_OFFSETS)
    unstable = _unstable(offsets, name, indexes) if offsets.unstable else ()
    partitions = []
    for index in indexes:
        found, code = committed.get(index), _NONE
        if found is None:
            found, code = NOTHING_COMMITTED, nothing
        if unstable and index in unstable:
            found, code = NOTHING_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT
        offset, leader_epoch, metadata, _, _ = found
        partitions.append(new(index, offset, leader_epoch, metadata, code))
    return partitions


def _unstable(offsets: OffsetsOfGroup, name: str, indexes: Iterable[int]) -> Collection[int]:
    """Return the partitions for which an open transaction has written an offset."""
    group, unstable = offsets.group_id, offsets.unstable
    return {index for index in indexes if OffsetKey(group, name, index) in unstable}


def _failed(topics: Sequence[Any], code: ErrorCode) -> list[Any]:
    """Return the partitions with the error of the group, up to v7.

    Before v2 the response has no other place for it. Kafka leaves them out from v2 on, and aiokafka, which reads the errors of
    partitions alone, takes that for a group without offsets: after a restart of the broker it would read everything again.
    """
    offset, leader_epoch, metadata, _, _ = NOTHING_COMMITTED
    return [
        _new_old_topic(
            topic.name, [_OLD.partition(index, offset, leader_epoch, metadata, code) for index in topic.partition_indexes]
        )
        for topic in topics
    ]
