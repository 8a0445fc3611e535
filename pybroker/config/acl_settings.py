"""The table of broker properties, part five: authorization.

Source: KafkaConfig, StandardAuthorizer.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import Check, Kind, Setting

AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""The classes of Kafka whose rules pybroker has."""


def principals(text: str) -> frozenset[str]:
    """Return the principals of a list with semicolons, as `super.users` has them. A principal's name may have commas."""
    return frozenset(one.strip() for one in text.split(";") if one.strip())


_AUTHORIZER: Final = Check(f"one of {' and '.join(AUTHORIZERS)}, or empty", lambda value: value in ("", *AUTHORIZERS))
_PRINCIPALS: Final = Check("TYPE:NAME[;TYPE:NAME...]", lambda value: all(one.find(":") > 0 for one in principals(value)))

ACL_SETTINGS: Final = (
    Setting(
        "authorizer.class.name", Kind.STRING, "",
        "The class of Kafka by whose rules ACLs decide which user may do what; both names mean the same. Empty means that every"
        " client may do everything.",
        _AUTHORIZER,
    ),
    Setting(
        "super.users", Kind.STRING, "",
        "The principals that may do everything, as TYPE:NAME with semicolons between them, such as User:admin;User:broker. The"
        " principal of the brokers must be one of them.",
        _PRINCIPALS,
    ),
    Setting(
        "allow.everyone.if.no.acl.found", Kind.BOOLEAN, False,
        "Whether everyone may do everything to a resource that no ACL is about.",
    ),
)  # fmt: skip
