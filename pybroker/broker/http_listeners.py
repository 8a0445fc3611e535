"""The listeners of a broker that are not for Kafka's clients: the metrics and the API. What is off is not imported."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from pybroker.broker.registration import inter_broker_listener
from pybroker.config.http_listeners import ADMIN_NAME, METRICS_NAME
from pybroker.metadata.names import INTERNAL_TOPICS
from pybroker.model import BrokerId
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ssl import SSLContext

    from pybroker.admin.logins import Logins
    from pybroker.admin.server import AdminServer
    from pybroker.api.context import Services
    from pybroker.api.dispatch import Dispatcher
    from pybroker.broker.kept_clients import KeptClients
    from pybroker.broker.lifecycle import Lifecycle
    from pybroker.config.broker import BrokerConfig
    from pybroker.config.http_listeners import HttpAddress
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import Trail
    from pybroker.log.manager.manager import LogManager
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.metrics.exporter import Scope
    from pybroker.metrics.http_server import MetricsPages, MetricsServer
    from pybroker.network.limits import BoundListener, Listener
    from pybroker.network.server import SocketServer
    from pybroker.security.acl.binding import AclOperation
    from pybroker.security.sasl.client_login import ClientLogin
    from pybroker.security.sasl.login import Offer
    from pybroker.security.tls.listener import ListenerTls
    from pybroker.times.times import Times

logger = logging.getLogger(__name__)


class Membership(Protocol):
    """A broker's membership in its cluster."""

    @property
    def is_alone(self) -> bool:
        """Whether the broker is a cluster by itself."""


class Served(Protocol):
    """A broker that serves clients, as far as the API may reach it."""

    dispatcher: Dispatcher
    faults: Faults | None
    trail: Trail | None
    kept_clients: KeptClients
    log_manager: LogManager
    server: SocketServer
    config: BrokerConfig
    services: Services
    login: ClientLogin | None

    @property
    def membership(self) -> Membership:
        """The membership in the cluster."""


class HttpListeners:
    """Those of one broker. They respond from before the disks are opened on, while logs are recovered."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._node_id = BrokerId(-1)
        self._metrics: MetricsServer | None = None
        self._admin: AdminServer | None = None

    def start(
        self,
        config: BrokerConfig,
        metrics: BrokerMetrics,
        lifecycle: Lifecycle,
        secured: Sequence[Listener] = (),
        offers: Mapping[str, Offer] = MappingProxyType({}),
    ) -> None:
        """Listen where the settings name an address; `secured` have TLS, `offers` are of those where clients log in.

        Raises OSError that names the setting.
        """
        self._node_id = config.node_id
        contexts = {one.name: partial(_context, one.tls) for one in secured if one.tls is not None}
        if (address := config.metrics_address) is not None:
            self._metrics = server = _metrics_server(config, metrics, lifecycle)
            port = server.start(address.host, address.port, contexts.get(METRICS_NAME))
            logger.info("Metrics at %s/metrics", _url(address, port))
        if (address := config.admin_address) is not None:
            self._admin = admin = _admin_server(config, metrics, lifecycle, offers)
            lifecycle.admin_url = url = _url(address, admin.start(address.host, address.port, contexts.get(ADMIN_NAME)))
            logger.info("A page for people at %s/, its API at %s/v1/openapi.json", url, url)

    def open(self, broker: Served, bound: Sequence[BoundListener]) -> None:
        """Let the API, if there is one, reach what serves clients."""
        if self._admin is None:
            return
        from pybroker.admin.elsewhere import Elsewhere  # noqa: PLC0415  only a broker with this listener pays for the imports
        from pybroker.admin.inner import Inner  # noqa: PLC0415  as above
        from pybroker.admin.subject import Parts  # noqa: PLC0415
        from pybroker.broker.state import state_of  # noqa: PLC0415
        from pybroker.times.clock import BrokerClock  # noqa: PLC0415

        assert broker.faults is not None
        between = inter_broker_listener(broker.config)
        tls = next((one.tls for one in bound if one.name == between), None)
        parts = Parts(
            faults=broker.faults,
            trail=broker.trail,
            clock=BrokerClock(self._times.lanes),
            inner=Inner(broker.dispatcher.handle, bound),
            elsewhere=Elsewhere(services=broker.services, listener=between, tls=tls, login=broker.login),
            node_id=self._node_id,
            is_alone=broker.membership.is_alone,
            clients=broker.kept_clients,
            may=partial(_may, broker.services),
            state=lambda: state_of(broker.server, broker.config, bound),
            has_failed_directory=lambda: broker.log_manager.has_failed_directory,
        )
        self._admin.open(parts)

    def stop(self) -> None:
        """Close all sockets."""
        for listener in (self._metrics, self._admin):
            if listener is not None:
                listener.stop()


def _metrics_server(config: BrokerConfig, metrics: BrokerMetrics, lifecycle: Lifecycle) -> MetricsServer:
    from pybroker.metrics.http_server import MetricsServer  # noqa: PLC0415  only a broker with a metrics page pays for this

    token = config.pybroker_metrics_token
    return MetricsServer(metrics, _scope(config), why_not_ready=lambda: lifecycle.why_not_ready, token=token)


def _admin_server(config: BrokerConfig, metrics: BrokerMetrics, lifecycle: Lifecycle, offers: Mapping[str, Offer]) -> AdminServer:
    from pybroker.admin.server import AdminServer  # noqa: PLC0415  only a broker with this listener pays for the imports
    from pybroker.admin.subject import Subject  # noqa: PLC0415

    subject = Subject(loop=asyncio.get_running_loop(), why_not_ready=lambda: lifecycle.why_not_ready)
    logins = _logins(offers) if offers or config.authorizer_class_name else None
    return AdminServer(subject, config.pybroker_admin_token, logins, lambda: _pages(config, metrics))


def _url(address: HttpAddress, port: int) -> str:
    return f"{address.scheme}{host_and_port(address.host or 'localhost', port)}"


def _context(tls: ListenerTls) -> SSLContext:
    """Return the context of the next connection, from whatever thread."""
    return tls.context


def _logins(offers: Mapping[str, Offer]) -> Logins:
    from pybroker.admin.logins import Logins  # noqa: PLC0415  only where clients log in

    return Logins(offers.values())


async def _may(services: Services, principal: str, host: str, operation: AclOperation) -> bool:
    """Return whether a principal may do an operation on the cluster. Runs in the broker's loop."""
    from pybroker.security.acl.binding import CLUSTER_NAME, ResourceType  # noqa: PLC0415  as above

    authorizer = services.authorizer
    return authorizer is None or authorizer.allows(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def _pages(config: BrokerConfig, metrics: BrokerMetrics) -> MetricsPages:
    from pybroker.metrics.http_server import MetricsPages  # noqa: PLC0415  only a broker whose metrics are read pays for this

    return MetricsPages(metrics, _scope(config))


def _scope(config: BrokerConfig) -> Scope:
    from pybroker.metrics.exporter import Scope  # noqa: PLC0415  as above

    hidden = frozenset() if config.pybroker_metrics_internal_topics else INTERNAL_TOPICS
    return Scope(config.pybroker_metrics_topics, config.pybroker_metrics_groups, hidden)
