"""ConsumerGroupDescribe (key 69), v0-1: state, members and assignments of KIP-848 groups.

Behaviour
    The response shows durable state. An unknown group, and a group of the classic protocol, is GROUP_ID_NOT_FOUND, with a text.
    Every group is UNSUPPORTED_VERSION where ConsumerGroupHeartbeat is. A group that is named again is described once; Kafka
    describes it each time.
Versions
    v1 kind of the members.
Not done
    Authorization: everything is allowed, which the operations show.
Source: KafkaApis.handleConsumerGroupDescribe, GroupMetadataManager.consumerGroupDescribe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred, when_all
from pybroker.api.nodes import GROUP_OPERATIONS
from pybroker.api.pieces import Pieces, once_by_name
from pybroker.metadata.features import serves_consumer_groups
from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Hashable, Iterator

    from pybroker.api.context import RequestContext, Services


def _large(response: Any) -> Iterator[Hashable]:
    return (one.group_id for one in response.groups if one.members)


ONCE: Final = once_by_name("group_ids", _large)
PIECES: Final = Pieces(("group_ids", "groups"), elements=5, once=ONCE)


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse | Future[ConsumerGroupDescribeResponse]:
    """Describe each group."""
    ONCE.leave_out(request, ())
    if not broker.config.has_consumer_groups or not serves_consumer_groups(broker.controller.image):
        code = ErrorCode.UNSUPPORTED_VERSION
        refused = [DescribedGroup(group_id=name, error_code=code, error_message=code.message) for name in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)
    responses: list[Any] = []
    for group_id in request.group_ids:
        one: Deferred[Any, DescribedGroup] = Deferred(
            lambda outcome, group_id=group_id: _described(request, group_id, outcome)  # type: ignore[misc]
        )
        broker.groups.describe_consumer_group(GroupId(group_id), one.complete)
        responses.append(one.response())
    return when_all(responses, lambda groups: ConsumerGroupDescribeResponse(groups=groups))


def _described(request: ConsumerGroupDescribeRequest, group_id: str, outcome: DescribedGroup | ErrorCode) -> DescribedGroup:
    if isinstance(outcome, ErrorCode):
        is_missing = outcome is ErrorCode.GROUP_ID_NOT_FOUND
        text = f"Group {group_id} not found." if is_missing else outcome.message
        return DescribedGroup(group_id=group_id, error_code=outcome, error_message=text)
    if request.include_authorized_operations:
        outcome.authorized_operations = GROUP_OPERATIONS
    return outcome
