"""OffsetFetch (key 9), v0-10: how far groups have read.

Behaviour
    Partitions without an offset have -1 and no error; so has an unknown group. Null topics ask for all partitions that have an
    offset. The response shows durable offsets. With `require_stable` a partition whose offset an open transaction has written is
    UNSTABLE_OFFSET_COMMIT, and the client asks again.
    A group whose topics are null is in the response once, however often it is named; Kafka repeats all of its offsets. A
    partition with metadata is listed once in each group that names it.
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

from collections.abc import Container, Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.api.deferred import Deferred, when_all
from pybroker.api.pieces import Once, Pieces, first_of
from pybroker.coordinator.committed import CommittedOffset, OffsetKey
from pybroker.coordinator.offsets import NOTHING_COMMITTED, OffsetsOfGroup
from pybroker.model import ZERO_TOPIC_ID, GroupId, MemberEpoch, MemberId, TopicId
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
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing

_SEVERAL_GROUPS_VERSION: Final = 8
_TOPIC_ID_VERSION: Final = 10

_PARTITION_FIELDS: Final = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
_new_old_topic: Final = maker(OffsetFetchResponseTopic, "name", "partitions")
_new_old_response: Final = maker(OffsetFetchResponse, "error_code", "topics")
_new_group: Final = maker(OffsetFetchResponseGroup, "group_id", "error_code", "topics")

_NONE: Final = ErrorCode.NONE

_NO_OFFSETS: Final[Mapping[int, CommittedOffset]] = MappingProxyType({})


def _leave_out_groups(request: OffsetFetchRequest, known: Container[Hashable]) -> set[Hashable]:
    """Leave out the groups that all offsets are wanted of again; return the others of that kind."""
    named: set[Hashable] = set()
    request.groups = first_of(request.groups, known, named, lambda group: group.group_id if group.topics is None else id(group))
    return named


def _large(response: OffsetFetchResponse) -> Iterator[Hashable]:
    return (group.group_id for group in response.groups if group.topics)


PIECES: Final = Pieces(("groups.topics", "groups.topics"), once=Once(leave_out=_leave_out_groups, large=_large))


Listed = set[tuple[str, int]]
"""The partitions with metadata that a response has for a group."""


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
_UNKNOWN: Final = _NEW._replace(nothing=ErrorCode.UNKNOWN_TOPIC_ID)
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

        def select(offsets: OffsetsOfGroup) -> list[Any] | Pausing[list[Any]]:
            if topics is None:
                return _all_topics(broker, version, form, offsets)
            return _named_topics(form, topics, offsets)

        deferred = Deferred(respond)
        broker.groups.fetch(GroupId(request.group_id), select, deferred.complete, is_stable=request.require_stable)
        return deferred.response()
    if len(request.groups) > 1:
        _leave_out_groups(request, ())
    responses: list[Any] = [_fetch_group(broker, version, group, is_stable=request.require_stable) for group in request.groups]
    return when_all(responses, lambda groups: OffsetFetchResponse(groups=groups))


def _fetch_group(
    broker: Services, version: int, group: OffsetFetchRequestGroup, *, is_stable: bool
) -> OffsetFetchResponseGroup | Future[OffsetFetchResponseGroup]:
    """Fetch the offsets of one of several groups."""

    def select(offsets: OffsetsOfGroup) -> list[Any] | Pausing[list[Any]]:
        if group.topics is None:
            return _all_topics(broker, version, _NEW, offsets)
        if version < _TOPIC_ID_VERSION:
            return _named_topics(_NEW, group.topics, offsets)
        return _topics_of_ids(broker, group.topics, offsets)

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
    listed: Listed = set()
    return [
        form.topic(topic.name, ZERO_TOPIC_ID, _partitions(form, offsets, topic.name, topic.partition_indexes, listed))
        for topic in topics
    ]


def _topics_of_ids(broker: Services, topics: Sequence[OffsetFetchRequestTopics], offsets: OffsetsOfGroup) -> list[Any]:
    by_id = broker.controller.image.topics_by_id
    listed: Listed = set()
    found = []
    for topic in topics:
        topic_id = TopicId(topic.topic_id)
        known = by_id.get(topic_id)
        form, name = (_UNKNOWN, "") if known is None else (_NEW, known.name)
        found.append(form.topic("", topic_id, _partitions(form, offsets, name, topic.partition_indexes, listed)))
    return found


def _all_topics(broker: Services, version: int, form: _Form, offsets: OffsetsOfGroup) -> Pausing[list[Any]]:
    """Return all offsets of the group."""
    topics = []
    for name, partitions in offsets.topics.items():
        known = broker.controller.image.topics.get(name)
        if known is None and version >= _TOPIC_ID_VERSION:
            continue
        topic_id = ZERO_TOPIC_ID if known is None else known.topic_id
        topics.append(form.topic(name, topic_id, _partitions(form, offsets, name, partitions, set())))
        yield
    return topics


def _partitions(
    form: _Form, offsets: OffsetsOfGroup, name: str, indexes: Sequence[int] | Mapping[int, Any], listed: Listed
) -> list[Any]:
    """Return the offsets of partitions of a topic, and note those with metadata in `listed`; they are left out where they are
    in it already.
    """
    nothing = form.nothing
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
        if metadata:
            if (name, index) in listed:
                continue
            listed.add((name, index))
        partitions.append(new(index, offset, leader_epoch, metadata, code))
    return partitions


def _unstable(offsets: OffsetsOfGroup, name: str, indexes: Iterable[int]) -> Collection[int]:
    """Return the partitions for which an open transaction has written an offset."""
    group, unstable = offsets.group_id, offsets.unstable
    return {index for index in indexes if OffsetKey(group, name, index) in unstable}


def _failed(topics: Sequence[Any], code: ErrorCode) -> list[Any]:
    """Return the partitions with the error of the group, up to v7.

    Before v2 the response has no other place for it. Kafka leaves them out from v2 on. aiokafka reads only the errors of
    partitions, so it takes that for a group without offsets, and would read everything again after a restart of the broker.
    """
    offset, leader_epoch, metadata, _, _ = NOTHING_COMMITTED
    return [
        _new_old_topic(
            topic.name, [_OLD.partition(index, offset, leader_epoch, metadata, code) for index in topic.partition_indexes]
        )
        for topic in topics
    ]
