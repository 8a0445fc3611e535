"""DescribeAcls: filters, and the ACLs by their resources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_acls import DescribeAclsRequest
from pybroker.security.acl.binding import AclOperation, PatternType, ResourceType
from testing.scenes.api.whole import Whole
from tests.api.access.scenes import allow, guarded


async def described(whole: Whole, version: int = 3, **values: Any) -> Any:
    everything = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1 if version else 3,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    return await whole.ask(DescribeAclsRequest(**{**everything, **values}), version)


async def test_acls_are_described_by_their_resources(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    await allow(whole, ResourceType.TOPIC, "a", AclOperation.READ, AclOperation.WRITE)
    await allow(whole, ResourceType.TOPIC, "a", AclOperation.READ, pattern=PatternType.PREFIXED)
    resources = {
        (one.resource_type, one.resource_name, one.pattern_type): sorted(acl.operation for acl in one.acls)
        for one in (await described(whole)).resources
    }
    assert resources == {(2, "a", 3): [3, 4], (2, "a", 4): [3]}
    (literal,) = (await described(whole, 0)).resources
    assert (literal.resource_name, len(literal.acls)) == ("a", 2)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"resource_name_filter": "abc", "pattern_type_filter": 2}, 2),
        ({"resource_name_filter": "abc", "pattern_type_filter": 1}, 0),
        ({"resource_name_filter": "ab", "pattern_type_filter": 4}, 1),
        ({"principal_filter": "User:al"}, 1),
        ({"host_filter": "1.2.3.4"}, 0),
        ({"operation": 4}, 1),
        ({"permission_type": 2}, 0),
        ({"resource_type_filter": 3}, 1),
    ],
)
async def test_filters(tmp_path: Path, values: dict[str, Any], count: int) -> None:
    whole = await guarded(tmp_path)
    await allow(whole, ResourceType.TOPIC, "ab", AclOperation.READ, pattern=PatternType.PREFIXED)
    await allow(whole, ResourceType.TOPIC, "*", AclOperation.WRITE)
    await allow(whole, ResourceType.GROUP, "g", AclOperation.READ, principal="User:al")
    assert sum(len(one.acls) for one in (await described(whole, **values)).resources) == count


async def test_a_filter_that_makes_no_sense(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    response = await described(whole, operation=99)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
