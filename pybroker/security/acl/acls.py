"""All ACLs of the cluster at one moment, ordered so that a decision looks at few of them. Immutable: a change makes a new one.

Idea
    The ACLs that concern a resource are those of three kinds of patterns: of its name, of a prefix of its name, of every name.
    The prefixes of one length are a dictionary; a cluster has few lengths. Under a pattern the ACLs are by principal, of which
    two concern a client: its own and `User:*`. So a decision takes 2 to 5 us among 10,000 ACLs, also where all of them have the
    same pattern, and `Authorizer` keeps it.

Rules
    An ACL that denies wins. DESCRIBE is allowed by whatever allows READ, WRITE, DELETE or ALTER, and DESCRIBE_CONFIGS by
    ALTER_CONFIGS; to deny these denies nothing else.

Source: StandardAuthorizerData, Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from pybroker.security.acl.binding import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)

_IMPLYING: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""The operations that allow another one, with itself."""

ByPrincipal = Mapping[str, tuple[Acl, ...]]


class _OfType(NamedTuple):
    """The ACLs of one type of resource, by the names of their patterns and by their principals. `lengths` are those of the
    prefixes, the longest first.
    """

    literal: Mapping[str, ByPrincipal]
    prefixed: Mapping[str, ByPrincipal]
    lengths: tuple[int, ...] = ()

    def patterns_of(self, name: str) -> Iterator[ByPrincipal]:
        """Yield the ACLs of each pattern that has the resource `name`, in Kafka's order."""
        found = self.literal.get(name)
        if found is not None:
            yield found
        for length in self.lengths:
            if length <= len(name) and (found := self.prefixed.get(name[:length])) is not None:
                yield found
        if name != WILDCARD and (found := self.literal.get(WILDCARD)) is not None:
            yield found


_NONE_OF_TYPE: Final = _OfType({}, {})


class Found(NamedTuple):
    """The outcome of a search: the ACL that decides, if one does, and whether any ACL is about the resource."""

    acl: Acl | None
    has_acls: bool


class Acls:
    """The ACLs by their ids, and by what they are about."""

    __slots__ = ("_by_type", "by_id")

    def __init__(self, by_id: Mapping[str, Acl], by_type: Mapping[ResourceType, _OfType]) -> None:
        self.by_id = by_id
        self._by_type = by_type

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self.by_id.values())

    def changed(self, changes: Mapping[str, Acl | None]) -> Acls:
        """Return the ACLs after `changes`, by their ids; None: there is no such ACL any more. What is not changed is shared."""
        by_id, draft = dict(self.by_id), _Draft(self._by_type)
        for acl_id, acl in changes.items():
            old = by_id.pop(acl_id, None)
            if old is not None:
                draft.remove(old)
            if acl is not None:
                by_id[acl_id] = acl
                draft.add(acl)
        return Acls(MappingProxyType(by_id), draft.result())

    def find(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> Found:
        """Find the ACL that decides about an operation on one resource."""
        implying = _IMPLYING.get(operation, frozenset({operation}))
        allowing, has_acls = None, False
        for by_principal in self._by_type.get(resource_type, _NONE_OF_TYPE).patterns_of(name):
            has_acls = True
            for acl in (*by_principal.get(principal, ()), *by_principal.get(WILDCARD_PRINCIPAL, ())):
                if acl.host not in (WILDCARD, host):
                    continue
                if acl.permission is PermissionType.ALLOW:
                    if acl.operation is AclOperation.ALL or acl.operation in implying:
                        allowing = acl
                elif acl.operation in (AclOperation.ALL, operation):
                    return Found(acl, has_acls=True)
        return Found(allowing, has_acls)

    def allow_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether there may be a resource of this type on which the operation is allowed. Only the operation itself, and
        ALL, are looked for.
        """
        of_type = self._by_type.get(resource_type, _NONE_OF_TYPE)
        allowed: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        denied: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        for pattern_type, by_name in ((PatternType.LITERAL, of_type.literal), (PatternType.PREFIXED, of_type.prefixed)):
            for name, by_principal in by_name.items():
                for acl in (*by_principal.get(principal, ()), *by_principal.get(WILDCARD_PRINCIPAL, ())):
                    if acl.host in (WILDCARD, host) and acl.operation in (AclOperation.ALL, operation):
                        (allowed if acl.permission is PermissionType.ALLOW else denied)[pattern_type].add(name)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        if WILDCARD in allowed[PatternType.LITERAL]:
            return True
        prefixes = denied[PatternType.PREFIXED]
        names = (allowed[PatternType.LITERAL] - denied[PatternType.LITERAL]) | allowed[PatternType.PREFIXED]
        return any(not any(name[:length] in prefixes for length in range(1, len(name) + 1)) for name in names)


class _Draft:
    """The dictionaries of an `Acls` while it is changed; each is copied when it is first touched."""

    def __init__(self, by_type: Mapping[ResourceType, _OfType]) -> None:
        self._by_type = by_type
        self._patterns: dict[ResourceType, tuple[dict[str, ByPrincipal], dict[str, ByPrincipal]]] = {}
        self._own: dict[tuple[ResourceType, PatternType, str], dict[str, tuple[Acl, ...]]] = {}

    def add(self, acl: Acl) -> None:
        """Add an ACL."""
        by_principal = self._touched(acl)
        by_principal[acl.principal] = (*by_principal.get(acl.principal, ()), acl)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is there."""
        by_principal = self._touched(acl)
        left = list(by_principal[acl.principal])
        left.remove(acl)
        if left:
            by_principal[acl.principal] = tuple(left)
        else:
            del by_principal[acl.principal]

    def result(self) -> Mapping[ResourceType, _OfType]:
        """Return the dictionaries after the changes. Patterns without an ACL are left out."""
        by_type = dict(self._by_type)
        for (resource_type, pattern_type, name), by_principal in self._own.items():
            if not by_principal:
                del self._names(resource_type, pattern_type)[name]
        for resource_type, (literal, prefixed) in self._patterns.items():
            by_type[resource_type] = _OfType(literal, prefixed, tuple(sorted({len(name) for name in prefixed}, reverse=True)))
        return by_type

    def _names(self, resource_type: ResourceType, pattern_type: PatternType) -> dict[str, ByPrincipal]:
        patterns = self._patterns.get(resource_type)
        if patterns is None:
            old = self._by_type.get(resource_type, _NONE_OF_TYPE)
            patterns = self._patterns[resource_type] = (dict(old.literal), dict(old.prefixed))
        return patterns[pattern_type is PatternType.PREFIXED]

    def _touched(self, acl: Acl) -> dict[str, tuple[Acl, ...]]:
        resource_type, name, pattern_type = acl.pattern
        key = (resource_type, pattern_type, name)
        own = self._own.get(key)
        if own is None:
            names = self._names(resource_type, pattern_type)
            own = self._own[key] = dict(names.get(name, {}))
            names[name] = own
        return own


NO_ACLS: Final = Acls(MappingProxyType({}), MappingProxyType({}))
