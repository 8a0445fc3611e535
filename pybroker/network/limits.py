"""The network's settings, with Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.security.tls.listener import ListenerTls

UNLIMITED: Final = 2**31 - 1
OS_DEFAULT: Final = -1


@dataclass(slots=True, frozen=True, kw_only=True)
class ListenerLimits:
    """The limits that a listener has for itself, beside those of the broker."""

    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED


@dataclass(slots=True, frozen=True, kw_only=True)
class NetworkLimits:
    """Kafka's broker properties of the socket server, with the broker's defaults.

    `descriptors_max` is the number of connections that the process has descriptors for. At that number, and at `max_connections`,
    the listeners wait; a listener that `is_protected` waits for descriptors only. `max_connections_per_ip_overrides` maps a
    peer's address (as text) to its own limit; `of_listeners` has those of listeners by name. New connections per second are
    counted over `connection_rate_samples` windows of `connection_rate_window_ms` each. `connections_max_idle_ms` <= 0: idle
    connections stay. `strangers.py` has the reasons for the timeouts of a first request and of a request's progress, and for the
    bound on unsent responses. The socket buffers are in bytes, -1 for the system's.
    """

    socket_request_max_bytes: int = 100 * 1024 * 1024
    queued_max_requests: int = 500
    max_connections: int = UNLIMITED
    descriptors_max: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    max_connection_creation_rate: int = UNLIMITED
    of_listeners: Mapping[str, ListenerLimits] = field(default_factory=lambda: MappingProxyType({}))
    connection_rate_samples: int = 11
    connection_rate_window_ms: int = 1_000
    connections_max_idle_ms: int = 600_000
    first_request_timeout_ms: int = 60_000
    request_progress_timeout_ms: int = 30_000
    unsent_response_bytes_max: int = 256 * 1024 * 1024
    socket_send_buffer_bytes: int = 100 * 1024
    socket_receive_buffer_bytes: int = 256 * 1024
    socket_listen_backlog_size: int = 4_096


@dataclass(slots=True, frozen=True, kw_only=True)
class Listener:
    """An address to accept connections at. An empty `host` is every interface, port 0 a free port.

    `is_protected`: the listener is for brokers, beside others for clients; clients must not keep brokers out. `tls`: its TLS, if
    its connections have TLS.
    """

    name: str = "PLAINTEXT"
    host: str = ""
    port: int = 0
    security_protocol: str = "PLAINTEXT"
    is_protected: bool = False
    tls: ListenerTls | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class BoundListener:
    """A listener that accepts connections, with the address it really has, and its TLS, if its connections have TLS."""

    name: str
    host: str
    port: int
    tls: ListenerTls | None = None


def host_and_port(host: str, port: int) -> str:
    """Format an address for people; an IPv6 address gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
