"""The work of a broker now, as its API shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.admin.subject import BrokerState, Listening
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.network.limits import BoundListener
    from pybroker.network.server import SocketServer


async def state_of(server: SocketServer, config: BrokerConfig, bound: Sequence[BoundListener]) -> BrokerState:
    """Return the state now; it runs in the broker's loop."""
    pool = server.memory_pool
    return BrokerState(
        listeners=_listening(config, bound),
        connections=server.connections_open,
        muted_connections=server.admission.waiting,
        request_bytes=pool.used,
        request_bytes_max=pool.size if config.queued_max_request_bytes > 0 else None,
        queued_requests=server.admission.queued_requests,
    )


def _listening(config: BrokerConfig, bound: Sequence[BoundListener]) -> tuple[Listening, ...]:
    ports = {one.name: one for one in bound}
    advertised = {
        one.listener_name: host_and_port(one.host or "the machine's name", one.port or ports[one.listener_name].port)
        for one in config.advertised_endpoints
        if one.listener_name not in config.unadvertised_listeners and one.listener_name in ports
    }
    protocols = {one.listener_name: one.security_protocol for one in config.endpoints}
    return tuple(
        Listening(one.name, protocols[one.name], host_and_port(one.host or "*", one.port), advertised.get(one.name))
        for one in bound
    )
