"""Opens the metadata store of a broker that starts, and reads the cluster from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.broker.old_data import old_data, refusal_of, sqlite_path, why_not_start
from pybroker.broker.registration import refuse_other_brokers
from pybroker.log.directories.claims import stored_cluster_id
from pybroker.metadata.controller import Controller
from pybroker.metadata.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.config.broker import BrokerConfig
    from pybroker.config.hosts import HostLookups
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.metadata.store.base import Store


class StartError(Exception):
    """The broker cannot start; the text gives the reason, for a person."""


def opened_store(config: BrokerConfig, filesystem: Filesystem, on_lost: Callable[[], object]) -> Store:
    """Open the metadata store. Raises StartError, and creates nothing where a disk may be missing, and StoreError."""
    path = sqlite_path(config)
    if path is None:
        return open_store(config.metadata_store, owner=f"broker-{config.node_id}", on_lost=on_lost)
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
    controller = Controller(store, config, broker_id=config.node_id, hosts=hosts)
    await controller.start(config.cluster_id or stored_cluster_id(config.log_dirs, filesystem))
    refuse_other_brokers(controller.image, config)
    return controller
