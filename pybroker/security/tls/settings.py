"""The properties of TLS of one listener, or of a client, with the name by which each was set, for errors.

A listener's own property `listener.name.NAME.ssl.*` is stronger than `ssl.*`, where NAME is in lower case.

Source: AbstractConfig.valuesWithPrefixOverride, ChannelBuilders.channelBuilderConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.config.listener_settings import key_of
from pybroker.config.setting import ConfigError
from pybroker.config.tls_settings import TLS_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.config.broker import BrokerConfig
    from pybroker.config.setting import Value

_ROWS: Final = {setting.name: setting for setting in TLS_SETTINGS}
CLIENT_AUTH: Final = "ssl.client.auth"


class TlsSettings:
    """The values in force by Kafka's name, `ssl.*`. Immutable."""

    __slots__ = ("_keys", "_values")

    def __init__(self, values: Mapping[str, Value], keys: Mapping[str, str]) -> None:
        """`keys` has the full name of each value that was set under another one than its own."""
        self._values, self._keys = values, keys

    def __getitem__(self, name: str) -> Any:
        """Return the value of a property."""
        return self._values[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TlsSettings) and (self._values, self._keys) == (other._values, other._keys)

    __hash__ = None  # type: ignore[assignment]  # nothing keeps them in a set

    def key(self, name: str) -> str:
        """Return the name under which a property was set."""
        return self._keys.get(name, name)

    def error(self, name: str, reason: str) -> ConfigError:
        """Return the error about a property, without its value where that is a secret."""
        row = _ROWS[name]
        return ConfigError(self.key(name), row.shown(row.format(self._values[name])), reason)


def settings_of_listener(config: BrokerConfig, listener_name: str, *, is_sasl: bool = False) -> TlsSettings:
    """Return the properties of a listener. Raises ConfigError.

    A listener that authenticates by SASL asks for no certificate, unless its own property has it (KIP-684).
    """
    values: dict[str, Value] = {name: getattr(config, row.attribute) for name, row in _ROWS.items()}
    if is_sasl:
        values[CLIENT_AUTH] = "none"
    return _overridden(values, config.unread, key_of(listener_name, ""))


def settings_of_client(properties: Mapping[str, str]) -> TlsSettings:
    """Return the properties of a client's file. Raises ConfigError."""
    return _overridden({name: row.default for name, row in _ROWS.items()}, properties, "")


def _overridden(values: dict[str, Value], texts: Mapping[str, str], prefix: str) -> TlsSettings:
    keys = {}
    for name, row in _ROWS.items():
        text = texts.get(key := prefix + name)
        if text is not None:
            keys[name] = key
            values[name] = row._replace(name=key).parse(text)
    return TlsSettings(values, keys)
