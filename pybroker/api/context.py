"""The context of a request handler: the broker's services, and where the request came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.api.validations import Validations
from pybroker.clients.clients import Clients
from pybroker.long_work import CONVERSIONS, LongWork
from pybroker.sharing.turns.exceptions import FIRST_GROUPS
from pybroker.sharing.turns.jobs import job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.coordinator.service import GroupCoordinator
    from pybroker.coordinator.transaction.service import TransactionCoordinator
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.controllers import AskControllers
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.network.context import ConnectionContext
    from pybroker.replication.fetch_session import FetchSessionCache
    from pybroker.replication.peers import Peers
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.security.acl.authorizer import Authorizer
    from pybroker.security.quotas.usage import Usage

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may produce to internal topics."""


@dataclass(slots=True, kw_only=True)
class Services:
    """The services of one broker, built by the composition root; the same for every request.

    Every handler gets all of them, under the name `broker`, because for a handler they are the broker: `broker.config` is
    the broker's configuration, `broker.groups` its coordinator of groups. The dispatcher calls all handlers in the same
    way. A handler's own functions get `broker` too, as a rule: which services they need is their matter, and those made
    when they are first needed must not be named before. Layers below `api` get only the services that they use.

    `config` is the configuration in force: another object after a change of a dynamic setting. `authorizer` decides what
    a client may do; None: everything. `usage` holds clients to their quotas; None: the cluster has no quota. `peers` are the
    other brokers of the cluster, None for a broker that is alone. `ask_controllers` is None where the settings number no
    controllers.
    """

    config: BrokerConfig
    clock: Clock
    metrics: BrokerMetrics
    controller: Controller
    replica_manager: ReplicaManager
    fetch_sessions: FetchSessionCache
    make_groups: Callable[[], GroupCoordinator]
    make_transactions: Callable[[], TransactionCoordinator]
    authorizer: Authorizer | None = None
    usage: Usage | None = None
    peers: Peers | None = None
    ask_controllers: AskControllers | None = None
    validations: Validations = field(default_factory=Validations)
    conversions: LongWork = field(default_factory=lambda: LongWork("convert", CONVERSIONS))
    clients: Clients = field(init=False)
    _groups: GroupCoordinator | None = field(default=None, init=False)
    _transactions: TransactionCoordinator | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin to count clients."""
        self.clients = Clients(self.clock.time_ms)

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups, made when it is first needed: a broker without groups does not pay for it."""
        if self._groups is None:
            with job(FIRST_GROUPS):
                self._groups = self.make_groups()
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions, made when it is first needed, as that of groups is."""
        if self._transactions is None:
            self._transactions = self.make_transactions()
        return self._transactions


class RequestContext(NamedTuple):
    """One request. `connection` outlives it; the rest is from the request's header."""

    connection: ConnectionContext
    api_version: int
    correlation_id: int
    client_id: str | None
