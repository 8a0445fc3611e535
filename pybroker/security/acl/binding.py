"""An access control list entry (ACL): a principal, from a host, is allowed or denied an operation on the resources of a pattern.

The numbers of the enums are those of the protocol. `ANY` and `UNKNOWN` are for filters and for numbers of later versions: no ACL
has them.

Source: AclBinding, ResourceType, PatternType, AclOperation, AclPermissionType, SecurityUtils; KIP-11, KIP-290.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

WILDCARD: Final = "*"
"""The name of a literal pattern that has every resource; every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class ResourceType(IntEnum):
    """The type of the resources that an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern's name selects resources. MATCH is for filters: every pattern that has a resource of this name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Something that is done to a resource. ALL stands for every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PermissionType(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


Word = TypeVar("Word", ResourceType, PatternType, AclOperation, PermissionType)


def word_of(kind: type[Word], code: int) -> Word:
    """Return the member with this number, UNKNOWN for a number of a later version."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def words(member: IntEnum) -> str:
    """Return a word as the audit log and tools have it: `TransactionalId` for TRANSACTIONAL_ID."""
    return "".join(part.capitalize() for part in member.name.split("_"))


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class Acl(NamedTuple):
    """One ACL. `principal` is TYPE:NAME; `host` is an address, or WILDCARD."""

    pattern: ResourcePattern
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType

    def __str__(self) -> str:
        """Return the ACL as the audit log names a rule."""
        resource, name, pattern = self.pattern
        return (
            f"StandardAcl(resourceType={resource.name}, resourceName={name}, patternType={pattern.name},"
            f" principal={self.principal}, host={self.host}, operation={self.operation.name},"
            f" permissionType={self.permission.name})"
        )
