"""DescribeAcls (key 29), v0-3: rules of access.

Behaviour
    The ACLs that the filter selects, by resource. Without an authorizer: SECURITY_DISABLED.
Versions
    v0 literal patterns only. v1 prefixed patterns (KIP-290). v2 flexible. v3 the type "user" (KIP-373).
Not done
    Nothing.
Source: AclApis.handleDescribeAcls, DescribeAclsResponse.aclsResources; KIP-140.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.acls import filter_of
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.describe_acls import DescribeAclsRequest
    from pybroker.security.acl.acls import Acls
    from pybroker.security.acl.binding import ResourcePattern
    from pybroker.security.acl.filters import AclFilter
    from pybroker.sharing.work import Pausing


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeAclsRequest,
) -> DescribeAclsResponse | Future[DescribeAclsResponse]:
    """Respond from the image of the cluster."""
    if broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = filter_of(request)
    if (reason := wanted.invalid_reason) is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    return in_slices(_describe(broker.controller.image.acls, wanted))


def _describe(acls: Acls, wanted: AclFilter) -> Pausing[DescribeAclsResponse]:
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for acl in acls:
        yield
        if not wanted.matches(acl):
            continue
        resource = resources.get(acl.pattern)
        if resource is None:
            resource_type, name, pattern_type = acl.pattern
            resource = resources[acl.pattern] = DescribeAclsResource(
                resource_type=resource_type, resource_name=name, pattern_type=pattern_type
            )
        resource.acls.append(
            AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)
        )
    return DescribeAclsResponse(resources=list(resources.values()))
