"""ACLs and filters as requests have them, for the APIs that describe and change ACLs.

A number that does not exist is UNKNOWN, and an error of the ACL or the filter that has it; Kafka closes the connection.

Source: CreateAclsRequest.aclBinding, DescribeAclsRequest.filter, DeleteAclsRequest.aclBindingFilter.
"""

from __future__ import annotations

from typing import Any

from pybroker.security.acl.binding import Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType, word_of
from pybroker.security.acl.filters import AclFilter


def acl_of(creation: Any) -> Acl:
    """Return the ACL that a request wants; numbers that do not exist are UNKNOWN."""
    return Acl(
        ResourcePattern(
            word_of(ResourceType, creation.resource_type),
            creation.resource_name,
            word_of(PatternType, creation.resource_pattern_type),
        ),
        creation.principal,
        creation.host,
        word_of(AclOperation, creation.operation),
        word_of(PermissionType, creation.permission_type),
    )


def filter_of(asked: Any) -> AclFilter:
    """Return the filter that a request wants."""
    return AclFilter(
        word_of(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        word_of(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        word_of(AclOperation, asked.operation),
        word_of(PermissionType, asked.permission_type),
    )
