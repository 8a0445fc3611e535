"""Refuses a request for access control that pybroker does not have, unless a variable wants a start without it.

A user that sets users and their passwords by another image's variables, or another vendor's authorizer, takes the broker for
protected. Kafka's own settings of SASL, SSL and its authorizer are settings like others.
Source: libkafka.sh of Bitnami's image for its users and ALLOW_PLAINTEXT_LISTENER.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.config.setting import ConfigError
from pybroker.container.jaas_file import JAVA_OPTIONS, file_of

if TYPE_CHECKING:
    from pybroker.config.load import Texts

VARIABLE: Final = "PYBROKER_WITHOUT_ACCESS_CONTROL"
ALLOW_PLAINTEXT: Final = "ALLOW_PLAINTEXT_LISTENER"
PLAINTEXT: Final = "PLAINTEXT"

_ASKS: Final = re.compile(
    r"confluent\.authorizer\..+"
    r"|(client|broker)\.(user|password)s?|(inter\.broker|controller)\.(user|password)"
)
_LOGIN: Final = re.compile(r"sasl\.(enabled\.mechanisms|mechanism\..+|jaas\.config)|listener\.name\..+\.sasl\.jaas\.config")
_NO: Final = frozenset({"no", "false", "0"})


def check(properties: Texts, environment: Mapping[str, str], protocols: Collection[str]) -> list[str]:
    """Refuse settings that ask for access control. Raises ConfigError.

    `properties` include those of other images' own variables; `protocols` are the security protocols of the listeners. Returns
    the lines to warn with when the environment wants a start nevertheless.
    """
    asked = [name for name, (_, text) in properties.items() if text.strip() and _ASKS.fullmatch(name)]
    is_plaintext_forbidden = environment.get(ALLOW_PLAINTEXT, "").strip().lower() in _NO
    if is_plaintext_forbidden and PLAINTEXT in protocols:
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
        "pybroker does not have this access control, and every client that reaches the port may do everything: leave it out, "
        f"or set {VARIABLE}=true to start without it"
    )
    name = asked[0]
    origin, text = properties.get(name, (name, environment.get(ALLOW_PLAINTEXT, "")))
    raise ConfigError(name, "[hidden]" if "password" in name else text.strip(), f"{reason} (from {origin})")


def ignored_logins(properties: Texts, environment: Mapping[str, str]) -> list[str]:
    """Return lines about settings of a login that plain listeners do not ask for, in Kafka neither."""
    names = [origin for name, (origin, text) in properties.items() if _LOGIN.fullmatch(name) and text.strip()]
    if file_of(environment) is not None:
        names.append(JAVA_OPTIONS)
    return [f"{', '.join(names)}: ignored, because no listener asks for a login: every client is let in"] if names else []


def _is_waived(environment: Mapping[str, str]) -> bool:
    text = environment.get(VARIABLE, "").strip()
    if text.lower() not in ("", "true", "false"):
        raise ConfigError(VARIABLE, text, "must be true or false")
    return text.lower() == "true"
