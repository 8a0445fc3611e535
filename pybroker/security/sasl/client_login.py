"""A login as a client: of this broker at others, and of our own commands.

    sasl.mechanism.inter.broker.protocol, listener.name.LISTENER.MECHANISM.sasl.jaas.config      of a broker
    sasl.mechanism, sasl.jaas.config                                                             of a client

The login module has the options `username` and `password`.

Source: SaslClientAuthenticator, JaasContext, KafkaConfig.validateValues.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.config.listener_settings import key_of
from pybroker.config.setting import ConfigError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pybroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pybroker.security.sasl import plain
from pybroker.security.sasl.client_exchange import Tokens
from pybroker.security.sasl.client_exchange import plain as plain_tokens
from pybroker.security.sasl.client_exchange import scram as scram_tokens
from pybroker.security.sasl.exchange import SaslError
from pybroker.security.sasl.offers import HIDDEN, JAAS, MODULES, login_module, module_of, names_of
from pybroker.security.sasl.scram_credentials import MECHANISMS

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.security.sasl.jaas import LoginModule

BETWEEN: Final = "sasl.mechanism.inter.broker.protocol"
MECHANISM: Final = "sasl.mechanism"
BY_PASSWORD: Final = (plain.NAME, *MECHANISMS)
"""The mechanisms by which this logs in. OAUTHBEARER would need an issuer of tokens."""
_SALTED_MAX: Final = 4

Requests = Generator[Any, Any, int]


class ClientLogin:
    """How a client logs in.

    Attributes:
        mechanism: the name of the mechanism.
        user: the name of the user.
    """

    __slots__ = ("_begin", "mechanism", "user")

    def __init__(self, mechanism: str, user: str, begin: Callable[[], Tokens]) -> None:
        """`begin` begins an exchange."""
        self.mechanism, self.user, self._begin = mechanism, user, begin

    def requests(self) -> Requests:
        """Yield the requests of a login, and take the response to each. It returns for how long the login is valid, in ms; 0 is
        without end. Raises SaslError.
        """
        response = yield SaslHandshakeRequest(mechanism=self.mechanism)
        if response.error_code != ErrorCode.NONE:
            raise SaslError(f"the mechanisms there are {', '.join(response.mechanisms)}, without {self.mechanism}")
        exchange = self._begin()
        token = next(exchange)
        while True:
            response = yield SaslAuthenticateRequest(auth_bytes=token)
            if response.error_code != ErrorCode.NONE:
                raise SaslError(response.error_message or f"error code {response.error_code}")
            try:
                token = exchange.send(bytes(response.auth_bytes))
            except StopIteration:
                return int(response.session_lifetime_ms)


def login_between(config: BrokerConfig, listener: str) -> ClientLogin:
    """Return how this broker logs in at the `listener` of others. Raises ConfigError."""
    mechanism, offered = config.sasl_mechanism_inter_broker_protocol, names_of(config, listener)
    if mechanism not in offered or mechanism not in BY_PASSWORD:
        usable = ", ".join(name for name in offered if name in BY_PASSWORD) or "none for brokers"
        reason = f"brokers log in at each other by a mechanism of the listener {listener}, which has {usable}"
        raise ConfigError(BETWEEN, mechanism, reason)
    return _login(mechanism, key_of(listener, JAAS, mechanism), login_module(config, listener, mechanism))


def login_of_client(properties: Mapping[str, str]) -> ClientLogin:
    """Return how a client with these properties logs in. Raises ConfigError."""
    return _login(*_of_client(properties))


def user_of_client(properties: Mapping[str, str]) -> tuple[str, str]:
    """Return the user and the password by which a client with these properties logs in. Raises ConfigError."""
    _, key, module = _of_client(properties)
    return _user_and_password(key, module)


def _of_client(properties: Mapping[str, str]) -> tuple[str, str, LoginModule]:
    """Return the mechanism, the key of the login module, and the module. Raises ConfigError."""
    mechanism, text = properties.get(MECHANISM, "GSSAPI").strip(), properties.get(JAAS)
    if mechanism not in BY_PASSWORD:
        raise ConfigError(MECHANISM, mechanism, f"must be one of {', '.join(BY_PASSWORD)}")
    if text is None:
        raise ConfigError(JAAS, "", f"is not set: {mechanism} needs {MODULES[mechanism]} required ...;")
    return mechanism, JAAS, module_of(JAAS, text, mechanism)


def _user_and_password(key: str, module: LoginModule) -> tuple[str, str]:
    """Return the options of a login module that a client needs; `key` is the name of the property. Raises ConfigError."""
    user, password = module.options.get("username"), module.options.get("password")
    if not user or not password:
        raise ConfigError(key, HIDDEN, 'needs username="..." and password="..." in its login module for a login as a client')
    return user, password


def tokens_of(mechanism: str, user: str, password: str) -> Tokens:
    """Begin an exchange by one of BY_PASSWORD."""
    if mechanism == plain.NAME:
        return plain_tokens(user, password)
    scram = MECHANISMS[mechanism]
    return scram_tokens(scram, user, partial(scram.salted_password, password), secrets.token_urlsafe())


def _login(mechanism: str, key: str, module: LoginModule) -> ClientLogin:
    user, password = _user_and_password(key, module)
    if mechanism == plain.NAME:
        return ClientLogin(mechanism, user, partial(plain_tokens, user, password))
    scram = MECHANISMS[mechanism]
    salted = lru_cache(_SALTED_MAX)(partial(scram.salted_password, password))  # several ms each, and a broker logs in often
    is_token = module.options.get("tokenauth", "").lower() == "true"
    return ClientLogin(mechanism, user, lambda: scram_tokens(scram, user, salted, secrets.token_urlsafe(), is_token=is_token))
