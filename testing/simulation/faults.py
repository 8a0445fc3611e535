"""Faults of a simulated disk: which operations fail, and when.

disk.faults.append(Fault(errno.EIO, kinds={"sync"}, path="*/events-0/*", skip=2))   the third such fsync fails
disk.faults.append(Fault(errno.EIO, path="/b*", count=None))                        the disk below /b is dead
disk.faults.append(Fault(SHORT, kinds={"write"}))                                   a write takes half of its bytes
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

SHORT: Final = -1
"""Instead of an error number: the write takes only a part of its bytes."""

KINDS: Final = frozenset(
    {
        "open",  # a descriptor of a file that exists
        "create",  # a new file, with its name
        "write",
        "truncate",
        "sync",  # of a file's bytes
        "sync_directory",
        "rename",
        "unlink",
        "mkdir",
        "rmdir",
        "utime",
        "lock",
        "read",
        "list",
        "stat",
    }
)
CHANGING: Final = frozenset({"create", "write", "truncate", "sync", "sync_directory", "rename", "unlink", "mkdir", "rmdir"})
"""The kinds of operations that change what a crash leaves."""


@dataclass(slots=True)
class Fault:
    """A fault: `error` (an error number, or SHORT) for operations of `kinds` on paths like `path`.

    It spares the first `skip` of them and strikes the next `count`, or all that follow when `count` is None. The fault counts
    `skip` and `count` down.
    """

    error: int
    kinds: frozenset[str] | set[str] = KINDS
    path: str = "*"
    skip: int = 0
    count: int | None = 1
    hits: list[str] = field(default_factory=list)

    def strikes(self, kind: str, path: str) -> bool:
        """Count this operation, and return whether it fails."""
        if self.count == 0 or kind not in self.kinds or not fnmatchcase(path, self.path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.count is not None:
            self.count -= 1
        self.hits.append(f"{kind} {path}")
        return True
