"""Refuses listeners with a protection that pybroker does not have: they are never opened without it.

`several_brokers` looks for signs of several brokers, `access_control` for other access control.

Source: KafkaConfig.validateValues.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pybroker.config.listeners import SUPPORTED_PROTOCOLS, parse_protocol_map
from pybroker.config.server_settings import SECURITY_PROTOCOLS
from pybroker.config.setting import ConfigError
from pybroker.container.several_brokers import refusal, text_of

if TYPE_CHECKING:
    from pybroker.config.load import Texts

_LISTENERS: Final = (
    "advertised.listeners",
    "listeners",
)  # the second may be derived from the first, without being written by the user
_PROTOCOL_NAMES: Final = (
    "advertised.protocol.name",
    "protocol.name",
)  # of wurstmeister's image; each is the protocol of a listener
_NAME: Final = re.compile(r"\s*([^:/\s]+)://")
_PROTECTED: Final = frozenset(SECURITY_PROTOCOLS) - {*SUPPORTED_PROTOCOLS}


def check(properties: Texts) -> None:
    """Refuse listeners that there are not. Raises ConfigError.

    `properties` include those of other images' own variables.
    """
    name = "security.inter.broker.protocol"
    if (protocol := text_of(properties, name).upper()) in _PROTECTED:
        raise refusal(
            properties, name, f"{protocol} is not supported: pybroker has only {', '.join(SUPPORTED_PROTOCOLS)} listeners"
        )
    for name in _LISTENERS:
        if "_{" in text_of(properties, name):  # as in wurstmeister's image, whose scripts run HOSTNAME_COMMAND for it
            raise refusal(properties, name, "has a place for a command's output, but no command is run: write the host itself")
    for name in _LISTENERS:
        _check_protocols(properties, name)
    for name in _PROTOCOL_NAMES:
        _check_listener(properties, name, text_of(properties, name).upper())


def _check_protocols(properties: Texts, key: str) -> None:
    for entry in text_of(properties, key).split(","):
        match = _NAME.match(entry)
        if match is not None:  # an entry that is no listener at all is refused where listeners are read
            _check_listener(properties, key, match[1].upper())


def _check_listener(properties: Texts, key: str, listener: str) -> None:
    name = "listener.security.protocol.map"
    try:
        protocols = parse_protocol_map(text_of(properties, name))
    except ConfigError as error:
        raise refusal(properties, name, error.reason) from None
    protocol = protocols.get(listener, listener)
    if protocol in _PROTECTED:
        source = name if listener in protocols else key
        reason = f"the listener {listener} is {protocol}, and pybroker has only {', '.join(SUPPORTED_PROTOCOLS)} listeners"
        raise refusal(properties, source, reason)
