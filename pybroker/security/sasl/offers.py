"""The offers of SASL listeners: their mechanisms, with the login modules that the configuration has for them.

    sasl.enabled.mechanisms                                 names, for all listeners or for one
    listener.name.LISTENER.MECHANISM.sasl.jaas.config       the login module of a mechanism

Source: JaasContext.loadServerContext, ChannelBuilders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker import extras
from pybroker.config.listener_settings import key_of, text_of, value_of
from pybroker.config.listeners import has_logins
from pybroker.config.setting import ConfigError
from pybroker.security.sasl import oauthbearer, plain, scram
from pybroker.security.sasl.jaas import JaasError, LoginModule, parse_modules
from pybroker.security.sasl.login import Offer
from pybroker.security.sasl.scram_credentials import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.security.sasl.bearer_tokens import Keys
    from pybroker.security.sasl.exchange import Mechanism
    from pybroker.security.sasl.oauthbearer_settings import KeysAt
    from pybroker.security.sasl.scram import Users

ENABLED: Final = "sasl.enabled.mechanisms"
REAUTH: Final = "connections.max.reauth.ms"
JAAS: Final = "sasl.jaas.config"
HANDLER: Final = "sasl.server.callback.handler.class"
HIDDEN: Final = "[hidden]"

MODULES: Final = {
    plain.NAME: plain.MODULE,
    **dict.fromkeys(MECHANISMS, scram.MODULE),
    oauthbearer.NAME: oauthbearer.MODULE,
}
"""The login module of each mechanism."""


class Needs(NamedTuple):
    """The things that mechanisms need of the broker: the users of SCRAM, the keys for tokens, and the time."""

    users: Users
    keys_of: Callable[[KeysAt], Keys]
    clock: Clock


def offers(config: BrokerConfig, needs: Needs) -> dict[str, Offer]:
    """Return the offer of each SASL listener by its name. Raises ConfigError."""
    return {
        endpoint.listener_name: _offer(config, endpoint.listener_name, needs)
        for endpoint in config.endpoints
        if has_logins(endpoint.security_protocol)
    }


def names_of(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Return the names of a listener's mechanisms. Raises ConfigError."""
    names = value_of(config, listener, ENABLED)
    assert isinstance(names, tuple)
    return names


def _offer(config: BrokerConfig, listener: str, needs: Needs) -> Offer:
    names = names_of(config, listener)
    key = key_of(listener, ENABLED) if text_of(config, listener, ENABLED) is not None else ENABLED
    if not names:
        raise ConfigError(key, "", f"names no mechanism, which the listener {listener} needs")
    for name in names:
        if name not in MODULES:
            known = ", ".join(MODULES)
            raise ConfigError(key, ",".join(names), f"{name} is not supported; the listener {listener} can have {known}")
    return Offer(
        {name: _mechanism(config, listener, name, needs) for name in names},
        {name: _session_ms_max(config, listener, name) for name in names},
    )


def _session_ms_max(config: BrokerConfig, listener: str, mechanism: str) -> int:
    value = value_of(config, listener, REAUTH, mechanism)
    assert isinstance(value, int)
    return max(value, 0)


def _mechanism(config: BrokerConfig, listener: str, name: str, needs: Needs) -> Mechanism:
    handler = text_of(config, listener, HANDLER, name)
    if handler is not None and name != oauthbearer.NAME:
        raise ConfigError(key_of(listener, HANDLER, name), handler, f"is for {oauthbearer.NAME} only: no class of Java runs here")
    if name == plain.NAME:
        return plain.Plain(login_module(config, listener, name).options)
    options: dict[str, str] = {}  # users and keys are elsewhere
    if text_of(config, listener, JAAS, name) is not None:
        options = login_module(config, listener, name).options
    if name in MECHANISMS:
        return scram.Scram(MECHANISMS[name], needs.users)
    try:
        from pybroker.security.sasl import oauthbearer_settings  # noqa: PLC0415  needs packages of an extra
    except ImportError:
        reason = f"{name} needs the packages PyJWT and cryptography: {extras.command('security')}"
        raise ConfigError(ENABLED, name, reason) from None
    return oauthbearer_settings.oauthbearer(config, listener, options, needs.keys_of, needs.clock)


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
