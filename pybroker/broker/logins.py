"""The gates of the listeners whose clients log in, the login at those of other brokers, and the removal of expired tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.broker.joining import StartError
from pybroker.broker.registration import inter_broker_listener
from pybroker.config.listeners import has_logins
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from pybroker.api.gate import Gate
    from pybroker.broker.bearer_keys import BearerKeys
    from pybroker.broker.periodic import Periodic
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage
    from pybroker.network.context import RequestHandler
    from pybroker.security.sasl.client_login import ClientLogin
    from pybroker.security.sasl.login import Offer
    from pybroker.security.sasl.oauthbearer_settings import KeysAt


async def offers_of(
    config: BrokerConfig, image: Callable[[], ClusterImage], clock: Clock, held: ExitStack
) -> Mapping[str, Offer]:
    """Return what each SASL listener offers, by its name; a broker without one pays nothing. `image` returns the newest one.

    `held` keeps what the offers need until it is closed. Raises StartError.
    """
    if not any(has_logins(endpoint.security_protocol) for endpoint in config.endpoints):
        return {}
    from pybroker.metadata.scram_users import ScramUsers  # noqa: PLC0415  as above
    from pybroker.security.sasl.offers import Needs, offers  # noqa: PLC0415  only where clients log in
    from pybroker.security.tokens import secret_key_of  # noqa: PLC0415

    sources: list[BearerKeys] = []

    def keys_of(at: KeysAt) -> BearerKeys:
        from pybroker.broker.bearer_keys import BearerKeys  # noqa: PLC0415  as above

        sources.append(BearerKeys(at))
        return sources[-1]

    try:
        made = offers(config, Needs(ScramUsers(image, secret_key_of(config)), keys_of, clock))
        for keys in sources:
            held.callback(keys.close)
            await keys.start()
    except ConfigError as error:
        raise StartError(str(error)) from error
    return made


def login_of(config: BrokerConfig) -> ClientLogin | None:
    """Return how this broker logs in at the others of its cluster; None if it does not. Raises StartError."""
    name = inter_broker_listener(config)
    protocol = next(one.security_protocol for one in config.endpoints if one.listener_name == name)
    if not config.is_metadata_shared or not has_logins(protocol):
        return None
    from pybroker.security.sasl.client_login import login_between  # noqa: PLC0415  only where brokers log in

    try:
        return login_between(config, name)
    except ConfigError as error:
        raise StartError(str(error)) from error


def gates_of(
    offers: Mapping[str, Offer], handler: RequestHandler, current: Callable[[], BrokerConfig], clock: Clock
) -> Mapping[str, Gate]:
    """Return the gate of each SASL listener, by its name. `current` returns the configuration in force."""
    if not offers:
        return {}
    from pybroker.api.gate import Gate  # noqa: PLC0415  as above
    from pybroker.security.failures import FailureLog  # noqa: PLC0415

    config, failures = current(), FailureLog(clock.monotonic_ms)
    bytes_max = config.sasl_server_max_receive_size
    if not 0 < bytes_max <= config.socket_request_max_bytes:
        bytes_max = config.socket_request_max_bytes
    return {
        listener: Gate(
            offer,
            handler,
            failures,
            request_bytes_max=bytes_max,
            clock=clock,
            delay_ms=lambda: current().connection_failed_authentication_delay_ms,
        )
        for listener, offer in offers.items()
    }


def remove_expired_tokens(controller: Controller, clock: Clock, periodic: Periodic) -> None:
    """Remove expired delegation tokens from time to time, where there may be some."""
    config = controller.config
    if config.delegation_token_secret_key is None and config.delegation_token_master_key is None:
        return
    from pybroker.broker.token_expiry import TokenExpiry  # noqa: PLC0415  only with tokens

    periodic.every(config.delegation_token_expiry_check_interval_ms, TokenExpiry(controller, clock).look)
