"""Where the broker listens, and the TLS of its listeners, which is read again when its files or settings have changed."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.broker.joining import StartError
from pybroker.broker.registration import inter_broker_listener
from pybroker.config.http_listeners import ADMIN_NAME, METRICS_NAME
from pybroker.config.listeners import has_logins, has_tls
from pybroker.config.setting import ConfigError
from pybroker.failures import drop_frames
from pybroker.network.binding import bind_all
from pybroker.network.limits import Listener

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from pybroker.broker.periodic import Periodic
    from pybroker.config.broker import BrokerConfig
    from pybroker.config.listeners import Endpoint
    from pybroker.security.tls.listener import ListenerTls
    from pybroker.security.tls.settings import TlsSettings
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)

LOOK_MS: Final = 5_000
"""How often the files of keys and certificates are looked at."""

_Stamps = tuple[tuple[int, int, int] | None, ...]


def listeners_of(config: BrokerConfig) -> list[Listener]:
    """Return where the socket server listens, which no change of a setting changes. Raises StartError for TLS that cannot be."""
    return [
        Listener(
            name=endpoint.listener_name,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
            is_protected=len(config.endpoints) > 1 and endpoint.listener_name == config.broker_listener_name,
            tls=_tls_of_endpoint(config, endpoint),
        )
        for endpoint in config.endpoints
    ]


def http_listeners_of(config: BrokerConfig) -> list[Listener]:
    """Return the listeners for HTTP that have TLS. Raises StartError for TLS that cannot be."""
    addresses = {METRICS_NAME: config.metrics_address, ADMIN_NAME: config.admin_address}
    return [
        Listener(name=name, host=address.host, port=address.port, security_protocol="SSL", tls=_tls_of(config, name))
        for name, address in addresses.items()
        if address is not None and address.is_tls
    ]


async def bind_listeners(config: BrokerConfig, listeners: Sequence[Listener]) -> list[socket.socket]:
    """Return a bound socket for each listener. Raises OSError."""
    return await bind_all(
        listeners,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def _tls_of_endpoint(config: BrokerConfig, endpoint: Endpoint) -> ListenerTls | None:
    if not has_tls(endpoint.security_protocol):
        return None
    name = endpoint.listener_name
    return _tls_of(
        config, name, is_sasl=has_logins(endpoint.security_protocol), is_for_brokers=name == inter_broker_listener(config)
    )


def _tls_of(config: BrokerConfig, name: str, *, is_sasl: bool = False, is_for_brokers: bool = False) -> ListenerTls:
    from pybroker.security.tls.listener import ListenerTls  # noqa: PLC0415  only where a listener has TLS
    from pybroker.security.tls.settings import settings_of_listener  # noqa: PLC0415

    try:
        return ListenerTls(settings_of_listener(config, name, is_sasl=is_sasl), is_for_brokers=is_for_brokers)
    except ConfigError as error:
        raise StartError(str(error)) from error


class TlsReload:
    """Replaces the TLS of listeners whose files or settings have changed. What cannot be read leaves the TLS before in force."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._stamps: dict[str, _Stamps] = {}
        self._listeners = [one for one in listeners if one.tls is not None]
        for one in self._listeners:
            self._stamps[one.name] = _stamps(one.tls)

    def begin(self, periodic: Periodic) -> None:
        """Look at the files at intervals."""
        if self._listeners:
            periodic.every(LOOK_MS, self.look)

    def look(self) -> None:
        """Read the stores whose files have changed."""
        for listener in self._listeners:
            stamps = _stamps(listener.tls)
            if stamps != self._stamps[listener.name]:
                self._stamps[listener.name] = stamps
                _load(listener, None)

    def check(self, before: BrokerConfig, after: BrokerConfig) -> Work[None]:
        """Make in a thread the TLS of each listener that has other settings in `after`, and drop it. Raises ConfigError."""
        for listener in self._listeners:
            settings = _settings_of(after, listener)
            if settings != _settings_of(before, listener):
                errors: list[ConfigError] = []
                yield partial(_try, settings, errors)
                if errors:
                    raise errors[0]

    def configure(self, config: BrokerConfig) -> None:
        """Take over the settings in force, and read the stores of the listeners whose settings have changed."""
        for listener in self._listeners:
            if _load(listener, config):
                self._stamps[listener.name] = _stamps(listener.tls)


def _settings_of(config: BrokerConfig, listener: Listener) -> TlsSettings:
    from pybroker.security.tls.settings import settings_of_listener  # noqa: PLC0415  only where a listener has TLS

    return settings_of_listener(config, listener.name, is_sasl=has_logins(listener.security_protocol))


def _try(settings: TlsSettings, errors: list[ConfigError]) -> None:
    """Make the TLS of these settings, or add the error. As in Kafka, the trust store is read also where no client needs one."""
    from pybroker.security.tls.listener import ListenerTls  # noqa: PLC0415  only where a listener has TLS

    try:
        ListenerTls(settings, is_for_brokers=True)
    except ConfigError as error:
        errors.append(drop_frames(error))


def _load(listener: Listener, config: BrokerConfig | None) -> bool:
    """Read the stores of a listener, with a line about what came of it. Without `config`, its settings are the same as before.

    Returns whether there was a reason to.
    """
    tls = listener.tls
    assert tls is not None
    settings = tls.settings
    try:
        if config is not None:
            settings = _settings_of(config, listener)
            if settings == tls.settings:
                return False
        tls.load(settings)
    except ConfigError as error:
        logger.error("The TLS of the listener %s remains as it was, because the new one cannot be used: %s", listener.name, error)  # noqa: TRY400 - a value, not a bug
    else:
        logger.info(
            "New connections at the listener %s have the certificate and the settings that were read again", listener.name
        )
    return True


def _stamps(tls: ListenerTls | None) -> _Stamps:
    """Return what changes when a file of the stores is written or replaced; None for a file that is not there."""
    assert tls is not None
    from pybroker.security.tls.stores import store_files  # noqa: PLC0415  only where a listener has TLS

    return tuple(_stamp(path) for path in store_files(tls.settings))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
