"""Refuses a request for access control, which pybroker does not have, unless a variable says to start without it.

A user that sets an authorizer, or users and their passwords, takes the broker for protected. `refusals` refuses listeners with
SASL or SSL, and no variable helps there: clients could not even connect to the plain listeners that would be started instead.
Source: KafkaConfig for authorizer.class.name; StandardAuthorizer for super.users; libkafka.sh of Bitnami's image for its users
and ALLOW_PLAINTEXT_LISTENER.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pybroker.config.setting import ConfigError

Texts = Mapping[str, tuple[str, str]]

VARIABLE: Final = "PYBROKER_WITHOUT_ACCESS_CONTROL"
ALLOW_PLAINTEXT: Final = "ALLOW_PLAINTEXT_LISTENER"

_ASKS: Final = re.compile(
    r"authorizer\.class\.name|super\.users|confluent\.authorizer\..+"
    r"|(client|broker)\.(user|password)s?|(inter\.broker|controller)\.(user|password)"
)
_NO: Final = frozenset({"no", "false", "0"})


def check(properties: Texts, environment: Mapping[str, str]) -> list[str]:
    """Refuse settings that ask for access control. Raises ConfigError.

    `properties` include those of other images' own variables. Returns the lines to warn with when the environment says to start
    nevertheless.
    """
    asked = [name for name, (_, text) in properties.items() if text.strip() and _ASKS.fullmatch(name)]
    is_plaintext_forbidden = environment.get(ALLOW_PLAINTEXT, "").strip().lower() in _NO
    if is_plaintext_forbidden:
        asked.append(ALLOW_PLAINTEXT)
    if not asked:
        _is_waived(environment)  # for the errors that it raises
        return []
    named = ", ".join(properties[name][0] if name in properties else name for name in asked)
    if _is_waived(environment):
        return [
            f"{VARIABLE}=true: there is no access control: every client that reaches the port may do everything; ignored: {named}"
        ]
    reason = (
        "pybroker has no access control, and every client that reaches the port may do everything: leave it out, "
        f"or set {VARIABLE}=true to start without it"
    )
    name = asked[0]
    origin, text = properties.get(name, (name, environment.get(ALLOW_PLAINTEXT, "")))
    raise ConfigError(name, "[hidden]" if "password" in name else text.strip(), f"{reason} (from {origin})")


def _is_waived(environment: Mapping[str, str]) -> bool:
    text = environment.get(VARIABLE, "").strip()
    if text.lower() not in ("", "true", "false"):
        raise ConfigError(VARIABLE, text, "must be true or false")
    return text.lower() == "true"
