"""Files and directories of the simulated disk, each as programs see it and as a loss of power would leave it.

A file `data` is what every read returns (the page cache), `durable` is what the disk has, and `pending` has the writes and cuts
since the last fsync, in order. An fsync applies `pending` to `durable`. A failed fsync drops `pending`, because Linux marks the
pages clean: the data can be read until the crash, and the next fsync succeeds without it.

A directory `entries` is what programs see, `durable` is what the disk has. The difference is a series of `Change`s, which the
disk keeps in one list: names that were made, removed or renamed. An fsync of the directory makes its changes durable; an fsync of
a file does nothing for its name.

After a crash Without a source of chance (`None`), everything that was not synced is lost. With a `Random`, every file keeps some
of its pending writes: none, all, a prefix with a torn end, or any sectors, where the rest is zeros or the previous content. Some
of the changes of names are kept: none, all, a prefix, or any set without a change that needs a lost change. Changes of the same
name or file keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

SECTOR: Final = 512


@dataclass(slots=True, frozen=True)
class Write:
    """A write of `data` at `position`."""

    position: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        gap = self.position - len(content)
        if gap > 0:
            content += bytes(gap)
        content[self.position : self.position + len(self.data)] = self.data


@dataclass(slots=True, frozen=True)
class Cut:
    """A change of the file's size, by which the file may also grow."""

    size: int

    def apply(self, content: bytearray) -> None:
        if self.size < len(content):
            del content[self.size :]
        else:
            content += bytes(self.size - len(content))


@dataclass(slots=True)
class Volume:
    """A device with its capacity. `used` counts the bytes of the files that have a name."""

    capacity: int = 1 << 40
    used: int = 0

    @property
    def free(self) -> int:
        return max(self.capacity - self.used, 0)


class FileNode:
    """A file, whatever its names. `links` counts the names; `lock` is the descriptor that holds the exclusive lock."""

    __slots__ = ("data", "durable", "links", "lock", "modified_ms", "pending", "volume")

    def __init__(self, volume: Volume, modified_ms: int) -> None:
        self.volume = volume
        self.modified_ms = modified_ms
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[Write | Cut] = []
        self.links = 0
        self.lock: int | None = None

    def change(self, operation: Write | Cut, modified_ms: int) -> None:
        """Change the file as programs see it; the change is durable after the next `sync`."""
        before = len(self.data)
        operation.apply(self.data)
        self.pending.append(operation)
        self.modified_ms = modified_ms
        if self.links:
            self.volume.used += len(self.data) - before

    def sync(self) -> None:
        for operation in self.pending:
            operation.apply(self.durable)
        self.pending.clear()

    def lose_pending(self) -> None:
        """Drop the pending writes, as a failed fsync does."""
        self.pending.clear()

    def crash(self, random: Random | None) -> None:
        """Become what the disk has after a loss of power."""
        if random is not None and self.pending:
            _keep_some(self.durable, self.pending, random)
        self.pending.clear()
        self.data = bytearray(self.durable)
        self.lock = None


class DirectoryNode:
    """A directory. Its changes since the last fsync are in the disk's list."""

    __slots__ = ("durable", "entries", "volume")

    def __init__(self, volume: Volume) -> None:
        self.volume = volume
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = FileNode | DirectoryNode


class Change:
    """An operation on names. Each of `steps` is a directory, a name, and the node that the name now means."""

    __slots__ = ("nodes", "steps")

    def __init__(self, steps: list[tuple[DirectoryNode, str, Node | None]], nodes: list[Node]) -> None:
        """Note the operation. `nodes` are the nodes whose names change, including those that lose a name."""
        self.steps = steps
        self.nodes = nodes

    def touches(self, directory: DirectoryNode) -> bool:
        return any(step[0] is directory for step in self.steps)

    def apply(self) -> None:
        """Make the change durable."""
        for directory, name, node in self.steps:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node

    def keys(self) -> set[object]:
        """Return the names and nodes by which a later change may depend on this change."""
        return {(id(directory), name) for directory, name, _ in self.steps} | {id(node) for node in self.nodes}


def kept_changes(changes: list[Change], random: Random | None) -> list[Change]:
    """Return those of the changes, given in their order, that a crash leaves."""
    if random is None:
        return []
    style = random.randrange(4)
    if style == 0:
        return []
    if style == 1:
        return changes
    if style == 2:
        return changes[: random.randint(0, len(changes))]
    share = random.choice((0.3, 0.7, 0.95))
    kept: list[Change] = []
    lost: set[object] = set()
    for change in changes:
        keys = change.keys()
        if random.random() < share and lost.isdisjoint(keys):
            kept.append(change)
        else:
            lost |= keys
    return kept


def _keep_some(durable: bytearray, pending: list[Write | Cut], random: Random) -> None:
    style = random.randrange(4)
    if style == 0:
        return
    if style == 1:
        for operation in pending:
            operation.apply(durable)
    elif style == 2:
        count = random.randrange(len(pending))
        for operation in pending[:count]:
            operation.apply(durable)
        torn = pending[count]
        if isinstance(torn, Write):
            Write(torn.position, torn.data[: random.randint(0, len(torn.data))]).apply(durable)
    else:
        _keep_sectors(durable, pending, random)


def _keep_sectors(durable: bytearray, pending: list[Write | Cut], random: Random) -> None:
    """Apply any sectors of the writes, in order. The size may be ahead of the data; the gap is then zeros."""
    share = random.choice((0.2, 0.5, 0.9))
    size = 0
    for operation in pending:
        if isinstance(operation, Cut):
            if random.random() < share:
                operation.apply(durable)
            continue
        size = max(size, operation.position + len(operation.data))
        for start, end in _sectors(operation.position, len(operation.data)):
            if random.random() < share:
                Write(start, operation.data[start - operation.position : end - operation.position]).apply(durable)
    if random.random() < 0.3 and size > len(durable):
        Cut(size).apply(durable)


def _sectors(position: int, length: int) -> list[tuple[int, int]]:
    """Cut the range where sectors begin."""
    starts = [position, *range(position - position % SECTOR + SECTOR, position + length, SECTOR)]
    return list(zip(starts, [*starts[1:], position + length], strict=True))
