"""Decisions with super users and defaults, how long they are kept, and the audit log."""

from __future__ import annotations

import logging

import pytest

from pybroker.security.acl.authorizer import DECISIONS_MAX, OPERATOR, Authorizer
from pybroker.security.acl.binding import AclOperation, PermissionType, ResourceType
from tests.security.acl.test_acls import acl, acls_of

READ, TOPIC = AclOperation.READ, ResourceType.TOPIC


def may(authorizer: Authorizer, principal: str, name: str = "a") -> bool:
    return authorizer.allows(principal, "h", READ, TOPIC, name)


def test_super_users_and_the_operator_may_do_everything() -> None:
    authorizer = Authorizer(["User:admin"])
    authorizer.acls = acls_of(acl("a", permission=PermissionType.DENY, principal="User:*"))
    assert [may(authorizer, one) for one in ("User:admin", OPERATOR, "User:bob")] == [True, True, False]


def test_the_default_is_about_resources_without_an_acl() -> None:
    authorizer = Authorizer(allows_without_acl=True)
    authorizer.acls = acls_of(acl("a", principal="User:al"))
    assert may(authorizer, "User:bob", "b")
    assert not may(authorizer, "User:bob", "a"), "an ACL is about it, if for another principal"


def test_a_change_of_acls_is_in_force_at_once() -> None:
    authorizer = Authorizer()
    for some in ([], [acl("a")], []):
        authorizer.acls = acls_of(*some)
        assert may(authorizer, "User:bob") is bool(some)
        assert may(authorizer, "User:bob") is bool(some)


def test_decisions_that_are_kept_are_bounded() -> None:
    authorizer = Authorizer()
    for number in range(DECISIONS_MAX + 10):
        may(authorizer, "User:bob", str(number))
    may(authorizer, "User:bob", "n" * 300)
    assert len(authorizer._decisions) == 10


def test_lines_of_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = Authorizer(["User:admin"])
    authorizer.acls = acls_of(acl("a", permission=PermissionType.DENY))
    caplog.set_level(logging.INFO, "pybroker.authorizer")
    for principal in ("User:bob", "User:admin"):
        authorizer.log((principal, "h", READ, TOPIC, "a"), is_allowed=may(authorizer, principal), request="Fetch", count=2)
    (line,) = caplog.messages
    assert line == (
        "Principal = User:bob is Denied operation = READ from host = h on resource = Topic:LITERAL:a for request = Fetch"
        " with resourceRefCount = 2 based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=a,"
        " patternType=LITERAL, principal=User:bob, host=*, operation=READ, permissionType=DENY))"
    )
    caplog.clear()
    caplog.set_level(logging.DEBUG, "pybroker.authorizer")
    authorizer.log(("User:admin", "h", READ, TOPIC, "a"), is_allowed=True, request="Fetch")
    (line,) = caplog.messages
    assert "is Allowed" in line
    assert line.endswith("based on rule SuperUser")
