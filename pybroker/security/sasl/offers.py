"""The offers of SASL listeners: their mechanisms, with the login modules that the configuration has for them.

    sasl.enabled.mechanisms                                 names, for all listeners or for one
    listener.name.LISTENER.MECHANISM.sasl.jaas.config       the login module of a mechanism

Source: JaasContext.loadServerContext, ChannelBuilders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.config.listener_settings import key_of, text_of, value_of
from pybroker.config.listeners import has_logins
from pybroker.config.setting import ConfigError
from pybroker.security.sasl import plain, scram
from pybroker.security.sasl.jaas import JaasError, LoginModule, parse_modules
from pybroker.security.sasl.login import Offer
from pybroker.security.sasl.scram_credentials import MECHANISMS

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.security.sasl.exchange import Mechanism
    from pybroker.security.sasl.scram import Users

ENABLED: Final = "sasl.enabled.mechanisms"
REAUTH: Final = "connections.max.reauth.ms"
JAAS: Final = "sasl.jaas.config"
HIDDEN: Final = "[hidden]"

MODULES: Final = {plain.NAME: plain.MODULE, **dict.fromkeys(MECHANISMS, scram.MODULE)}
"""The login module of each mechanism."""


def offers(config: BrokerConfig, users: Users) -> dict[str, Offer]:
    """Return the offer of each SASL listener by its name; `users` are those of SCRAM. Raises ConfigError."""
    return {
        endpoint.listener_name: _offer(config, endpoint.listener_name, users)
        for endpoint in config.endpoints
        if has_logins(endpoint.security_protocol)
    }


def names_of(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Return the names of a listener's mechanisms. Raises ConfigError."""
    names = value_of(config, listener, ENABLED)
    assert isinstance(names, tuple)
    return names


def _offer(config: BrokerConfig, listener: str, users: Users) -> Offer:
    names = names_of(config, listener)
    key = key_of(listener, ENABLED) if text_of(config, listener, ENABLED) is not None else ENABLED
    if not names:
        raise ConfigError(key, "", f"names no mechanism, which the listener {listener} needs")
    for name in names:
        if name not in MODULES:
            known = ", ".join(MODULES)
            raise ConfigError(key, ",".join(names), f"{name} is not supported; the listener {listener} can have {known}")
    return Offer(
        {name: _mechanism(config, listener, name, users) for name in names},
        {name: _session_ms_max(config, listener, name) for name in names},
    )


def _session_ms_max(config: BrokerConfig, listener: str, mechanism: str) -> int:
    value = value_of(config, listener, REAUTH, mechanism)
    assert isinstance(value, int)
    return max(value, 0)


def _mechanism(config: BrokerConfig, listener: str, name: str, users: Users) -> Mechanism:
    if name in MECHANISMS:
        if text_of(config, listener, JAAS, name) is not None:
            login_module(config, listener, name)  # for its errors: the users are in the metadata
        return scram.Scram(MECHANISMS[name], users)
    return plain.Plain(login_module(config, listener, plain.NAME).options)


def login_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    """Return the login module of a listener's mechanism. Raises ConfigError."""
    key, text = key_of(listener, JAAS, mechanism), text_of(config, listener, JAAS, mechanism)
    if text is None:
        raise ConfigError(key, "", f"is not set: {mechanism} at the listener {listener} needs {MODULES[mechanism]} required ...;")
    return module_of(key, text, mechanism)


def module_of(key: str, text: str, mechanism: str) -> LoginModule:
    """Return the login module of a property that is for one mechanism. Raises ConfigError."""
    wanted = MODULES[mechanism]
    try:
        modules = parse_modules(text)
    except JaasError as error:
        raise ConfigError(key, HIDDEN, f"is no login module: {error}") from None
    if len(modules) != 1:
        raise ConfigError(key, HIDDEN, f"has {len(modules)} login modules, and must have one")
    if modules[0].name != wanted:
        raise ConfigError(key, HIDDEN, f"must have the login module {wanted} for {mechanism}")
    return modules[0]
