"""A copy of all files of a broker, as they are at one moment; the broker that starts with it recovers, as after a crash.

The metadata of a cluster is in memory, so its snapshot has a copy of that too.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pybroker.metadata.store.base import Change, Entry
from pybroker.metadata.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence


class Snapshot:
    """A copy within the directory of a broker, which goes with that. Made while the broker does nothing."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._data = directory, directory / "data"
        self._copy = Path(tempfile.mkdtemp(prefix="snapshot-", dir=directory))
        shutil.copytree(self._data, self._copy, dirs_exist_ok=True)

    def check_is_of(self, directory: Path) -> None:
        """Raise ValueError for a snapshot of another broker, before this one is stopped for it."""
        if directory != self._directory:
            raise ValueError("the snapshot is of another broker, and only that one can be restored from it")

    def put_back(self) -> None:
        """Put the copy in the place of the files, while the broker does not run. The copy stays, for further times."""
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)


class ClusterSnapshot(NamedTuple):
    """A copy of the files of all brokers, and of their metadata."""

    files: Snapshot
    entries: tuple[Entry, ...]
    revision: int


class KeptStore(MemoryStore):
    """A store in memory that knows which entries outlast the sessions of brokers."""

    def __init__(self, entries: Sequence[Entry] = (), revision: int = 0) -> None:
        super().__init__(entries, revision)
        self._kept = {entry.key: entry for entry in entries}

    def snapshot(self, files: Snapshot) -> ClusterSnapshot:
        """Return a copy of the entries beside that of the files."""
        return ClusterSnapshot(files, tuple(self._kept.values()), self._revision)

    async def _persist(self, changes: Sequence[Change], revision: int) -> None:
        for key, value, _ in changes:
            if value is None:
                self._kept.pop(key, None)
            else:
                self._kept[key] = Entry(key, value, revision)
