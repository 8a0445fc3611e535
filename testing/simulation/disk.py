"""A disk in memory that knows what is durable: a `Filesystem` for tests in which every operation can be the last.

    disk = SimulatedDisk(clock)
    ...                          the log works on it
    after = disk.fork()          the same disk, for a run in which the process ends here
    after.kill()                 only the process died: everything that was written is there
    after.crash(Random(1))       the power failed: data that was not synced may be lost; see `nodes`

Each operation is counted and noted in `operations`; `on_operation` is called before it happens, and `faults` can make it fail. A
composed operation, such as writing a whole file or removing a tree, counts as the operations that the system would do.
`between_operations` is called before each of these, where a thread of a real machine could be interrupted.

The disk can have several devices. `detach(path)` takes a directory's tree away and leaves an empty directory, as when the device
is not mounted; `attach` brings the tree back. `limit(path, bytes)` makes a directory a device of that size. A dead device is a
`Fault` without end.

The model leaves out owners and permissions, symbolic links, access times, and an fsync that also orders other writes.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from pybroker.log.files.filesystem import Filesystem, WriteBuffer
from pybroker.log.files.open_files import OPEN_FILES
from testing.simulation.faults import SHORT, Fault
from testing.simulation.nodes import Change, Cut, DirectoryNode, FileNode, Node, Volume, Write, kept_changes

if TYPE_CHECKING:
    from pybroker.clock import Clock

NAME_BYTES_MAX = 255


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


@dataclass(slots=True)
class _OpenFile:
    node: FileNode
    path: str
    is_writable: bool


@dataclass(slots=True, frozen=True)
class SimulatedEntry:
    """An entry that `list` returns: the part of `os.DirEntry` that the log uses."""

    name: str
    path: str
    is_directory: bool
    size: int = 0

    def is_dir(self) -> bool:
        return self.is_directory

    def is_file(self) -> bool:
        return not self.is_directory


class SimulatedDisk(Filesystem):
    """A disk in memory that knows what is durable. Paths are absolute."""

    keeps_reserves = False
    is_concurrent = False  # the operations have the same order in every run
    __slots__ = (
        "_away",
        "_changes",
        "_clock",
        "_next_fd",
        "_open",
        "_root",
        "between_operations",
        "boots",
        "count",
        "descriptors_max",
        "faults",
        "on_operation",
        "operations",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._root = DirectoryNode(Volume())
        self._changes: list[Change] = []
        self._away: dict[str, DirectoryNode] = {}
        self._open: dict[int, _OpenFile] = {}
        self._next_fd = 1000
        self.descriptors_max = 1 << 20
        self.faults: list[Fault] = []
        self.between_operations: Callable[[], None] | None = None
        self.on_operation: Callable[[str, str], None] | None = None
        self.operations: deque[str] = deque(maxlen=400)
        self.count = 0
        self.boots = 1

    # --- controls of the tests ---

    def fork(self, clock: Clock | None = None) -> SimulatedDisk:
        """Return a copy of the disk, of what programs see and what is durable, without open files, faults and `on_operation`."""
        twin = SimulatedDisk(self._clock if clock is None else clock)
        copies: dict[int, Any] = {}

        def copy_volume(volume: Volume) -> Volume:
            if id(volume) not in copies:
                copies[id(volume)] = Volume(volume.capacity, volume.used)
            return copies[id(volume)]

        def copy(node: Node) -> Any:
            found = copies.get(id(node))
            if found is not None:
                return found
            if isinstance(node, FileNode):
                file = copies[id(node)] = FileNode(copy_volume(node.volume), node.modified_ms)
                file.data, file.durable, file.pending = bytearray(node.data), bytearray(node.durable), list(node.pending)
                file.links = node.links
                return file
            directory = copies[id(node)] = DirectoryNode(copy_volume(node.volume))
            directory.entries = {name: copy(one) for name, one in node.entries.items()}
            directory.durable = {name: copy(one) for name, one in node.durable.items()}
            return directory

        twin._root = copy(self._root)
        twin._away = {path: copy(device) for path, device in self._away.items()}
        twin._changes = [
            Change(
                [(copy(d), name, None if node is None else copy(node)) for d, name, node in one.steps], list(map(copy, one.nodes))
            )
            for one in self._changes
        ]
        twin.operations.extend(self.operations)
        twin.count, twin.boots = self.count, self.boots
        twin.descriptors_max = self.descriptors_max
        return twin

    def set_clock(self, clock: Clock) -> None:
        """Take the times of files from this clock from now on."""
        self._clock = clock

    def kill(self) -> None:
        """Kill the process: drop its descriptors and locks, and keep everything that it wrote."""
        for fd in list(self._open):
            self.close(fd)

    def crash(self, random: Random | None = None) -> None:
        """Cut the power. Without `random`, everything that was not synced is lost."""
        for fd in list(self._open):
            self.close(fd)
        self.boots += 1
        for change in kept_changes(self._changes, random):
            change.apply()
        self._changes.clear()
        seen: set[int] = set()
        for volume in self._volumes():
            volume.used = 0
        self._recall(self._root, random, seen)

    def _recall(self, directory: DirectoryNode, random: Random | None, seen: set[int]) -> None:
        directory.entries = dict(directory.durable)
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, DirectoryNode):
                self._recall(node, random, seen)
            elif id(node) not in seen:
                seen.add(id(node))
                node.crash(random)
                node.links = 1
                node.volume.used += len(node.data)
            else:
                node.links += 1

    def _volumes(self) -> list[Volume]:
        found: dict[int, Volume] = {}

        seen: set[int] = set()

        def look(node: Node) -> None:
            if id(node) in seen:
                return
            seen.add(id(node))
            found[id(node.volume)] = node.volume
            if isinstance(node, DirectoryNode):
                for one in (*node.entries.values(), *node.durable.values()):
                    look(one)

        look(self._root)
        return list(found.values())

    def sync_all(self) -> None:
        """Make everything durable, as a real system does within some idle minutes."""
        for change in self._changes:
            change.apply()
        self._changes.clear()
        self._sync_below(self._root)

    def _sync_below(self, directory: DirectoryNode) -> None:
        for node in directory.entries.values():
            if isinstance(node, DirectoryNode):
                self._sync_below(node)
            else:
                node.sync()

    def limit(self, path: str, capacity: int) -> None:
        """Make the directory, which must be empty, a device of `capacity` bytes."""
        node = self._directory(path)
        assert not node.entries, path
        node.volume = Volume(capacity)

    def detach(self, path: str) -> None:
        """Take the device at `path` away, after making everything on it durable, and leave an empty directory."""
        assert path not in self._away, path
        self.sync_all()
        parent, name = self._parent(path)
        self._away[path] = self._directory(path)
        parent.entries[name] = parent.durable[name] = DirectoryNode(parent.volume)

    def attach(self, path: str) -> None:
        """Bring the device back; it hides whatever was put below `path` in the meantime."""
        parent, name = self._parent(path)
        parent.entries[name] = parent.durable[name] = self._away.pop(path)

    @property
    def away(self) -> tuple[str, ...]:
        """The devices that are detached."""
        return tuple(self._away)

    def unsynced(self) -> list[str]:
        """List, for messages, the names that a loss of power may take back and the files whose bytes it may lose."""
        found = [f"{name}" for change in self._changes for _, name, _ in change.steps]

        def look(directory: DirectoryNode, path: str) -> None:
            for name, node in directory.entries.items():
                if isinstance(node, DirectoryNode):
                    look(node, f"{path}/{name}")
                elif node.pending:
                    found.append(f"{path}/{name}")

        look(self._root, "")
        return found

    # --- the steps of every operation ---

    def _pause(self) -> None:
        """Let other threads run, before anything is looked up that they may change."""
        if self.between_operations is not None:
            self.between_operations()

    def _operate(self, kind: str, path: str) -> bool:
        """Count and note the operation, and return whether a write must be short. Raises the error of the fault that strikes."""
        self.count += 1
        self.operations.append(f"{self.count} {kind} {path}")
        if self.on_operation is not None:
            self.on_operation(kind, path)
        for fault in self.faults:
            if fault.strikes(kind, path):
                if fault.error == SHORT:
                    return True
                self.operations.append(f"{self.count} {kind} {path} fails: {errno.errorcode[fault.error]}")
                raise _error(fault.error, path)
        return False

    def _find(self, path: str) -> Node | None:
        node: Node = self._root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(node, DirectoryNode):
                raise _error(errno.ENOTDIR, path)
            if len(name.encode()) > NAME_BYTES_MAX:
                raise _error(errno.ENAMETOOLONG, path)
            found = node.entries.get(name)
            if found is None:
                return None
            node = found
        return node

    def _node(self, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._node(path)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._node(path)
        if not isinstance(node, DirectoryNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        if len(name.encode()) > NAME_BYTES_MAX:
            raise _error(errno.ENAMETOOLONG, path)
        return self._directory(head), name

    def _name(self, steps: list[tuple[DirectoryNode, str, Node | None]], nodes: list[Node]) -> None:
        """Change names; the change is not durable yet."""
        for directory, name, node in steps:
            before = directory.entries.pop(name, None)
            if isinstance(before, FileNode):
                before.links -= 1
                if not before.links:
                    before.volume.used -= len(before.data)
            if node is not None:
                directory.entries[name] = node
                if isinstance(node, FileNode):
                    if not node.links:
                        node.volume.used += len(node.data)
                    node.links += 1
        self._changes.append(Change(steps, nodes))

    def _descriptor(self, node: FileNode, path: str, *, is_writable: bool) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = _OpenFile(node, path, is_writable)
        return self._next_fd

    def _of(self, fd: int, *, to_write: bool = False) -> _OpenFile:
        found = self._open.get(fd)
        if found is None or (to_write and not found.is_writable):
            raise _error(errno.EBADF, str(fd))
        return found

    def _need_descriptor(self, path: str) -> None:
        """Do as the real file system does: close unused data files when no descriptor is left."""
        if len(self._open) >= self.descriptors_max and not (OPEN_FILES.let_go(8) and len(self._open) < self.descriptors_max):
            raise _error(errno.EMFILE, path)

    def _create(self, path: str) -> FileNode:
        """Create a file. The caller has checked that the name is free."""
        parent, name = self._parent(path)
        self._operate("create", path)
        if not parent.volume.free:
            raise _error(errno.ENOSPC, path)
        node = FileNode(parent.volume, self._clock.time_ms())
        self._name([(parent, name, node)], [node])
        return node

    def _open_file(
        self, path: str, *, writable: bool, create: bool = False, truncate: bool = False, exclusive: bool = False
    ) -> int:
        self._pause()
        self._need_descriptor(path)
        node = self._find(path)
        if node is None:
            if not create:
                self._operate("open", path)
                raise _error(errno.ENOENT, path)
            return self._descriptor(self._create(path), path, is_writable=writable)
        self._operate("open", path)
        if exclusive:
            raise _error(errno.EEXIST, path)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        if truncate and node.data:
            self._operate("truncate", path)
            node.change(Cut(0), self._clock.time_ms())
        return self._descriptor(node, path, is_writable=writable)

    # --- Filesystem: open files ---

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        return self._open_file(path, writable=writable, create=create)

    def close(self, fd: int) -> None:
        file = self._open.pop(fd, None)
        if file is not None and file.node.lock == fd:
            file.node.lock = None

    def pwrite(self, fd: int, data: WriteBuffer, position: int) -> int:  # type: ignore[override]  # os.pwrite takes any buffer
        self._pause()
        file = self._of(fd, to_write=True)
        is_short = self._operate("write", file.path)
        taken = bytes(data)
        if is_short:
            taken = taken[: max(len(taken) // 2, 1)]
        node = file.node
        growth = position + len(taken) - len(node.data)
        if node.links and growth > node.volume.free:
            taken = taken[: max(len(taken) - (growth - node.volume.free), 0)]
            if not taken and data:
                raise _error(errno.ENOSPC, file.path)
        if taken:
            node.change(Write(position, taken), self._clock.time_ms())
        return len(taken)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        file = self._of(fd)
        self._operate("read", file.path)
        return bytes(file.node.data[position : position + length])

    def is_resident(self, fd: int, position: int) -> bool:
        self._of(fd)
        return True

    def map(self, fd: int, length: int) -> Any:
        file = self._of(fd)
        self._operate("read", file.path)
        if length > len(file.node.data):
            raise OSError(errno.EIO, f"the file has no {length} bytes any more")
        return bytes(file.node.data[:length])

    def truncate(self, fd: int, size: int) -> None:
        self._pause()
        file = self._of(fd)
        if not file.is_writable:
            raise _error(errno.EINVAL, file.path)
        self._operate("truncate", file.path)
        file.node.change(Cut(size), self._clock.time_ms())

    def sync(self, fd: int) -> None:
        self._pause()
        file = self._of(fd)
        try:
            self._operate("sync", file.path)
        except OSError:
            file.node.lose_pending()
            raise
        file.node.sync()

    def size(self, fd: int) -> int:
        return len(self._of(fd).node.data)

    # --- Filesystem: by path ---

    def boot_id(self) -> bytes:
        return b"boot %d" % self.boots

    def exists(self, path: str) -> bool:
        self._operate("stat", path)
        try:
            return self._find(path) is not None
        except NotADirectoryError:
            return False

    def file_size(self, path: str) -> int:
        self._operate("stat", path)
        node = self._node(path)
        return len(node.data) if isinstance(node, FileNode) else 4096

    def modified_ms(self, path: str) -> int:
        self._operate("stat", path)
        node = self._node(path)
        return node.modified_ms if isinstance(node, FileNode) else self._clock.time_ms()

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        self._operate("utime", path)
        node = self._node(path)
        if isinstance(node, FileNode):
            node.modified_ms = time_ms

    def volume_space(self, path: str) -> tuple[int, int]:
        self._operate("stat", path)
        volume = self._node(path).volume
        return volume.capacity, volume.free

    def list(self, path: str) -> Any:
        self._pause()
        self._need_descriptor(path)
        self._operate("list", path)
        entries = self._directory(path).entries
        return [
            SimulatedEntry(name, f"{path.rstrip('/')}/{name}", isinstance(node, DirectoryNode))
            for name, node in sorted(entries.items())
        ]

    def make_directory(self, path: str) -> None:
        self._pause()
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            return
        if node is not None:
            raise _error(errno.EEXIST, path)
        head = path.rstrip("/").rpartition("/")[0]
        if head:
            self.make_directory(head)
        parent, name = self._parent(path)
        self._operate("mkdir", path)
        made = DirectoryNode(parent.volume)
        self._name([(parent, name, made)], [made])

    def create_empty(self, path: str) -> None:
        self.close(self._open_file(path, writable=True, create=True, truncate=True))

    def rename(self, source: str, target: str) -> None:
        self._pause()
        node = self._node(source)
        (source_parent, source_name), (target_parent, target_name) = self._parent(source), self._parent(target)
        there = self._find(target)
        if isinstance(there, DirectoryNode):
            if not isinstance(node, DirectoryNode):
                raise _error(errno.EISDIR, target)
            if there.entries and there is not node:
                raise _error(errno.ENOTEMPTY, target)
        elif there is not None and isinstance(node, DirectoryNode):
            raise _error(errno.ENOTDIR, target)
        if isinstance(node, DirectoryNode) and f"{target}/".startswith(f"{source}/") and there is not node:
            raise _error(errno.EINVAL, target)
        if node.volume is not target_parent.volume:
            raise _error(errno.EXDEV, target)
        self._operate("rename", f"{source} -> {target_name}" if source_parent is target_parent else f"{source} -> {target}")
        if there is node:
            return
        nodes: list[Node] = [node] if there is None else [node, there]
        self._name([(source_parent, source_name, None), (target_parent, target_name, node)], nodes)

    def remove(self, path: str) -> None:
        self._pause()
        node = self._find(path)
        if node is None:
            return
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        self._operate("unlink", path)
        parent, name = self._parent(path)
        self._name([(parent, name, None)], [node])

    def remove_tree(self, path: str) -> None:
        if self._find(path) is None:
            return
        directory = self._directory(path)
        for name, node in list(directory.entries.items()):
            if name not in directory.entries:
                continue
            if isinstance(node, DirectoryNode):
                self.remove_tree(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        self._pause()
        self._operate("rmdir", path)
        parent, name = self._parent(path)
        self._name([(parent, name, None)], [directory])

    def read_file(self, path: str) -> bytes:
        self._operate("read", path)
        self._need_descriptor(path)
        return bytes(self._file(path).data)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        fd = self._open_file(path, writable=True, create=True, truncate=True)
        try:
            self.write_fully(fd, data, 0)
            if sync:
                self.sync(fd)
        finally:
            self.close(fd)

    def allocate(self, path: str, size: int) -> None:
        fd = self._open_file(path, writable=True, create=True)
        try:
            present = self.size(fd)
            if present < size:
                self.write_fully(fd, bytes(size - present), present)
        finally:
            self.close(fd)

    def sync_path(self, path: str) -> None:
        fd = self._open_file(path, writable=False)
        try:
            self.sync(fd)
        finally:
            self.close(fd)

    def sync_directory(self, path: str) -> None:
        self._pause()
        self._need_descriptor(path)
        self._operate("sync_directory", path)
        directory = self._directory(path)
        kept: list[Change] = []
        for change in self._changes:
            if change.touches(directory):
                change.apply()
            else:
                kept.append(change)
        self._changes = kept

    def lock(self, path: str) -> int:
        self._operate("lock", path)
        fd = self._open_file(path, writable=True, create=True)
        node = self._open[fd].node
        if node.lock is not None:
            self.close(fd)
            raise _error(errno.EAGAIN, path)
        node.lock = fd
        return fd
