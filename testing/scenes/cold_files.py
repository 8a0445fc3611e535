"""A file system whose pages are in memory only when the test, or a read, has brought them there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pybroker.log.files.filesystem import Filesystem

PAGE = 4096


class ColdFilesystem(Filesystem):
    """A file system with a page cache of its own: `waits` has the reads outside of a thread that find a page missing."""

    __slots__ = ("cached", "is_thread", "opened", "paths", "waits")

    def __init__(self) -> None:
        self.cached: set[tuple[str, int]] = set()
        self.opened: set[str] = set()
        self.paths: dict[int, str] = {}
        self.is_thread = False
        self.waits: list[tuple[str, int]] = []

    def drop_caches(self) -> None:
        self.cached.clear()
        self.opened.clear()

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        if path not in self.opened and not create:
            self._wait(path, -1)
        self.opened.add(path)
        fd = super().open(path, writable=writable, create=create)
        self.paths[fd] = path
        return fd

    def pread(self, fd: int, length: int, position: int) -> bytes:
        data = super().pread(fd, length, position)
        for page in range(position // PAGE, (position + max(len(data), 1) - 1) // PAGE + 1):
            if (self.paths[fd], page) not in self.cached:
                self._wait(self.paths[fd], page)
                self.cached.add((self.paths[fd], page))
        return data

    def is_resident(self, fd: int, position: int) -> bool:
        return (self.paths[fd], position // PAGE) in self.cached

    def _wait(self, path: str, page: int) -> None:
        if not self.is_thread:
            self.waits.append((Path(path).name, page))

    def in_thread(self, work: Callable[[], None]) -> None:
        self.is_thread = True
        work()
        self.is_thread = False
