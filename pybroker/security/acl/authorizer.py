"""Decides what a client may do: super users may do everything, ACLs decide about the others, and a setting about the resources
that no ACL is about. Every decision for a request is a line of the audit log: a denial at info, a permission at debug.

Cost
    A decision is kept until the ACLs change, so the usual one is a lookup in a dictionary: 0.3 us. There are at most
    `DECISIONS_MAX` of them; names that are longer than a topic's are not kept.

The audit log
    The logger AUDIT_LOGGER, with the lines of Kafka's `kafka.authorizer.logger`. What only filters a list, or only shows
    which operations are allowed, writes no line.

Source: StandardAuthorizer, StandardAuthorizerData, AuthHelper.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.security.acl.acls import NO_ACLS
from pybroker.security.acl.binding import AclOperation, PermissionType, ResourceType, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pybroker.security.acl.acls import Acls

DECISIONS_MAX: Final = 20_000
_KEPT_NAME_MAX: Final = 255

SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"
DEFAULT_DENY: Final = "DefaultDeny"

OPERATOR: Final = ":operator"
"""The principal of requests that the operator makes through the broker itself. No client can have it, because it has no type."""

AUDIT_LOGGER: Final = "pybroker.authorizer"
logger = logging.getLogger(AUDIT_LOGGER)

Key = tuple[str, str, AclOperation, ResourceType, str]
"""A principal, its host, and what it wants to do with which resource."""


class Authorizer:
    """The rules in force. `super_users` are principals; `allows_without_acl` is what holds where no ACL is about a resource."""

    __slots__ = ("_acls", "_allows_without_acl", "_decisions", "_super_users")

    def __init__(self, super_users: Iterable[str] = (), *, allows_without_acl: bool = False) -> None:
        self._super_users = frozenset({*super_users, OPERATOR})
        self._allows_without_acl = allows_without_acl
        self._acls: Acls = NO_ACLS
        self._decisions: dict[tuple[str, str, int, str], bool] = {}

    @property
    def acls(self) -> Acls:
        """The ACLs in force."""
        return self._acls

    @acls.setter
    def acls(self, acls: Acls) -> None:
        self._acls, self._decisions = acls, {}

    def allows(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether a client may do an operation on a resource."""
        key = (principal, host, operation << 4 | resource_type, name)  # one number: the hash of an enum is slow
        known = self._decisions.get(key)
        if known is None:
            known = self._rule((principal, host, operation, resource_type, name))[0]
            if len(name) <= _KEPT_NAME_MAX:
                if len(self._decisions) >= DECISIONS_MAX:
                    self._decisions = {}
                self._decisions[key] = known
        return known

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether a client may do an operation on some resource of a type, as far as patterns show."""
        key = (principal, host, operation, resource_type, "hardcode")  # Kafka asks for this name, which so is a word of the API
        return self._rule(key)[0] or self._acls.allow_any(principal, host, operation, resource_type)

    def operations(
        self, principal: str, host: str, resource_type: ResourceType, name: str, supported: Collection[AclOperation]
    ) -> int:
        """Return which of the operations are allowed on a resource, as bits by their numbers (KIP-430)."""
        return sum(1 << one for one in supported if self.allows(principal, host, one, resource_type, name))

    def log(self, key: Key, *, is_allowed: bool, request: str, count: int = 1) -> None:
        """Write a decision for a request to the audit log. The request names the resource `count` times."""
        level = logging.DEBUG if is_allowed else logging.INFO
        if not logger.isEnabledFor(level):
            return
        principal, host, operation, resource_type, name = key
        logger.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s"
            " with resourceRefCount = %d based on rule %s",
            principal,
            "Allowed" if is_allowed else "Denied",
            operation.name,
            host,
            words(resource_type),
            name,
            request,
            count,
            self._rule(key)[1],
        )

    def _rule(self, key: Key) -> tuple[bool, str]:
        """Return the decision, and the rule that makes it as the audit log names it."""
        if key[0] in self._super_users:
            return True, SUPER_USER
        acl, has_acls = self._acls.find(*key)
        if acl is not None:
            return acl.permission is PermissionType.ALLOW, f"MatchingAcl(acl={acl})"
        if has_acls or not self._allows_without_acl:
            return False, DEFAULT_DENY
        return True, DEFAULT_ALLOW


def logs_permissions() -> bool:
    """Return whether the audit log has permissions, too."""
    return logger.isEnabledFor(logging.DEBUG)
