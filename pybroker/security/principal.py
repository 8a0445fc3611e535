"""The identity of a client: a type and a name, written as one text `TYPE:NAME`, as ACLs and `super.users` have it.

One text, because every check of a permission looks it up: a dictionary of texts costs least.

Source: KafkaPrincipal, SecurityUtils.parseKafkaPrincipal.
"""

from __future__ import annotations

from typing import Final

USER_TYPE: Final = "User"
SEPARATOR: Final = ":"

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not authenticated."""


def user(name: str) -> str:
    """Return the principal of a user."""
    return f"{USER_TYPE}{SEPARATOR}{name}"


def name_of(text: str) -> str:
    """Return the name of a principal, without its type."""
    return text.partition(SEPARATOR)[2]


def parse(text: str) -> tuple[str, str]:
    """Return the type and the name of a principal. The name may have the separator. Raises ValueError."""
    principal_type, separator, name = text.partition(SEPARATOR)
    if not separator or not principal_type:
        raise ValueError(f"{text!r} is not TYPE:NAME")
    return principal_type, name
