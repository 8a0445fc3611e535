"""Changes of ACLs: what CreateAcls and DeleteAcls request, checked as Kafka's controller checks it, in one commit.

Order
    A deletion sees every ACL whose creation was acknowledged, by whichever broker. An ACL that exists is not created again.

Errors
    INVALID_REQUEST for an ACL, or a filter, that makes no sense. Others of the same request are changed.

Source: AclControlManager, AclApis; KIP-140, KIP-290.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.metadata.acl_entries import encode_acl
from pybroker.metadata.entries import ACL_PREFIX
from pybroker.metadata.ordered_changes import commit_next, content_id
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security import principal
from pybroker.security.acl.binding import CLUSTER_NAME, Acl, AclOperation, PatternType, PermissionType, ResourceType
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pybroker.metadata.controller import Controller
    from pybroker.security.acl.filters import AclFilter
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

CHANGES_MAX: Final = 10_000
"""The number of ACLs that one request may create or delete."""


async def create_acls(controller: Controller, acls: Sequence[Acl]) -> list[KafkaError | None]:
    """Create the valid ACLs in one commit. Returns an error or None for each of `acls`.

    Raises KafkaError if nothing was changed.
    """
    results, valid = await complete(_judged(acls))
    _check_count(valid)
    while valid:
        compared = controller.image
        new = {key: acl for key, acl in valid.items() if key not in compared.acls.by_id}
        puts = {key: encode_acl(acl) for key, acl in new.items()}
        if not new or await commit_next(controller, ACL_PREFIX, since=compared.acls_revision, puts=puts, deletes=()):
            await complete(_logged("Created %s", new.values()))
            break
    return results


async def delete_acls(controller: Controller, filters: Sequence[AclFilter]) -> list[list[Acl] | KafkaError]:
    """Delete the ACLs that the filters select, in one commit. Returns what each filter has selected, or why it is invalid.

    An ACL that several filters select is in the result of each. Raises KafkaError if nothing was changed.
    """
    while True:
        compared = controller.image
        results, deleted = await complete(_selected(compared.acls.by_id, filters))
        _check_count(deleted)
        if await commit_next(controller, ACL_PREFIX, since=compared.acls_revision, puts={}, deletes=deleted):
            await complete(_logged("Deleted %s", deleted.values()))
            return results


def _judged(acls: Sequence[Acl]) -> Pausing[tuple[list[KafkaError | None], dict[str, Acl]]]:
    """Return an error or None for each ACL, and the valid ones by their ids."""
    results, valid = list[KafkaError | None](), dict[str, Acl]()
    for acl in acls:
        reason = _invalid_reason(acl)
        results.append(None if reason is None else KafkaError(ErrorCode.INVALID_REQUEST, reason))
        if reason is None:
            valid[content_id(encode_acl(acl))] = acl
        yield
    return results, valid


def _selected(
    by_id: Mapping[str, Acl], filters: Sequence[AclFilter]
) -> Pausing[tuple[list[list[Acl] | KafkaError], dict[str, Acl]]]:
    """Return what each filter selects, or its error, and all that is selected by its id."""
    results, selected = list[list[Acl] | KafkaError](), dict[str, Acl]()
    for one in filters:
        if (reason := one.invalid_reason) is not None:
            results.append(KafkaError(ErrorCode.INVALID_REQUEST, reason))
            continue
        found = list[Acl]()
        for key, acl in by_id.items():
            if one.matches(acl):
                found.append(acl)
                selected[key] = acl
            yield
        results.append(found)
    return results, selected


def _logged(line: str, acls: Iterable[Acl]) -> Pausing[None]:
    for acl in acls:
        logger.info(line, acl)
        yield


def _check_count(changed: Collection[str]) -> None:
    if len(changed) > CHANGES_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"A request can change at most {CHANGES_MAX} ACLs, not {len(changed)}.")


def _invalid_reason(acl: Acl) -> str | None:
    """Return why an ACL cannot be created."""
    resource_type, name, pattern_type = acl.pattern
    if resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    if resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {resource_type.name}"
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {pattern_type.name}"
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (PermissionType.DENY, PermissionType.ALLOW):
        return f"Invalid permissionType {acl.permission.name}"
    try:
        principal.parse(acl.principal)
    except ValueError:
        return (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None
