"""Passes a changed dynamic setting to the objects that use it, before the request that changed it gets its response.

Code that reads a setting each time it needs it sees the new value at once. Earlier decisions stand: lowering a connection limit
closes no connection, and a segment being written keeps its size.

Source: DynamicBrokerConfig and its Reconfigurables; KIP-226.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.broker.descriptors import shares_of_process
from pybroker.config.hosts import connection_limits
from pybroker.config.setting import ConfigError
from pybroker.network.limits import NetworkLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.api.context import Services
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.network.server import SocketServer
    from pybroker.replication.replica_manager import ReplicaManager


logger = logging.getLogger(__name__)


class DynamicSettings:
    """A listener of the controller, which has resolved the settings when it calls."""

    __slots__ = ("_controller", "_network", "_replicas", "_services")

    def __init__(
        self, controller: Controller, services: Services, replicas: ReplicaManager, network: SocketServer | None = None
    ) -> None:
        self._controller, self._services, self._replicas, self._network = controller, services, replicas, network

    def __call__(self, _old: ClusterImage, _new: ClusterImage, _delta: ImageDelta) -> Iterator[None] | None:
        """Compare the settings in force with those that were passed on last; the logs get theirs in slices."""
        config = self._controller.config
        if config is self._services.config:
            return None
        self._services.config = config
        if self._network is not None:
            self._network.limits = network_limits(config)
        return self._replicas.reconfigure(config)


def _limits_by_address(config: BrokerConfig) -> dict[str, int]:
    try:
        return connection_limits(config)
    except ConfigError as error:  # it was right when it was set: a start and a change are refused where a name is not known
        logger.error("The limits of connections by address cannot be used, so no address has a limit of its own: %s", error)  # noqa: TRY400 - a value, not a bug
        return {}


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """Return the settings of the socket server."""
    return NetworkLimits(
        socket_request_max_bytes=config.socket_request_max_bytes,
        queued_max_requests=config.queued_max_requests,
        max_connections=config.max_connections,
        descriptors_max=shares_of_process().connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=_limits_by_address(config),
        connections_max_idle_ms=config.connections_max_idle_ms,
        first_request_timeout_ms=config.pybroker_first_request_timeout_ms,
        request_progress_timeout_ms=config.pybroker_request_progress_timeout_ms,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
        socket_receive_buffer_bytes=config.socket_receive_buffer_bytes,
        socket_listen_backlog_size=config.socket_listen_backlog_size,
    )
