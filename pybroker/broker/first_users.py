"""The users for SCRAM that a start adds: without them, no client could log in to add the first one.

    SCRAM-SHA-256=[name=admin,password=secret],SCRAM-SHA-512=[iterations=8192,name=bob,password=other]

Source: kafka.tools.StorageTool (--add-scram), ScramParser; KIP-900.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from pybroker.config.setting import ConfigError
from pybroker.metadata.scram_users import Alteration, described, plan_alterations
from pybroker.security.sasl.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS, SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.metadata.controller import Controller

KEY: Final = "pybroker.scram.users"
_USER: Final = re.compile(
    r"(?P<mechanism>[A-Z0-9-]+)=\[(?:iterations=(?P<iterations>[0-9]{1,9}),)?name=(?P<name>[^,\[\]]+),password=(?P<password>[^\]]+)\]"
)


async def add_users(controller: Controller, text: str) -> None:
    """Add the users that have no credential of their mechanism. Raises ConfigError, without a password."""
    for one in list(_users(text)):
        await _add_user(controller, one)


async def _add_user(controller: Controller, one: re.Match[str]) -> None:
    mechanism, user = MECHANISMS[one["mechanism"]], one["name"]
    if any(number == mechanism.number for number, _ in described(controller.image, user)):
        return
    iterations, salt = int(one["iterations"] or ITERATIONS_MIN), secrets.token_bytes(SALT_BYTES)
    salted_password = mechanism.salted_password(one["password"], salt, min(iterations, ITERATIONS_MAX))
    alteration = Alteration(user, mechanism.number, iterations, salt, salted_password)
    (error,) = await controller.carry_out(lambda: plan_alterations(controller.image, [alteration]))
    if error is not None:
        raise ConfigError(KEY, "[hidden]", f"cannot add user {user!r}: {error.message}")


def _users(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        match = _USER.match(text, position)
        if match is None or match["mechanism"] not in MECHANISMS or text[match.end() : match.end() + 1] not in ("", ","):
            wanted = "SCRAM-SHA-256=[name=NAME,password=PASSWORD] or SCRAM-SHA-512=[...]"
            raise ConfigError(KEY, "[hidden]", f"has no {wanted} at character {position + 1}")
        yield match
        position = match.end() + 1
