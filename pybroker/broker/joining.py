"""Opens the metadata store of a broker that starts, reads the cluster from it, and makes the broker a member.

A broker whose store no other one can use has only the entry of its life, in memory. The others have a `metadata.control`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.broker.alone import warning_of
from pybroker.broker.old_data import old_data, refusal_of, sqlite_path, why_not_start
from pybroker.broker.registration import (
    check_addresses,
    inter_broker_listener,
    refuse_address_of_another,
    registration,
    registration_in_cluster,
    warn_of_unresolved,
)
from pybroker.config.setting import ConfigError
from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories.claims import stored_cluster_id
from pybroker.log.directories.directory import LOCK_FILE
from pybroker.metadata.controller import Controller
from pybroker.metadata.member_entries import decode_session, session_key
from pybroker.metadata.members import BrokerSession
from pybroker.metadata.membership import end_predecessor, go_live, in_use
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import StoreError, UnreachableError
from pybroker.metadata.store.etcd.advice import advice_for
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.config.hosts import HostLookups
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.log.log import Log
    from pybroker.log.manager.manager import LogManager
    from pybroker.metadata.control import ClusterControl
    from pybroker.metadata.controllers import AskControllers
    from pybroker.metadata.image import ClusterImage
    from pybroker.metadata.store.base import Session, Store
    from pybroker.model import TopicPartition
    from pybroker.network.limits import BoundListener, Listener
    from pybroker.replication.peers import Peers
    from pybroker.security.sasl.client_login import ClientLogin

logger = logging.getLogger(__name__)

METADATA_STORE: Final = "metadata.store"
LOOK_S: Final = 0.2
"""The time between two looks at whether another process is still this broker."""


class StartError(Exception):
    """The broker cannot start; the text gives the reason, for a person."""


def opened_store(config: BrokerConfig, filesystem: Filesystem, on_lost: Callable[[], object]) -> Store:
    """Open the metadata store. Raises StartError, and creates nothing where a disk may be missing, and StoreError."""
    path = sqlite_path(config)
    if path is None:
        return open_store(config.metadata_store, owner=f"broker-{config.node_id}", on_lost=on_lost, config=config)
    if not Path(path).exists() and (found := old_data(config.log_dirs, filesystem)):
        raise StartError(refusal_of(path, found, filesystem))
    return open_store(f"sqlite:{path}", asyncio.to_thread)


async def read_cluster(store: Store, config: BrokerConfig, filesystem: Filesystem, hosts: HostLookups) -> Controller:
    """Return the controller, which has read the cluster from the store. Raises StartError for a new store beside logs of an
    older one, and StoreError.
    """
    reason = await why_not_start(store, config, filesystem)
    if reason is not None:
        await store.close()
        raise StartError(reason)
    if config.is_metadata_shared:
        await _refuse_second_process(store, config, filesystem)
    controller = Controller(store, config, broker_id=config.node_id, hosts=hosts)
    await controller.start(config.cluster_id or stored_cluster_id(config.log_dirs, filesystem))
    if config.is_metadata_shared and config.cluster_id not in {None, controller.image.cluster_id}:
        raise StoreError(
            f"cluster.id={config.cluster_id}: the metadata store {config.metadata_store} is that of the cluster "
            f"{controller.image.cluster_id}. Set cluster.id to that, or leave it out, or set metadata.store to another one"
        )
    if config.pybroker_scram_users is not None:
        from pybroker.broker.first_users import add_users  # noqa: PLC0415  only where there are some

        await add_users(controller, config.pybroker_scram_users)
    return controller


def start_error(config: BrokerConfig, error: Exception) -> StartError:
    """Return why a broker cannot start whose metadata store has this error; a store out of reach is named by its property."""
    if not isinstance(error, UnreachableError):
        return StartError(str(error))
    if METADATA_STORE in config.origins:
        advice = advice_for(str(error)) or f"Start etcd there, or correct {METADATA_STORE}"
        return StartError(f"{METADATA_STORE}={config.metadata_store}: {error}. {advice}, then start the broker again")
    return StartError(f"The controllers do not respond: {error}. Start a majority of them, then start the broker again")


async def _refuse_second_process(store: Store, config: BrokerConfig, filesystem: Filesystem) -> None:
    """Wait until no other process is this broker, for the time of a session at most; nothing is changed before.

    A process that died with the log directories of this one is not waited for. Raises StartError and StoreError.
    """
    own: set[str] = set()
    for path in config.log_dirs:
        try:
            filesystem.close(filesystem.lock(f"{path}/{LOCK_FILE}"))
            properties = checkpoint.read_meta_properties(filesystem, path)
        except BlockingIOError as error:
            raise StartError(
                f"Another process uses the log directory {path}, perhaps with the same settings: stop it, or name another "
                "directory in log.dirs"
            ) from error
        except (OSError, checkpoint.CorruptCheckpointError):
            continue  # the directory is new, or opening the logs shows what is wrong with it
        if properties is not None:
            own.add(properties.directory_id)
    now = asyncio.get_running_loop().time
    end = now() + config.broker_session_timeout_ms / 1000 + LOOK_S
    while (entry := await store.get(session_key(config.node_id))) is not None:
        life = decode_session(str(config.node_id), entry.value, entry.revision)
        if life.directory in own:
            return
        if now() > end:
            raise StoreError(in_use(config.node_id, life))
        await asyncio.sleep(LOOK_S)


def peers_of(controller: Controller, listeners: Sequence[Listener], login: ClientLogin | None) -> Peers:
    """Return the connections to the other brokers of a cluster, with the TLS that this broker's listener for them has, and a
    login if that listener wants one.
    """
    from pybroker.broker.peers import BrokerPeers  # noqa: PLC0415  only in a cluster

    name = inter_broker_listener(controller.static_config)
    return BrokerPeers.of(controller, next((one.tls for one in listeners if one.name == name), None), login)


def controllers_of(config: BrokerConfig) -> AskControllers | None:
    """Return how to ask the controllers that the settings name by their numbers; None where there are none."""
    if not config.controller_quorum_voters:
        return None
    from pybroker.quorum.members import numbered_voters  # noqa: PLC0415  a broker that is a cluster by itself imports nothing of it
    from pybroker.quorum.standing import standings  # noqa: PLC0415

    voters = numbered_voters(config)
    return partial(standings, voters) if voters else None


class Membership:
    """This broker's membership in its cluster, from the claim of its directories to the end of the stop."""

    def __init__(self, controller: Controller, store: Store, config: BrokerConfig, clock: Clock) -> None:
        """Prepare the membership. Raises ConfigError if other brokers could not know where this one listens."""
        self._controller, self._store, self._config, self._clock = controller, store, config, clock
        self._directories: list[str] = []
        self._log_dir = ""
        self._session: Session | None = None  # of a broker that is alone
        self._looking_up: asyncio.Task[None] | None = None
        self._full: set[LogDirectory] = set()
        self.control: ClusterControl | None = None
        """The part of the cluster; None for a broker that is alone."""
        if config.is_metadata_shared or controller.image.registered.keys() - {config.node_id}:
            if config.is_metadata_shared:  # before any change; a file is more likely that of a broker with another node.id
                check_addresses(config)
            from pybroker.metadata.control import ClusterControl  # noqa: PLC0415  a broker alone does not pay for it

            self.control = ClusterControl(controller, store)

    async def claimed(self, directories: Iterable[LogDirectory]) -> None:
        """End the life of a process before this one, when this one has the log directories. Raises StoreError."""
        known = [(one.properties.directory_id, one.absolute_path) for one in directories if one.properties is not None]
        self._directories = [directory_id for directory_id, _ in known]
        self._log_dir = known[0][1] if known else ""
        if self.control is not None:
            await end_predecessor(self._controller, self._directories)

    async def opened(self, logs: LogManager) -> None:
        """Lead nothing, and be in no ISR beside others with a log that may lack records; comes before logs are used.

        A log has all its records after a clean stop, and after a kill: the machine has what a process of this boot has written.
        Raises StoreError.
        """
        if self.control is None:
            return
        whole = {one for one in logs.directories if not one.is_offline and _is_whole(one, logs.came_back)}

        def is_complete(topic_partition: TopicPartition) -> bool:
            log = logs.get(topic_partition)
            return log is not None and log.log_directory in whole and not log.lost

        await self.control.step_aside(is_complete)
        for directory in logs.directories:  # only now: before, a start that failed would have made the next one complete
            if not directory.is_offline:
                try:
                    checkpoint.mark_boot(directory.filesystem, directory.path)
                except OSError as error:
                    directory.fail_pass(error)

    @property
    def is_alone(self) -> bool:
        """Whether there are no other brokers, and cannot be."""
        return self.control is None

    async def join(self, bound: Sequence[BoundListener]) -> None:
        """Make the broker live, with the addresses at which it listens, or change these. Raises StartError."""
        life = BrokerSession(
            directory=next(iter(self._directories), ""),
            host=socket.gethostname(),
            started_ms=self._clock.time_ms(),
            log_dir=self._log_dir,
        )
        try:
            if self.control is not None:
                registered = registration_in_cluster(self._config, bound)
                refuse_address_of_another(self._config, registered, self._controller.image.brokers)
                life = replace(life, address=host_and_port(*registered.endpoints[inter_broker_listener(self._config)]))
                await self.control.join(registered, life)
                if bound:  # a look-up may take seconds, for which no client waits
                    self._looking_up = asyncio.create_task(warn_of_unresolved(self._config, registered))
                return
            await self._controller.register_broker(registration(self._config, bound))
            if self._session is None:
                if (line := warning_of(self._config)) is not None:
                    logger.warning("%s", line)
                self._session = await go_live(self._controller, self._store, life, self._config)
        except (StoreError, ConfigError) as error:
            raise start_error(self._config, error) from error

    def see_room(self, logs: LogManager) -> bool:
        """Have other brokers lead the partitions of directories that are offline or full, which take no records. Returns whether
        other directories are so than at the look before.

        The logs of a directory that has become so leave all ISRs, so that no leader waits for them. Later looks give up those
        that this broker leads again, as the preferred replica.
        """
        full = {one for one in logs.directories if one.room.is_full or one.is_offline}
        before, self._full = self._full, full
        if full and self.control is not None:
            of_full = [log for log in logs.all_logs() if log.log_directory in full]
            image, broker_id = self._controller.image, self._config.node_id
            given = [log for log in of_full if log.log_directory not in before or _leads_beside(image, broker_id, log)]
            if given:
                self.control.give_up([log.topic_partition for log in given])
        return full != before

    async def leave(self) -> None:
        """Move leaders away, at the beginning of a stop."""
        self._store.hasten()
        if self.control is not None and self._config.controlled_shutdown_enable:
            await self.control.leave()

    async def close(self) -> None:
        """End the membership, at the end of a stop."""
        if self._looking_up is not None:
            self._looking_up.cancel()
        if self.control is not None:
            await self.control.close()


def _leads_beside(image: ClusterImage, broker_id: int, log: Log) -> bool:
    """Return whether a broker leads a partition that others could lead."""
    topic = image.topics.get(log.topic_partition.topic)
    if topic is None or log.topic_partition.partition >= len(topic.partitions):
        return False
    partition = topic.partitions[log.topic_partition.partition]
    return partition.leader == broker_id and len(partition.isr) > 1


def _is_whole(directory: LogDirectory, came_back: frozenset[str]) -> bool:
    """Return whether the logs of a directory have all that was written to them."""
    properties = directory.properties
    if properties is None or properties.directory_id in came_back:  # it was away, and others have more by now
        return False
    try:
        return directory.was_clean or checkpoint.is_of_this_boot(directory.filesystem, directory.path)
    except OSError:
        return False
