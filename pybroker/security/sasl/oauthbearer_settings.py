"""OAUTHBEARER as a listener has it: which tokens count, and where the keys for them are.

    sasl.server.callback.handler.class     Kafka's class for signed tokens, which is the default, or for unsecured ones
    sasl.oauthbearer.*                     what signed tokens must have
    unsecuredValidator*                    options of the login module about unsecured tokens, which ask for them, too

Kafka's default is the class for unsecured tokens. Here the configuration must ask for them.

It needs the packages PyJWT and cryptography.

Source: OAuthBearerValidatorCallbackHandler, VerificationKeyResolverFactory, OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pybroker.config.listener_settings import key_of, value_of
from pybroker.config.setting import ConfigError
from pybroker.security.sasl.bearer_tokens import Expected, SignedTokens, UnsecuredTokens
from pybroker.security.sasl.oauthbearer import NAME, OauthBearer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.security.sasl.bearer_tokens import Keys

logger = logging.getLogger(__name__)

HANDLER: Final = "sasl.server.callback.handler.class"
URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
SIGNED: Final = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",  # its older name
)
UNSECURED: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_OPTION: Final = "unsecuredValidator"


class KeysAt(NamedTuple):
    """Where the keys of a listener are, and when they are read again.

    Attributes:
        key: the setting that has the URL.
        path: the file; empty if the URL is one of HTTP.
        options: those of the login module, of which `ssl.*` are about HTTPS.
    """

    key: str
    url: str
    path: str
    refresh_ms: int
    backoff_ms: int
    backoff_ms_max: int
    options: Mapping[str, str]


def oauthbearer(
    config: BrokerConfig, listener: str, options: Mapping[str, str], keys_of: Callable[[KeysAt], Keys], clock: Clock
) -> OauthBearer:
    """Return the mechanism of a listener with the options of its login module. Raises ConfigError."""
    handler = _text(config, listener, HANDLER)
    if handler not in (None, *SIGNED, UNSECURED):
        raise ConfigError(key_of(listener, HANDLER, NAME), handler, f"must be {SIGNED[0]} or {UNSECURED}")
    if handler == UNSECURED or (handler is None and any(name.startswith(_OPTION) for name in options)):
        logger.warning("The listener %s accepts tokens without a signature: its clients may be any user", listener)
        return OauthBearer(_unsecured(listener, options, clock))
    return OauthBearer(SignedTokens(keys_of(_keys_at(config, listener, options)), _expected(config, listener), clock))


def _text(config: BrokerConfig, listener: str, name: str) -> str | None:
    value = value_of(config, listener, name, NAME)
    assert value is None or isinstance(value, str)
    return value


def _number(config: BrokerConfig, listener: str, name: str) -> int:
    value = value_of(config, listener, name, NAME)
    assert isinstance(value, int)
    return value


def _keys_at(config: BrokerConfig, listener: str, options: Mapping[str, str]) -> KeysAt:
    """Return where the keys are. Raises ConfigError."""
    key, url = key_of(listener, URL, NAME), _text(config, listener, URL)
    if url is None:
        reason = f"is not set: {NAME} needs the keys that verify tokens; for tests only, the option {_OPTION}PrincipalClaimName"
        raise ConfigError(key, "", f"{reason} of the login module accepts tokens without a signature")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    path = unquote(parts.path) if parts.scheme == "file" else ""
    if not (parts.hostname if parts.scheme in ("http", "https") else path and parts.netloc in ("", "localhost")):
        raise ConfigError(key, url, "must be file:///PATH, http://HOST/PATH or https://HOST/PATH")
    refresh_ms, backoff_ms, backoff_ms_max = (
        _number(config, listener, f"sasl.oauthbearer.jwks.endpoint.{name}.ms")
        for name in ("refresh", "retry.backoff", "retry.backoff.max")
    )
    return KeysAt(key, url, path, refresh_ms, backoff_ms, backoff_ms_max, options)


def _expected(config: BrokerConfig, listener: str) -> Expected:
    audiences = value_of(config, listener, "sasl.oauthbearer.expected.audience", NAME) or ()
    assert isinstance(audiences, tuple)
    return Expected(
        audiences=audiences,
        issuer=_text(config, listener, "sasl.oauthbearer.expected.issuer"),
        skew_ms=_number(config, listener, "sasl.oauthbearer.clock.skew.seconds") * 1000,
        scope_claim=_text(config, listener, "sasl.oauthbearer.scope.claim.name") or "scope",
        sub_claim=_text(config, listener, "sasl.oauthbearer.sub.claim.name") or "sub",
    )


def _unsecured(listener: str, options: Mapping[str, str], clock: Clock) -> UnsecuredTokens:
    """Return the check of unsecured tokens by the options of a login module. Raises ConfigError."""
    given = {name: options.get(_OPTION + name, "").strip() for name in ("PrincipalClaimName", "ScopeClaimName", "RequiredScope")}
    skew_ms = options.get(f"{_OPTION}AllowableClockSkewMs", "").strip() or "0"
    if not (skew_ms.isascii() and skew_ms.isdecimal() and len(skew_ms) <= 10):
        key = key_of(listener, "sasl.jaas.config", NAME)
        raise ConfigError(key, "[hidden]", f"{_OPTION}AllowableClockSkewMs must be a number of ms from 0 up")
    return UnsecuredTokens(
        sub_claim=given["PrincipalClaimName"] or "sub",
        scope_claim=given["ScopeClaimName"] or "scope",
        scope=given["RequiredScope"].split(),
        skew_ms=int(skew_ms),
        clock=clock,
    )
