"""Settings that a single listener may have for itself, by names that begin with the listener's.

    listener.name.LISTENER.NAME                 before NAME
    listener.name.LISTENER.MECHANISM.NAME       before both, for one SASL mechanism

Listeners and mechanisms are in lower case there.

Source: AbstractConfig.valuesWithPrefixOverride, ListenerName, ChannelBuilders.channelBuilderConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.config.http_listeners import ADMIN_NAME, METRICS_NAME
from pybroker.config.sasl_settings import OAUTHBEARER_SETTINGS
from pybroker.config.setting import Kind
from pybroker.config.table import BROKER_SETTINGS
from pybroker.config.tls_settings import TLS_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.config.broker import BrokerConfig
    from pybroker.config.setting import Setting, Value

PREFIX: Final = "listener.name."
LOGIN_MODULE: Final = "sasl.jaas.config"
OF_LISTENERS: Final = frozenset(
    {"sasl.enabled.mechanisms", LOGIN_MODULE, "sasl.server.callback.handler.class", "connections.max.reauth.ms"}
    | {"max.connections", "max.connection.creation.rate"}
    | {row.name for row in (*OAUTHBEARER_SETTINGS, *TLS_SETTINGS)}
)
"""The names that may stand behind a listener's."""


def is_of_listener(name: str) -> bool:
    """Return whether a property is one of those that a listener may have for itself."""
    if not name.startswith(PREFIX):
        return False
    own = name_behind(name)
    return own in OF_LISTENERS or own.partition(".")[2] in OF_LISTENERS


def names_of_no_listener(names: Iterable[str], config: BrokerConfig) -> tuple[list[str], list[str]]:
    """Return the names of properties that are for a listener that the broker does not have, and the listeners that it has.

    Listeners are in lower case. `metrics` and `admin`, those of the pages over HTTP, always count as had. Raises ConfigError.
    """
    own = (*config.dropped_listeners, *(endpoint.listener_name for endpoint in config.endpoints))
    listeners = list(dict.fromkeys(name.lower() for name in (*own, *(config.controller_listener_names or ()))))
    prefixes = tuple(f"{PREFIX}{name}." for name in (*listeners, ADMIN_NAME, METRICS_NAME))
    return [name for name in names if name.startswith(PREFIX) and not name.startswith(prefixes)], listeners


def is_password(name: str) -> bool:
    """Return whether a property is a secret: of the broker, or of one of its listeners."""
    row = BROKER_SETTINGS.get(name) or row_of(name)
    return name.endswith(LOGIN_MODULE) or (row is not None and row.kind is Kind.PASSWORD)


def row_of(name: str) -> Setting | None:
    """Return the row of a property that a listener has for itself, under its whole name; None for any other property."""
    if not name.startswith(PREFIX):
        return None
    own = name_behind(name)
    row = BROKER_SETTINGS.get(own) if own in OF_LISTENERS else None  # a login module stands behind the name of its mechanism
    return None if row is None else row._replace(name=name)


def name_behind(name: str) -> str:
    """Return what stands behind the listener's name in the name of its own setting."""
    return name.removeprefix(PREFIX).partition(".")[2]


def key_of(listener: str, name: str, mechanism: str = "") -> str:
    """Return the name of a listener's own setting."""
    return f"{PREFIX}{listener.lower()}.{mechanism.lower() + '.' if mechanism else ''}{name}"


def text_of(config: BrokerConfig, listener: str, name: str, mechanism: str = "") -> str | None:
    """Return the text of a listener's own setting; None if it has none."""
    return config.unread.get(key_of(listener, name, mechanism))


def value_of(config: BrokerConfig, listener: str, name: str, mechanism: str = "") -> Value:
    """Return a setting as a listener has it. Raises ConfigError."""
    setting = BROKER_SETTINGS[name]
    for key in (key_of(listener, name, mechanism), key_of(listener, name)):
        text = config.unread.get(key)
        if text is not None:
            return setting._replace(name=key).parse(text)
    value: Value = getattr(config, setting.attribute)
    return value
