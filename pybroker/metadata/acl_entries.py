"""ACLs as entries of the store: one entry for each, and one that every change puts, so that changes are in an order.

The id of an ACL follows from its content. So the same ACL is in the store once, whichever brokers create it.
"""

from __future__ import annotations

import json

from pybroker.metadata.member_entries import dump
from pybroker.metadata.store.base import StoreError
from pybroker.security.acl.binding import Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType


def encode_acl(acl: Acl) -> bytes:
    """Return the value of an ACL's entry."""
    resource_type, name, pattern_type = acl.pattern
    return dump({
        "type": resource_type.name,
        "name": name,
        "pattern": pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    })  # fmt: skip


def decode_acl(key: str, value: bytes) -> Acl:
    """Decode what `encode_acl` returns. Raises StoreError if the value has another form: without an ACL that denies, clients
    would be allowed too much.
    """
    try:
        fields = json.loads(value)
        return Acl(
            ResourcePattern(ResourceType[fields["type"]], str(fields["name"]), PatternType[fields["pattern"]]),
            str(fields["principal"]),
            str(fields["host"]),
            AclOperation[fields["operation"]],
            PermissionType[fields["permission"]],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the store's entry {key} cannot be read: {error!r}") from error
