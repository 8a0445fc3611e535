"""Where the cluster's metadata is kept: in memory or in a durable file.

base              the interface: revisions, conditional commits, watches
memory            keeps the entries as long as the process lives; the base of the durable store
sqlite            keeps the entries in an SQLite file
sqlite_reserve    the room that the SQLite file holds for a full volume
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.metadata.store.base import StoreError

if TYPE_CHECKING:
    from pybroker.metadata.store.base import Store


def open_store(url: str, run: Callable[[Callable[[], None]], Awaitable[None]] | None = None) -> Store:
    """Open `memory:` or `sqlite:PATH`.

    `run` runs a durable store's blocking writes (`asyncio.to_thread`); None runs them inline. Only the chosen kind is
    imported. Raises StoreError for an unknown kind, and as `SqliteStore.open`.
    """
    if url == "memory:":
        from pybroker.metadata.store.memory import MemoryStore  # noqa: PLC0415  only the chosen kind

        return MemoryStore()
    kind, _, rest = url.partition(":")
    if kind == "sqlite" and rest:
        from pybroker.metadata.store.sqlite import SqliteStore, run_inline  # noqa: PLC0415  only the chosen kind

        return SqliteStore.open(Path(rest), run_inline if run is None else run)
    raise StoreError(f"unknown metadata store {url!r}: it is 'memory:' or 'sqlite:PATH'")
