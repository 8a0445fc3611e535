"""DeleteAcls: filters, and what they delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker.security.acl.binding import AclOperation, PatternType, ResourceType
from tests.api.access.scenes import BOB, allow, guarded

EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "principal_filter": None, "host_filter": None, "operation": 1,
    "permission_type": 1,
}  # fmt: skip


async def test_each_filter_has_what_it_selects(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    await allow(whole, ResourceType.TOPIC, "a", AclOperation.READ, AclOperation.WRITE)
    await allow(whole, ResourceType.TOPIC, "a", AclOperation.READ, pattern=PatternType.PREFIXED)
    await allow(whole, ResourceType.GROUP, "g", AclOperation.READ)
    filters = [
        DeleteAclsFilter(**{**EVERYTHING, "resource_type_filter": 2, "operation": 3}, pattern_type_filter=1),
        DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": "ab"}, pattern_type_filter=2),
        DeleteAclsFilter(**{**EVERYTHING, "operation": 99}, pattern_type_filter=1),
    ]
    response = await whole.ask(DeleteAclsRequest(filters=filters), 3)
    found = [sorted((one.pattern_type, one.operation) for one in result.matching_acls) for result in response.filter_results]
    assert found == [[(3, 3), (4, 3)], [(4, 3)], []]
    assert [one.error_code for one in response.filter_results] == [0, 0, ErrorCode.INVALID_REQUEST]
    assert {(acl.pattern.name, acl.operation) for acl in whole.controller.image.acls} == {
        ("a", AclOperation.WRITE),
        ("g", AclOperation.READ),
    }


async def test_what_was_allowed_is_refused_with_the_response(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    authorizer = whole.services.authorizer
    assert authorizer is not None
    for version in range(4):
        await allow(whole, ResourceType.TOPIC, "a", AclOperation.READ)
        assert authorizer.allows(BOB, "h", AclOperation.READ, ResourceType.TOPIC, "a")
        await whole.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), version)
        assert not authorizer.allows(BOB, "h", AclOperation.READ, ResourceType.TOPIC, "a")
