"""CreateAcls: what is created, and what is refused."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pybroker.security.acl.binding import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from tests.api.access.scenes import BOB, guarded

CREATION = AclCreation(resource_type=2, resource_name="a", principal=BOB, host="*", operation=3, permission_type=3)
ACL = Acl(ResourcePattern(ResourceType.TOPIC, "a"), BOB, "*", AclOperation.READ, PermissionType.ALLOW)


def creation(**values: object) -> AclCreation:
    fields = {name: getattr(CREATION, name) for name in ("resource_type", "resource_name", "principal", "host", "operation")}
    return AclCreation(**{**fields, "permission_type": 3, **values})


async def test_acls_are_in_force_with_the_response_in_every_version(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    for version in range(4):
        name = f"a{version}"
        response = await whole.ask(CreateAclsRequest(creations=[creation(resource_name=name)]), version)
        assert [(one.error_code, one.error_message) for one in response.results] == [(ErrorCode.NONE, None)]
        assert whole.services.authorizer is not None
        assert whole.services.authorizer.allows(BOB, "h", AclOperation.READ, ResourceType.TOPIC, name)
    assert len(whole.controller.image.acls) == 4


async def test_patterns_come_with_version_1(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    await whole.ask(CreateAclsRequest(creations=[creation(resource_pattern_type=4)]), 1)
    prefixed = ResourcePattern(ResourceType.TOPIC, "a", PatternType.PREFIXED)
    assert set(whole.controller.image.acls) == {ACL._replace(pattern=prefixed)}


async def test_what_makes_no_sense_is_refused_and_the_rest_is_created(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    creations = [
        creation(resource_type=4),
        creation(resource_type=4, resource_name=CLUSTER_NAME),
        creation(resource_type=99),
        creation(operation=1),
        creation(principal="bob"),
        creation(),
    ]
    response = await whole.ask(CreateAclsRequest(creations=creations), 3)
    invalid = ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in response.results] == [invalid, 0, invalid, invalid, invalid, 0]
    assert len(whole.controller.image.acls) == 2
