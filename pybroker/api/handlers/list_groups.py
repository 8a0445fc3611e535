"""ListGroups (key 16), v0-5: the groups that this broker coordinates.

Behaviour
    A tool asks all brokers and combines their responses. Filters ignore upper and lower case; a state or type that does not exist
    matches no group. While groups are loaded: COORDINATOR_LOAD_IN_PROGRESS.
Versions
    v1 throttle time. v3 flexible. v4 states (KIP-518). v5 types (KIP-848).
Not done
    Nothing.
Source: KafkaApis.handleListGroupsRequest, GroupMetadataManager.listGroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: ListGroupsRequest,
) -> ListGroupsResponse | Future[ListGroupsResponse]:
    """List the groups that pass the filters; while many are looked at, others get their turn."""
    return in_slices(_list(broker, request))


def _list(broker: Services, request: ListGroupsRequest) -> Pausing[ListGroupsResponse]:
    from pybroker.coordinator.administration import STATES, TYPES  # noqa: PLC0415  loaded with the coordinator

    states = _known(request.states_filter, STATES)
    types = _known(request.types_filter, TYPES)
    found = broker.groups.list_groups(states, types)
    if isinstance(found, ErrorCode):
        return ListGroupsResponse(error_code=found)
    groups = []
    for group in found:
        if group is not None:
            groups.append(group)
        yield
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)


def _known(words: list[str], known: frozenset[str]) -> frozenset[str] | None:
    """Return those of the words of a filter that a group can have, in lower case; None if there are no words."""
    return known.intersection(word.strip().lower() for word in words) if words else None
