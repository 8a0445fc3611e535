"""ACLs decide as a reading of all of them does, one after the other, by Kafka's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.security.acl.acls import NO_ACLS, Acls
from pybroker.security.acl.binding import Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(
    name: str,
    operation: AclOperation = AclOperation.READ,
    permission: PermissionType = ALLOW,
    *,
    principal: str = "User:bob",
    host: str = "*",
    pattern: PatternType = LITERAL,
) -> Acl:
    return Acl(ResourcePattern(TOPIC, name, pattern), principal, host, operation, permission)


def acls_of(*some: Acl) -> Acls:
    return NO_ACLS.changed({str(number): one for number, one in enumerate(some)})


def allowed(acls: Acls, name: str, operation: AclOperation = AclOperation.READ, host: str = "h") -> bool | None:
    """Return what an ACL decides; None if none does."""
    found = acls.find("User:bob", host, operation, TOPIC, name).acl
    return None if found is None else found.permission is ALLOW


names = st.sampled_from(["a", "ab", "abc", "b", "*", "a*"])
some_acls = st.lists(
    st.builds(
        acl,
        names,
        st.sampled_from(
            [AclOperation.ALL, AclOperation.READ, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS]
        ),
        st.sampled_from([ALLOW, DENY]),
        principal=st.sampled_from(["User:bob", "User:al", "User:*"]),
        host=st.sampled_from(["*", "h", "other"]),
        pattern=st.sampled_from([LITERAL, PREFIXED]),
    ),
    max_size=8,
    unique=True,
)
operations = st.sampled_from([AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER])


def has(one: Acl, name: str) -> bool:
    if one.pattern.pattern_type is PREFIXED:
        return name.startswith(one.pattern.name)
    return one.pattern.name in (name, "*")


def concerns(one: Acl, operation: AclOperation) -> bool:
    if one.principal not in ("User:bob", "User:*") or one.host not in ("*", "h"):
        return False
    if one.operation in (AclOperation.ALL, operation):
        return True
    if one.permission is DENY:
        return False
    if operation is AclOperation.DESCRIBE:
        return one.operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    return operation is AclOperation.DESCRIBE_CONFIGS and one.operation is AclOperation.ALTER_CONFIGS


@given(some_acls, names, operations)
def test_a_decision_is_that_of_all_acls_read_one_by_one(some: list[Acl], name: str, operation: AclOperation) -> None:
    about = [one for one in some if has(one, name)]
    permissions = {one.permission for one in about if concerns(one, operation)}
    wanted = False if DENY in permissions else True if permissions else None
    acls = acls_of(*some)
    assert allowed(acls, name, operation) is wanted
    assert acls.find("User:bob", "h", operation, TOPIC, name).has_acls is bool(about)


@given(some_acls, some_acls, names, operations)
def test_changes_one_by_one_are_the_same_as_all_at_once(
    first: list[Acl], second: list[Acl], name: str, operation: AclOperation
) -> None:
    acls = acls_of(*first)
    for number in range(len(first)):
        acls = acls.changed({str(number): second[number] if number < len(second) else None})
    left = second[: len(first)]
    assert set(acls) == set(left)
    assert len(acls) == len(left)
    assert allowed(acls, name, operation) is allowed(acls_of(*left), name, operation)
    gone = acls.changed(dict.fromkeys(acls.by_id))
    assert not len(gone)
    assert not gone.find("User:bob", "h", operation, TOPIC, name).has_acls


def test_a_denial_of_describe_does_not_follow_from_one_of_read() -> None:
    acls = acls_of(acl("a", AclOperation.READ, DENY), acl("a", AclOperation.WRITE))
    assert allowed(acls, "a", AclOperation.DESCRIBE) is True
    assert allowed(acls, "a", AclOperation.READ) is False


@pytest.mark.parametrize(
    ("some", "wanted"),
    [
        ([], False),
        ([acl("a", AclOperation.WRITE)], True),
        ([acl("a", AclOperation.READ)], False),
        ([acl("a", AclOperation.ALL)], True),
        ([acl("a", AclOperation.WRITE), acl("a", AclOperation.WRITE, DENY)], False),
        ([acl("a", AclOperation.WRITE), acl("*", AclOperation.WRITE, DENY)], False),
        ([acl("*", AclOperation.WRITE), acl("a", AclOperation.WRITE, DENY)], True),
        ([acl("ab", AclOperation.WRITE), acl("a", AclOperation.WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("a", AclOperation.WRITE, pattern=PREFIXED), acl("ab", AclOperation.WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("a", AclOperation.WRITE, host="other")], False),
        ([acl("a", AclOperation.WRITE, principal="User:al")], False),
        ([acl("a", AclOperation.WRITE, principal="User:*")], True),
    ],
)
def test_whether_a_client_may_write_to_any_topic(some: list[Acl], wanted: bool) -> None:
    assert acls_of(*some).allow_any("User:bob", "h", AclOperation.WRITE, TOPIC) is wanted
