"""Passes a changed dynamic setting to the objects that use it, before the request that changed it gets its response.

Code that reads a setting each time it needs it sees the new value at once. Earlier decisions stand: lowering a connection limit
closes no connection, and a segment being written keeps its size.

Limits of connections by host are an exception if their hosts must be looked up again, as those of the start when a client takes
back other ones. They come into force when that is done, and the limits before stay meanwhile.

Source: DynamicBrokerConfig and its Reconfigurables; KIP-226.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pybroker.broker.descriptors import shares_of_process
from pybroker.config.listener_settings import text_of, value_of
from pybroker.config.setting import ConfigError
from pybroker.network.limits import ListenerLimits, NetworkLimits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pybroker.api.context import Services
    from pybroker.config.broker import BrokerConfig
    from pybroker.config.hosts import HostLookups
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.network.server import SocketServer
    from pybroker.replication.replica_manager import ReplicaManager


logger = logging.getLogger(__name__)


class Reconfigurable(Protocol):
    """A part of the broker that takes over the settings in force by itself."""

    def configure(self, config: BrokerConfig) -> None:
        """Take over these settings, of which some may be as before."""


class DynamicSettings:
    """A listener of the controller, which has resolved the settings when it calls."""

    __slots__ = ("_controller", "_limits", "_lookups", "_network", "_replicas", "_services", "_tls")

    def __init__(
        self,
        controller: Controller,
        services: Services,
        replicas: ReplicaManager,
        network: SocketServer | None = None,
        tls: Reconfigurable | None = None,
    ) -> None:
        self._controller, self._services, self._replicas, self._network = controller, services, replicas, network
        self._tls = tls
        self._limits = controller.config.max_connections_per_ip_overrides  # those in force, or those that are being looked up
        self._lookups: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly

    def __call__(self, _old: ClusterImage, _new: ClusterImage, _delta: ImageDelta) -> Iterator[None] | None:
        """Compare the settings in force with those that were passed on last; the logs get theirs in slices."""
        config = self._controller.config
        if config is self._services.config:
            return None
        self._services.config = config
        if self._tls is not None:
            self._tls.configure(config)
        if self._network is not None:
            self._network.limits = network_limits(config, self._limits_by_address(config, self._network))
        return self._replicas.reconfigure(config)

    def _limits_by_address(self, config: BrokerConfig, network: SocketServer) -> Mapping[str, int]:
        """Return the limits by address, or those before if the hosts must be looked up, which begins then."""
        limits, before = config.max_connections_per_ip_overrides, self._limits
        self._limits = limits
        if limits == before:
            return network.limits.max_connections_per_ip_overrides
        found = self._controller.hosts.found(limits)
        if found is not None:
            return found
        task = asyncio.get_running_loop().create_task(self._look_up(config, network))
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)
        return network.limits.max_connections_per_ip_overrides

    async def _look_up(self, config: BrokerConfig, network: SocketServer) -> None:
        found = await limits_by_address(config, self._controller.hosts)
        if self._limits == config.max_connections_per_ip_overrides:
            network.limits = replace(network.limits, max_connections_per_ip_overrides=found)


async def limits_by_address(config: BrokerConfig, hosts: HostLookups) -> Mapping[str, int]:
    """Return the limits of connections by address; none, if a host has no address."""
    limits = config.max_connections_per_ip_overrides
    if (found := hosts.found(limits)) is not None:
        return found
    try:
        return await hosts.look_up(limits, is_new=False)
    except ConfigError as error:  # it was right when it was set: a start and a change are refused where a name is not known
        logger.error("The limits of connections by address cannot be used, so no address has a limit of its own: %s", error)  # noqa: TRY400 - a value, not a bug
        return {}


def network_limits(config: BrokerConfig, by_address: Mapping[str, int]) -> NetworkLimits:
    """Return the settings of the socket server; `by_address` are those limits of connections that single addresses have."""
    return NetworkLimits(
        socket_request_max_bytes=config.socket_request_max_bytes,
        queued_max_requests=config.queued_max_requests,
        max_connections=config.max_connections,
        descriptors_max=shares_of_process().connections,
        max_connection_creation_rate=config.max_connection_creation_rate,
        of_listeners=limits_of_listeners(config),
        connection_rate_samples=config.quota_window_num,
        connection_rate_window_ms=1000 * config.quota_window_size_seconds,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=by_address,
        connections_max_idle_ms=config.connections_max_idle_ms,
        first_request_timeout_ms=config.pybroker_first_request_timeout_ms,
        request_progress_timeout_ms=config.pybroker_request_progress_timeout_ms,
        unsent_response_bytes_max=config.pybroker_unsent_response_bytes_max,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
        socket_receive_buffer_bytes=config.socket_receive_buffer_bytes,
        socket_listen_backlog_size=config.socket_listen_backlog_size,
    )


def limits_of_listeners(config: BrokerConfig) -> Mapping[str, ListenerLimits]:
    """Return the limits of the listeners that have some for themselves. Raises ConfigError."""
    found: dict[str, ListenerLimits] = {}
    for name in (endpoint.listener_name for endpoint in config.endpoints):
        own: dict[str, Any] = {
            row.replace(".", "_"): value_of(config, name, row)
            for row in ("max.connections", "max.connection.creation.rate")
            if text_of(config, name, row) is not None
        }
        if own:
            found[name] = ListenerLimits(**own)
    return found
