"""DeleteGroups (key 42), v0-3: remove groups without members, with their offsets.

Behaviour
    Each group has a result: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND if it does not exist. The broker responds
    when the deletion is durable.
Versions
    v1 nothing. v2 flexible. v3 error texts (KIP-1043).
Not done
    Nothing.
Source: KafkaApis.handleDeleteGroupsRequest, GroupCoordinatorShard.deleteGroups; KIP-229.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.pieces import Pieces
from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services

PIECES: Final = Pieces(("groups_names", "results"), elements=50)


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse | Future[DeleteGroupsResponse]:
    """Delete the groups that can be deleted."""
    deferred = Deferred(_respond)
    broker.groups.delete_groups(dict.fromkeys(map(GroupId, request.groups_names)), deferred.complete)
    return deferred.response()


def _respond(codes: dict[GroupId, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code, error_message=_text(group_id, code))
            for group_id, code in codes.items()
        ]
    )


def _text(group_id: str, code: ErrorCode) -> str | None:
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return f"Group {group_id} not found."
    return code.message if code else None
