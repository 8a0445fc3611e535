"""Checks requests about groups, where the names of their topics, or lists of groups, are part of the response.

Source: KafkaApis.handleOffsetFetchRequest, handleFindCoordinatorRequest, handleListGroupsRequest, handleDescribeGroupsRequest;
Kafka 4 for the topics of a group of KIP-848, which 3.9 shows to everyone that may describe the group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.parts import respond_in_parts, then
from pybroker.api.pieces import first_of, with_field
from pybroker.model import ZERO_TOPIC_ID, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_describe import DescribedGroup
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pybroker.security.acl.binding import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pybroker.api.access.need import Request
    from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
    from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
    from pybroker.protocol.messages.list_groups import ListGroupsRequest
    from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest

_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_DESCRIBE: Final = AclOperation.DESCRIBE
_TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_SEVERAL_GROUPS_VERSION: Final = 8
_SEVERAL_KEYS_VERSION: Final = 4
_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1


def offset_fetch(request: Request, message: OffsetFetchRequest) -> Any:
    """Respond with the offsets of the topics that the client may describe, in the groups that it may describe."""
    if request.context.api_version >= _SEVERAL_GROUPS_VERSION:
        return _offsets_of_groups(request, message)
    request.asker.require(_DESCRIBE, _GROUP, message.group_id)
    if message.topics is None:
        return then(request.plain(message), lambda response: _seen(request, response))
    return respond_in_parts(
        request, message, ("topics", "topics"), lambda topic: request.asker.refusal(_DESCRIBE, _TOPIC, topic.name)
    )


def _seen(request: Request, response: Any) -> Any:
    """Leave out the topics that the client may not describe. `response` is that of one group."""
    may = request.asker.may
    response.topics = [topic for topic in response.topics if may(_DESCRIBE, _TOPIC, topic.name)]
    return response


def _offsets_of_groups(request: Request, message: OffsetFetchRequest) -> Any:
    named: set[Hashable] = set()
    groups = first_of(message.groups, (), named, lambda group: group.group_id if group.topics is None else id(group))
    asked, results, refused = list[Any](), [], list[tuple[int, list[Any]]]()
    for group in groups:
        if (code := request.asker.refusal(_DESCRIBE, _GROUP, group.group_id)) is not None:
            results.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
            continue
        not_allowed = [] if group.topics is None else [topic for topic in group.topics if not _may_describe(request, topic)]
        refused.append((len(asked), not_allowed))
        hidden = set(map(id, not_allowed))
        asked.append(
            with_field(group, "topics", [one for one in group.topics or () if id(one) not in hidden]) if not_allowed else group
        )
    if not asked:
        return request.api.response(groups=results)

    def joined(response: Any) -> Any:
        assert len(response.groups) == len(asked), "each group is in the response once, in the order of the request"
        for (index, topics), group in zip(refused, response.groups, strict=True):
            if asked[index].topics is None:
                _seen(request, group)
            elif not group.error_code:
                group.topics.extend(map(_refused_topic, topics))
        response.groups.extend(results)
        return response

    return then(request.plain(with_field(message, "groups", asked)), joined)


def _may_describe(request: Request, topic: Any) -> bool:
    name: str | None = topic.name
    if topic.topic_id != ZERO_TOPIC_ID:
        name = request.broker.controller.image.topic_name(TopicId(topic.topic_id))
    return name is None or request.asker.may(_DESCRIBE, _TOPIC, name)


def _refused_topic(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=number, committed_offset=-1, error_code=_TOPIC_REFUSED)
            for number in topic.partition_indexes
        ],
    )


def find_coordinator(request: Request, message: FindCoordinatorRequest) -> Any:
    """Name the coordinators of the groups, or of the transactional ids, that the client may describe."""
    resource_type = {_GROUP_KEY: _GROUP, _TRANSACTION_KEY: ResourceType.TRANSACTIONAL_ID}.get(message.key_type)
    if resource_type is None:
        return request.plain(message)  # which refuses it
    if request.context.api_version >= _SEVERAL_KEYS_VERSION:
        lists = ("coordinator_keys", "coordinators")
        return respond_in_parts(request, message, lists, partial(request.asker.refusal, _DESCRIBE, resource_type))
    request.asker.require(_DESCRIBE, resource_type, message.key)
    return request.plain(message)


def list_groups(request: Request, message: ListGroupsRequest) -> Any:
    """List the groups that the client may describe; with DESCRIBE on the cluster, all of them."""
    asker = request.asker
    if asker.may(_DESCRIBE, ResourceType.CLUSTER, logs=False):
        return request.plain(message)

    def seen(response: Any) -> Any:
        response.groups = [one for one in response.groups if asker.may(_DESCRIBE, _GROUP, one.group_id, logs=False)]
        return response

    return then(request.plain(message), seen)


def describe_groups(request: Request, message: DescribeGroupsRequest) -> Any:
    """Describe the groups that the client may describe."""
    return then(
        respond_in_parts(request, message, ("groups", "groups"), partial(request.asker.refusal, _DESCRIBE, _GROUP)),
        lambda response: _with_operations(request, response, is_wanted=message.include_authorized_operations),
    )


def consumer_group_describe(request: Request, message: ConsumerGroupDescribeRequest) -> Any:
    """Describe the groups that the client may describe, if it may describe the topics of their members, too."""

    def finished(response: Any) -> Any:
        response.groups = [_TopicsOf(request).shown(group) for group in response.groups]
        return _with_operations(request, response, is_wanted=message.include_authorized_operations)

    refusal = partial(request.asker.refusal, _DESCRIBE, _GROUP)
    return then(respond_in_parts(request, message, ("group_ids", "groups"), refusal), finished)


def _with_operations(request: Request, response: Any, *, is_wanted: bool) -> Any:
    if is_wanted:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = request.asker.operations(_GROUP, group.group_id)
    return response


class _TopicsOf:
    """The topics of described groups, as far as one client may see them."""

    def __init__(self, request: Request) -> None:
        self._may = request.asker.may

    def shown(self, group: Any) -> Any:
        """Return the group, or an error in its place if its members have topics that the client may not describe."""
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if all(self._may(_DESCRIBE, _TOPIC, name) for name in names):
            return group
        text = "The group has described topic(s) that the client is not authorized to describe."
        return DescribedGroup(group_id=group.group_id, error_code=_TOPIC_REFUSED, error_message=text)


def consumer_group_heartbeat(request: Request, message: ConsumerGroupHeartbeatRequest) -> Any:
    """Take the heartbeat of a member that may read the group, and describe the topics that it names."""
    asker = request.asker
    asker.require(AclOperation.READ, _GROUP, message.group_id)
    for name in message.subscribed_topic_names or ():
        asker.require(_DESCRIBE, _TOPIC, name)
    return request.plain(message)
