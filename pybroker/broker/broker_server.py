"""The composition root: builds every object of one broker, starts them from the disk up, and stops them in the reverse order.

Start
    The sockets are bound first, so that a broker whose address is taken touches nothing. Then come the metadata store, the logs
    (recovered where the last stop was unclean) and the partitions. The sockets listen last, so that a client that can connect is
    served. Then one line on standard output names the first one: `READY host:port`.

Stop
    Sockets first (requests in work get their responses), then the logs, each directory in its own thread, then the store. The
    marker of a clean stop is written last, and only where everything before it was reported to be on the disk. A disk that does
    not respond in `disks.DISK_GRACE_S` gets no marker and is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.api.context import Services
from pybroker.api.dispatch import Dispatcher
from pybroker.api.validations import Validations
from pybroker.broker import descriptors, gauges
from pybroker.broker.authorizing import authorizer_of
from pybroker.broker.coordinating import coordinate
from pybroker.broker.disks import Disks
from pybroker.broker.dynamic_settings import DynamicSettings, limits_by_address, limits_of_listeners, network_limits
from pybroker.broker.free_memory import watch_free_memory
from pybroker.broker.group_gauges import register_groups
from pybroker.broker.handling import as_configured, faults_of, handler_of, trail_of
from pybroker.broker.http_listeners import HttpListeners
from pybroker.broker.joining import Membership, StartError, controllers_of, opened_store, peers_of, read_cluster, start_error
from pybroker.broker.kept_clients import KeptClients
from pybroker.broker.leadership import renew_leader_epochs
from pybroker.broker.lifecycle import Lifecycle
from pybroker.broker.limiting import hold_to_quotas
from pybroker.broker.listening import TlsReload, bind_listeners, http_listeners_of, listeners_of
from pybroker.broker.logins import gates_of, login_of, offers_of, remove_expired_tokens
from pybroker.broker.passes import schedule_passes
from pybroker.broker.periodic import Periodic
from pybroker.broker.registration import advertised_of
from pybroker.broker.settling import settled
from pybroker.config.hosts import HostLookups, connection_limits
from pybroker.config.setting import ConfigError
from pybroker.config.topic import TopicConfig
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.directories.claims import InconsistentDirectoryError, LogDirectoryInUseError
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.long_work import CONVERSIONS, LongWork
from pybroker.metadata.directories import read_directories, write_directories
from pybroker.metadata.store.base import StoreError
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.network.memory_pool import MemoryPool
from pybroker.network.server import SocketServer
from pybroker.protocol.error_codes import KafkaError
from pybroker.purgatory.purgatory import Purgatory
from pybroker.replication.fetch_session import FetchSessionCache
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.sharing.background import Background
from pybroker.sharing.turns.watchdog import current
from pybroker.times.times import GROUPS, REQUESTS, TRANSACTIONS, Times

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pybroker.broker.replication import Replication
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.coordinator.service import GroupCoordinator
    from pybroker.coordinator.transaction.service import TransactionCoordinator
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import Trail
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.metadata.control import ClusterControl
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.metadata.store.base import Store
    from pybroker.model import TopicId, TopicPartition
    from pybroker.network.context import ConnectionContext
    from pybroker.network.limits import BoundListener
    from pybroker.replication.peers import Peers

logger = logging.getLogger(__name__)

STOP_GRACE_MS: Final = 2_500
STOP_PRODUCE_S: Final = 2.0  # the part of it for the disk, before clients that wait for the disk get REQUEST_TIMED_OUT
MOVE_PAUSE_S: Final = 0.002  # between two pieces of logs that are moved to another directory
MOVE_RESUME_S: Final = 30.0  # after the start, when groups are loaded


class BrokerServer:
    """One broker. Call `start` and `stop` once each, on a running event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        filesystem: Filesystem | None = None,
        lifecycle: Lifecycle | None = None,
        *,
        freeze: Callable[[], None] | None = None,
        times: Times | None = None,
        faults: Faults | None = None,
        trail: Trail | None = None,
    ) -> None:
        """Build what needs no disk. `filesystem` is where the log directories lie, for tests; the machine's by default.
        `times` has other times than that of `clock`, and `faults` and `trail` outlast the broker, for tests.

        A process that has only this broker gives `freeze`, which is called while groups are loaded, and has its memory watched.
        """
        self.config = config
        self.lifecycle = lifecycle or Lifecycle()
        self.filesystem = filesystem or Filesystem()
        self.times = times or Times(clock)
        self.clock = self.times.clock
        self.metrics = BrokerMetrics()
        self.failed = asyncio.Event()  # set when the broker cannot work any more
        self.stopping = asyncio.Event()  # set when the sockets take no new requests
        self.validations = Validations()
        self.conversions = LongWork("convert", CONVERSIONS)
        self.disks = Disks(self._count_bug)
        self.background = Background(self._count_bug)
        self._periodic = Periodic(self._count_bug, self.times.later)
        self._freeze = freeze
        self._held = ExitStack()  # what the broker holds of its process from the start to the stop
        self._http = HttpListeners(self.times)
        self.faults, self.trail = faults, trail
        self.replication: Replication | None = None  # None for a broker that is alone
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None

    async def start(self) -> list[BoundListener]:
        """Open everything and return the addresses at which the broker listens.

        Raises StartError, or OSError when an address cannot be bound.
        """
        self._listeners, self._http_listeners = listeners_of(self.config), http_listeners_of(self.config)
        sockets = await self._bind()
        try:
            self._share_descriptors()
            self.faults, self.trail = self.faults or faults_of(self.config), self.trail or trail_of(self.config)
            self.login = login_of(self.config)
            self._offers = await offers_of(self.config, lambda: self.controller.image, self.clock, self._held)
            self._http.start(self.config, self.metrics, self.lifecycle, self._http_listeners, self._offers)
            return await self._open(sockets)
        except BaseException:
            self._http.stop()
            self._held.close()
            for one in sockets:
                one.close()
            raise

    async def _bind(self) -> list[socket.socket]:
        return await bind_listeners(self.config, self._listeners)

    async def _open(self, sockets: Sequence[socket.socket]) -> list[BoundListener]:
        await self._open_metadata()
        self._build_replicas()
        await self._open_logs()
        self._follow_metadata()
        bound = await self._open_to_clients(sockets)
        self._schedule_passes()
        self._register_gauges()
        self.times.begin(partial(settled, self.disks, self.background))
        self._http.open(self, bound)
        return bound

    async def groups_loaded(self) -> None:
        """Wait until the groups of all partitions are loaded, or given up."""
        if self._groups is not None:
            loaded = asyncio.Event()
            self._groups.when_loaded(loaded.set)
            await loaded.wait()

    async def stop(self) -> None:
        """Complete the requests in work, close the sockets, make everything durable.

        Takes as long as the disks need for that, at most about `disks.DISK_GRACE_S` and 5 s.
        """
        if self.faults is not None:
            self.faults.close()
        await self.membership.leave()
        if self._transactions is not None:
            self._transactions.stop()
        if self._groups is not None:
            self._groups.stop()  # members that wait get their responses now, so the stop does not wait for them
        loop = asyncio.get_running_loop()
        loop.call_soon(self._complete_fetches)  # as soon as the connections take no new requests
        produces = loop.call_later(STOP_PRODUCE_S, self.replica_manager.produce_purgatory.complete_all)
        await self.server.stop(STOP_GRACE_MS)
        produces.cancel()
        self.validations.close()
        self.conversions.close()
        self._http.stop()
        self._periodic.stop()
        if self.replication is not None:
            self.replication.stop()
        self.background.stop()
        self.kept_clients.stop()
        self.timer.close()
        self._resume_moves.cancel()
        self.log_cleaner.stop()
        await self.controller.close()
        self.replica_manager.moves.release()
        await self.disks.close(self.log_manager, self.replica_manager.known_high_watermark)
        self._held.close()
        await self.membership.close()
        await self.store.close()

    def _complete_fetches(self) -> None:
        """Complete each waiting fetch with the available records. A produce that waits for the disk gets the disk's result."""
        self.stopping.set()
        self.replica_manager.fetch_purgatory.complete_all()

    # The steps of the start

    def _share_descriptors(self) -> None:
        try:
            limits = self.config.max_connections_per_ip_overrides
            by_address = connection_limits(limits)  # before anything is opened: a host without an address refuses the start
            limits_of_listeners(self.config)
        except ConfigError as error:
            raise StartError(str(error)) from error
        self.hosts = HostLookups({limits: by_address})
        self._held.enter_context(descriptors.held_share(self.config.max_connections))

    async def _open_metadata(self) -> None:
        """Open the store and read the cluster from it. Raises StartError."""
        try:
            self.store = self._open_store()
            self.controller = await read_cluster(self.store, self.config, self.filesystem, self.hosts)
            self.membership = Membership(self.controller, self.store, self.config, self.clock)
        except (StoreError, ConfigError) as error:
            raise start_error(self.config, error) from error
        self.config = self.controller.config  # with the dynamic settings of earlier runs

    def _open_store(self) -> Store:
        return opened_store(self.config, self.filesystem, self.failed.set)

    def _topic_config(self, topic: str) -> TopicConfig:
        image = self.controller.image.topics.get(topic)
        return TopicConfig.resolve(self.controller.config, {} if image is None else image.configs)

    def _build_replicas(self) -> None:
        """Create the objects that hold the logs and the partitions; nothing is opened yet."""
        config, loop = self.config, asyncio.get_running_loop()
        self.log_manager = LogManager(
            config.log_dirs,
            cluster_id=self.controller.image.cluster_id,
            node_id=config.node_id,
            services=self._log_services(),
            config_of=self._topic_config,
            filesystem=self.filesystem,
            on_directory_failure=self._on_directory_failure,
            thread_of=self.disks.thread_of,
            run_work=self.background.run,
        )
        _, self.timer = self.times.of(REQUESTS)
        self.replica_manager = ReplicaManager(
            broker_id=config.node_id,
            config=config,
            clock=self.clock,
            log_manager=self.log_manager,
            image=self.controller.image,
            metrics=self.metrics,
            fetch_purgatory=Purgatory("Fetch", self.timer, config.fetch_purgatory_purge_interval_requests),
            timer=self.timer,
            later=lambda work: loop.call_later(MOVE_PAUSE_S, work),
        )

    async def _open_logs(self) -> None:
        """Claim the directories and open the logs in them, in the order in which a crash does no harm. Raises StartError."""
        store, logs, broker_id = self.store, self.log_manager, self.config.node_id
        try:
            claims = logs.claim(await read_directories(store, broker_id))
            await write_directories(store, broker_id, claims.known.values())  # before anything is written to a new one
            await self.membership.claimed(logs.directories)
            logs.start(self._topic_id_of)
            await self.membership.opened(logs)
            self.lifecycle.room_changed(has_room=logs.has_room)
            await renew_leader_epochs(self.controller, logs)
            # After a crash before this line, the next start reports again which directories came back.
            await write_directories(store, broker_id, claims.settled())
        except (LogDirectoryInUseError, InconsistentDirectoryError, KafkaError, StoreError) as error:
            raise start_error(self.config, error) from error

    def _follow_metadata(self) -> None:
        """Lead the partitions that the metadata has, and follow its changes from now on. Raises StartError."""
        self.replica_manager.start(self.controller.image)
        if self.failed.is_set():
            raise StartError("No log directory works; the log gives the reasons")
        self.controller.subscribe(self.replica_manager.follow, self.replica_manager.prepare)
        self.controller.subscribe(self._forget_metrics)
        if self.membership.control is not None:
            self._replicate(self.membership.control)
        coordinate(self.controller, self._coordinate_groups, self._coordinate_transactions, self.membership.control)

    def _replicate(self, control: ClusterControl) -> None:
        from pybroker.broker.replication import replicate  # noqa: PLC0415  only in a cluster

        self.replication = replicate(control, self.controller, self.replica_manager, self._make_peers(), self._periodic)

    def _make_peers(self) -> Peers:
        return peers_of(self.controller, self._listeners, self.login)

    def _topic_id_of(self, topic_partition: TopicPartition) -> TopicId | None:
        """Return the id of the partition's topic; None when the metadata has no such partition."""
        topic = self.controller.image.topics.get(topic_partition.topic)
        return None if topic is None or topic_partition.partition >= len(topic.partitions) else topic.topic_id

    def _coordinate_groups(self) -> GroupCoordinator:
        """Return the coordinator, made at the start if there were groups before, else for the first request about a group."""
        if self._groups is None:
            from pybroker.coordinator.service import GroupCoordinator  # noqa: PLC0415  a tenth of a start

            clock, timer = self.times.of(GROUPS)
            self._groups = GroupCoordinator(
                self.controller.config,
                clock=clock,
                timer=timer,
                replicas=self.replica_manager,
                controller=self.controller,
                call_soon=asyncio.get_running_loop().call_soon,
                freeze=self._freeze,
            )
            self.controller.subscribe(self._groups.apply_image)
            self._groups.start()
        return self._groups

    def _coordinate_transactions(self) -> TransactionCoordinator:
        """Return the coordinator, made at the start if there were transactions before, else for the first request about one."""
        if self._transactions is None:
            from pybroker.coordinator.transaction.service import TransactionCoordinator  # noqa: PLC0415  only where it is used

            clock, timer = self.times.of(TRANSACTIONS)
            self._transactions = TransactionCoordinator(
                self.controller.config,
                clock=clock,
                timer=timer,
                replicas=self.replica_manager,
                controller=self.controller,
                groups=self._coordinate_groups,
                call_soon=asyncio.get_running_loop().call_soon,
                freeze=self._freeze,
                peers=None if self.replication is None else self.replication.peers,
            )
            self.controller.subscribe(self._transactions.apply_image)
            self._transactions.start()
        return self._transactions

    async def _open_to_clients(self, sockets: Sequence[socket.socket]) -> list[BoundListener]:
        """Open the sockets. Raises StartError and OSError, after everything was closed again."""
        try:
            return await self._open_sockets(sockets)
        except (OSError, StartError):  # an address in use is no reason to recover the logs at the next start
            await self.membership.close()
            await self.disks.close(self.log_manager, self.replica_manager.known_high_watermark)
            await self.store.close()
            raise

    def _make_dispatcher(self) -> None:
        """Make what serves requests, apart from the sockets."""
        config = self.config
        self.memory_pool = MemoryPool(config.queued_max_request_bytes, self.clock)
        self.fetch_sessions = FetchSessionCache(
            self.clock,
            slots_max=config.max_incremental_fetch_session_cache_slots,
            partitions_max=config.pybroker_fetch_session_cache_partitions,
            session_max=config.pybroker_request_elements_max,
        )
        self.services = Services(
            config=config,
            clock=self.clock,
            metrics=self.metrics,
            controller=self.controller,
            replica_manager=self.replica_manager,
            fetch_sessions=self.fetch_sessions,
            make_groups=self._coordinate_groups,
            make_transactions=self._coordinate_transactions,
            authorizer=authorizer_of(config, self.controller, self._contexts),
            peers=None if self.replication is None else self.replication.peers,
            ask_controllers=controllers_of(config),
            validations=self.validations,
            conversions=self.conversions,
        )
        self.dispatcher = Dispatcher(self.services)
        hold_to_quotas(self.services, self.dispatcher, self._contexts)
        self.handler = handler_of(as_configured(self.dispatcher.handle, config), self, self.faults, self.trail, self.times.lanes)

    def _contexts(self) -> Iterable[ConnectionContext]:
        """Return the connections; none before the sockets are open, when quotas and ACLs may change already."""
        return [one.context for one in self.server.connections()] if hasattr(self, "server") else ()

    async def _open_sockets(self, sockets: Sequence[socket.socket]) -> list[BoundListener]:
        config = self.config
        self._make_dispatcher()
        by_peer = advertised_of(config)
        self.server = SocketServer(
            self._listeners,
            self.handler,
            self.memory_pool,
            network_limits(config, await limits_by_address(config, self.hosts)),
            address_for=None if by_peer is None else by_peer.address_for,
            conversions=self.conversions,
            on_lost=self.services.clients.lost,
            may_connect=lambda host: self.services.usage is None or self.services.usage.may_connect(host),
            gates=gates_of(self._offers, self.handler, lambda: self.controller.config, self.clock),
        )
        self.tls = TlsReload([*self._listeners, *self._http_listeners])
        self.tls.configure(config)
        self.tls.begin(self._periodic)
        self.controller.check = self.tls.check
        self.controller.subscribe(DynamicSettings(self.controller, self.services, self.replica_manager, self.server, self.tls))
        if self.membership.is_alone:
            await self.membership.join([])
            await self._before_sockets()
        bound = await self.server.start(sockets)
        await self.membership.join(bound)
        if not self.membership.is_alone:
            await self._before_sockets()
        if by_peer is not None:
            for line in by_peer.warnings(bound):
                logger.warning("%s", line)
            for line in by_peer.lines(bound):
                logger.info("%s", line)
        return bound

    async def _before_sockets(self) -> None:
        if (reason := await self.lifecycle.before_sockets(self.controller)) is not None:
            raise StartError(reason)

    def _schedule_passes(self) -> None:
        logs, replicas = self.log_manager, self.replica_manager
        schedule_passes(self._periodic, config=self.config, clock=self.clock, logs=logs, replicas=replicas, on_room=self.see_room)
        remove_expired_tokens(self.controller, self.clock, self._periodic)
        self.kept_clients = KeptClients(self.services.clients, self.server, logs, self.background.run, self._periodic)
        self.log_cleaner = LogCleaner(
            logs,
            config=lambda: self.controller.config,
            high_watermark=replicas.high_watermark,
            later=self.times.later,
            run=self.background.run,
            thread_of=self.disks.helper,
            on_bug=self._count_bug,
        )
        self.log_cleaner.start()
        self.free_memory = None if self._freeze is None else watch_free_memory(self._periodic, self.clock)
        self._resume_moves = asyncio.get_running_loop().call_later(MOVE_RESUME_S, replicas.moves.resume)

    def _register_gauges(self) -> None:
        metrics, logs = self.metrics, self.log_manager
        gauges.register_native_parts(metrics)
        gauges.register_log(metrics)
        gauges.register_turns(metrics, current())
        gauges.register_network(metrics, self.server)
        gauges.register_free_memory(metrics, self.free_memory)
        gauges.register_replicas(metrics, self.replica_manager, self.fetch_sessions, lambda: self.replication)
        timeout_ms_max = self.config.transaction_max_timeout_ms
        gauges.register_transactions(metrics, lambda: self._transactions, logs, self.clock, timeout_ms_max=timeout_ms_max)
        register_groups(metrics, lambda: self._groups, self.replica_manager)
        gauges.register_directories(metrics, logs)
        gauges.register_logs(metrics, logs, self.log_cleaner)
        gauges.register_cluster(metrics, self.controller, lambda: self.membership.control)

    def _forget_metrics(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> Iterator[None] | None:
        return self.metrics.forget_topics([topic.name for topic in delta.removed]) if delta.removed else None

    # Threads and disks

    def _count_bug(self) -> None:
        self.metrics.unexpected_errors += 1

    def _log_services(self) -> LogServices:
        return LogServices(
            clock=self.clock,
            recovery_threads=self.config.num_recovery_threads_per_data_dir,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            inflation_max=self.config.pybroker_produce_inflation_max,
        )

    def _on_directory_failure(self, directory: LogDirectory) -> None:
        """Take the partitions of a broken disk offline; stop the broker when no disk is left. At the start there is none yet."""
        if logs := [log for log in self.log_manager.all_logs() if log.log_directory is directory]:
            self.background.run(f"failure of {directory.path}", self.replica_manager.follow_failure(logs))
        if self.log_manager.is_dead:
            logger.critical("No log directory works any more; the broker stops")
            self.failed.set()
        elif all(one.is_offline for one in self.log_manager.directories):
            logger.critical("No log directory has room: clients can only delete topics; delete some, then start the broker again")
        self.see_room()

    def see_room(self) -> None:
        """Take notice that log directories have become full, or have room again."""
        self.lifecycle.room_changed(has_room=self.log_manager.has_room)
        if self.membership.see_room(self.log_manager) and self.replication is not None:
            self.replication.look_again()
