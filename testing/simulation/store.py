"""A metadata store whose entries outlive the process, and whose every commit can be the last operation.

`StoreContents` is what is durable; `SimulatedStore` is the store of a process on it. A commit calls `on_operation` twice: with
`commit` before it is durable, and with `committed` when it is durable but the caller does not know yet. In between, the commit is
present as a whole or not at all.

    contents = StoreContents()
    store = contents.open()
    contents.failures = 1        the next commit fails, and leaves nothing
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pybroker.metadata.store.base import Change, Entry, StoreError
from pybroker.metadata.store.memory import MemoryStore


class StoreContents:
    """The durable entries."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self.failures = 0
        self.on_operation: Callable[[str, str], None] | None = None

    def fork(self) -> StoreContents:
        """Return a copy, for a run in which the process ends here."""
        twin = StoreContents()
        twin.entries, twin.revision = dict(self.entries), self.revision
        return twin

    def open(self) -> SimulatedStore:
        """Open the store of a process that starts now."""
        return SimulatedStore(self)


class SimulatedStore(MemoryStore):
    """The store of a process, on contents that outlive it."""

    def __init__(self, contents: StoreContents) -> None:
        super().__init__(tuple(contents.entries.values()), contents.revision)
        self._contents = contents

    async def _persist(self, changes: Sequence[Change], revision: int) -> None:
        contents, keys = self._contents, ",".join(change.key for change in changes)
        await asyncio.sleep(0)  # real stores commit in a thread, so other tasks get a turn
        if contents.on_operation is not None:
            contents.on_operation("commit", keys)
        if contents.failures:
            contents.failures -= 1
            raise StoreError("the commit was made to fail")
        contents.revision = revision
        for key, value, _ in changes:
            if value is None:
                contents.entries.pop(key, None)
            else:
                contents.entries[key] = Entry(key, value, revision)
        if contents.on_operation is not None:
            contents.on_operation("committed", keys)
        await asyncio.sleep(0)
