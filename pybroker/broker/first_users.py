"""The users for SCRAM that a start adds: without them, no client could log in to add the first one.

    SCRAM-SHA-256=[name=admin,password=secret],SCRAM-SHA-512=[iterations=8192,name=bob,password=other]

Source: kafka.tools.StorageTool (--add-scram), ScramParser; KIP-900.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.config.setting import ConfigError
from pybroker.metadata.scram_users import Alteration, described, plan_alterations
from pybroker.security.sasl.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS, SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.metadata.controller import Controller
    from pybroker.security.sasl.scram_credentials import ScramMechanism

KEY: Final = "pybroker.scram.users"
_USER: Final = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<fields>[^\]]+)\]")
_FIELD: Final = re.compile(r"(?:^|,)(?P<key>iterations|name|password)=")
"""A field of a user, in any order; a password may have a comma."""


class _User(NamedTuple):
    mechanism: ScramMechanism
    name: str
    password: str
    iterations: int


async def add_users(controller: Controller, text: str) -> None:
    """Add the users that have no credential of their mechanism. Raises ConfigError, without a password."""
    for one in list(_users(text)):
        await _add_user(controller, one)


async def _add_user(controller: Controller, user: _User) -> None:
    mechanism, salt = user.mechanism, secrets.token_bytes(SALT_BYTES)
    if any(number == mechanism.number for number, _ in described(controller.image, user.name)):
        return
    salted_password = mechanism.salted_password(user.password, salt, min(max(user.iterations, 1), ITERATIONS_MAX))
    alteration = Alteration(user.name, mechanism.number, user.iterations, salt, salted_password)
    (error,) = await controller.carry_out(lambda: plan_alterations(controller.image, [alteration]))
    if error is not None:
        is_within = ITERATIONS_MIN <= user.iterations <= ITERATIONS_MAX
        bounds = "" if is_within else f" (iterations from {ITERATIONS_MIN} to {ITERATIONS_MAX})"
        raise ConfigError(KEY, "[hidden]", f"cannot add user {user.name!r}: {error.message}{bounds}")


def _users(text: str) -> Iterator[_User]:
    position = 0
    while position < len(text):
        match = _USER.match(text, position)
        user = None if match is None else _user_of(match)
        if match is None or user is None or text[match.end() : match.end() + 1] not in ("", ","):
            wanted = "SCRAM-SHA-256=[name=NAME,password=PASSWORD] or SCRAM-SHA-512=[...]"
            raise ConfigError(KEY, "[hidden]", f"has no {wanted} at character {position + 1}")
        yield user
        position = match.end() + 1


def _user_of(match: re.Match[str]) -> _User | None:
    """Return the user between the brackets; None if a field lacks, is there twice, or cannot be."""
    places = list(_FIELD.finditer(match["fields"]))
    keys = [place["key"] for place in places]
    if match["mechanism"] not in MECHANISMS or not {"name", "password"} <= set(keys) or len({*keys}) < len(keys):
        return None
    ends = [*(place.start() for place in places[1:]), len(match["fields"])]
    fields = {place["key"]: match["fields"][place.end() : end] for place, end in zip(places, ends, strict=True)}
    iterations = fields.get("iterations", str(ITERATIONS_MIN))
    if places[0].start() or not all(fields.values()) or "," in fields["name"] or not re.fullmatch(r"[0-9]{1,9}", iterations):
        return None
    return _User(MECHANISMS[match["mechanism"]], fields["name"], fields["password"], int(iterations))
