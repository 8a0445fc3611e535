"""Where the cluster's metadata is kept: in memory, in a durable file, in etcd, or by another process of the machine.

base              the interface: revisions, conditional commits, watches
etcd              keeps the entries in etcd, which several brokers can share
renewal           a session that a remote store ends unless it is renewed in time
memory            keeps the entries as long as the process lives; the base of the durable store
shared            offers a store to other processes of the machine, and is the store of these
sqlite            keeps the entries in an SQLite file
sqlite_reserve    the room that the SQLite file holds for a full volume
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.metadata.store.base import StoreError

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.store.base import Store


def open_store(
    url: str,
    run: Callable[[Callable[[], None]], Awaitable[None]] | None = None,
    *,
    owner: str = "tool",
    on_lost: Callable[[], object] = lambda: None,
    config: BrokerConfig | None = None,
) -> Store:
    """Open `memory:`, `sqlite:PATH`, `unix:PATH` or `etcd:URL[,URL...]`.

    `run` runs the blocking writes of a file (`asyncio.to_thread`); None runs them inline. `owner` is the one that changes a
    store which others can reach. `on_lost` is called when this process must end, because another one has become the owner, or the
    connection to the store has ended for good. `config` has the user and the certificates for etcd. Only the chosen kind is
    imported. Raises StoreError for an unknown kind, and as `SqliteStore.open`.
    """
    if url == "memory:":
        from pybroker.metadata.store.memory import MemoryStore  # noqa: PLC0415  only the chosen kind

        return MemoryStore()
    kind, _, rest = url.partition(":")
    if kind == "sqlite" and rest:
        from pybroker.metadata.store.sqlite import SqliteStore, run_inline  # noqa: PLC0415  only the chosen kind

        return SqliteStore.open(Path(rest), run_inline if run is None else run)
    if kind == "unix" and rest:
        from pybroker.metadata.store.shared.store import SharedStore  # noqa: PLC0415  only the chosen kind

        return SharedStore(Path(rest), on_lost)
    if kind == "etcd":
        from pybroker.metadata.store.etcd.store import EtcdStore  # noqa: PLC0415  only the chosen kind

        return EtcdStore.at(rest, owner, on_lost, config)
    raise StoreError(f"metadata.store={url}: is unknown: it is 'memory:', 'sqlite:PATH', 'unix:PATH' or 'etcd:URL[,URL...]'")
