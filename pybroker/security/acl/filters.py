"""A selection of ACLs: a pattern's type and name, a principal, a host, an operation and a permission, of which each may be open.

Source: AclBindingFilter, ResourcePatternFilter, AccessControlEntryFilter.
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.security.acl.binding import WILDCARD, Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType


class AclFilter(NamedTuple):
    """A filter. None, or ANY, is open. With PatternType.MATCH the name is that of a resource, and every pattern that has it
    fits.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    @property
    def invalid_reason(self) -> str | None:
        """Why the filter makes no sense; None: it does."""
        if self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN:
            return "Unknown patternFilter."
        if self.operation is AclOperation.UNKNOWN or self.permission is PermissionType.UNKNOWN:
            return "Unknown entryFilter."
        return None

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects the ACL."""
        return (
            (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
            and self.resource_type in (ResourceType.ANY, acl.pattern.resource_type)
            and self._fits(acl.pattern)
        )

    def _fits(self, pattern: ResourcePattern) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)
