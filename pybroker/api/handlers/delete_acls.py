"""DeleteAcls (key 31), v0-3: remove rules of access.

Behaviour
    What any of the filters selects is deleted in one commit; the response has the ACLs that each filter has selected. They are no
    longer in force on this broker when it responds; on the others, when their watch of the metadata store has the commit. Without
    an authorizer: SECURITY_DISABLED.
Versions
    v0 literal patterns only. v1 prefixed patterns, and filters for both (KIP-290). v2 flexible. v3 the type "user" (KIP-373).
Not done
    Nothing.
Source: AclApis.handleDeleteAcls, AclControlManager.deleteAcls; KIP-140.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.acls import filter_of
from pybroker.metadata.acl_changes import delete_acls
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.delete_acls import DeleteAclsRequest
    from pybroker.security.acl.binding import Acl


async def handle(broker: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:  # noqa: ARG001
    """Delete the ACLs, then respond."""
    if broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    outcomes = await delete_acls(broker.controller, list(map(filter_of, request.filters)))
    return DeleteAclsResponse(filter_results=list(map(_result, outcomes)))


def _result(outcome: list[Acl] | KafkaError) -> DeleteAclsFilterResult:
    if isinstance(outcome, KafkaError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.message, matching_acls=[])
    return DeleteAclsFilterResult(error_code=ErrorCode.NONE, error_message=None, matching_acls=list(map(_matching, outcome)))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
