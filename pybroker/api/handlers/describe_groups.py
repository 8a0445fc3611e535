"""DescribeGroups (key 15), v0-6: groups of the classic protocol and their members.

Behaviour
    The response has metadata and assignments only while the group is Stable, and shows durable state. An unknown group is Dead
    without an error, as it always was; from v6 it is GROUP_ID_NOT_FOUND, with a text.
    A group that is named again is described once; Kafka describes it each time.
Versions
    v1 throttle time. v3 authorized operations (KIP-430). v4 group instance id (KIP-345). v5 flexible. v6 error texts (KIP-1043).
Not done
    Authorization: everything is allowed, which the operations show.
Source: KafkaApis.handleDescribeGroupsRequest, GroupMetadataManager.describeGroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred, when_all
from pybroker.api.nodes import GROUP_OPERATIONS
from pybroker.api.pieces import Pieces, once_by_name
from pybroker.coordinator.state.classic_group import GroupState
from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Hashable, Iterator

    from pybroker.api.context import RequestContext, Services

_NOT_FOUND_VERSION: Final = 6


def _large(response: Any) -> Iterator[Hashable]:
    return (one.group_id for one in response.groups if one.members)


ONCE: Final = once_by_name("groups", _large)
PIECES: Final = Pieces(("groups", "groups"), elements=5, once=ONCE)


def handle(
    broker: Services, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Future[DescribeGroupsResponse]:
    """Describe each group."""
    ONCE.leave_out(request, ())
    responses: list[Any] = []
    for group_id in request.groups:
        one: Deferred[Any, DescribedGroup] = Deferred(
            lambda outcome, group_id=group_id: _described(context, request, group_id, outcome)  # type: ignore[misc]
        )
        broker.groups.describe(GroupId(group_id), one.complete)
        responses.append(one.response())
    return when_all(responses, lambda groups: DescribeGroupsResponse(groups=groups))


def _described(
    context: RequestContext, request: DescribeGroupsRequest, group_id: str, outcome: DescribedGroup | ErrorCode
) -> DescribedGroup:
    if outcome is ErrorCode.GROUP_ID_NOT_FOUND:
        group = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value, error_code=ErrorCode.NONE)
        if context.api_version >= _NOT_FOUND_VERSION:
            group.error_code, group.error_message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
    elif isinstance(outcome, ErrorCode):
        group = DescribedGroup(group_id=group_id, error_code=outcome)
    else:
        group = outcome
    if request.include_authorized_operations and not group.error_code:
        group.authorized_operations = GROUP_OPERATIONS
    return group
