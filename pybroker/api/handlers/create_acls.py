"""CreateAcls (key 30), v0-3: create rules of access.

Behaviour
    The ACLs that make sense are created in one commit, and are in force on this broker when it responds; on the others, when
    their watch of the metadata store has the commit. An ACL that exists stays as it is. Without an authorizer:
    SECURITY_DISABLED.
Versions
    v0 literal patterns only. v1 prefixed patterns (KIP-290). v2 flexible. v3 the type "user" (KIP-373).
Not done
    Nothing.
Source: AclApis.handleCreateAcls, AclControlManager.createAcls; KIP-140.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.acls import acl_of
from pybroker.metadata.acl_changes import create_acls
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.create_acls import CreateAclsRequest


async def handle(broker: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:  # noqa: ARG001
    """Create the ACLs, then respond."""
    if broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    errors = await create_acls(broker.controller, list(map(acl_of, request.creations)))
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.NONE, error_message=None)
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in errors
        ]
    )
