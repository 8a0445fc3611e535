"""What goes wrong on a simulated disk, and when.

disk.faults.append(Fault(errno.EIO, kinds={"sync"}, path="*/events-0/*", skip=2))   the third such fsync fails
disk.faults.append(Fault(errno.EIO, path="/b*", count=None))                        the disk below /b is dead
disk.faults.append(Fault(SHORT, kinds={"write"}))                                   one write takes half of what it is given
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

SHORT: Final = -1
"""In the place of an error number: a write that takes only a part."""

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
"""The kinds after each of which a crash leaves something else than before it."""


@dataclass(slots=True)
class Fault:
    """`error` (an error number, or SHORT) for operations of `kinds` on paths like `path`, after `skip` of them, `count` times.

    `count` None: from then on always. `skip` and `count` are counted down.
    """

    error: int
    kinds: frozenset[str] | set[str] = KINDS
    path: str = "*"
    skip: int = 0
    count: int | None = 1
    hits: list[str] = field(default_factory=list)

    def strikes(self, kind: str, path: str) -> bool:
        """Whether this operation fails; counts it."""
        if self.count == 0 or kind not in self.kinds or not fnmatchcase(path, self.path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.count is not None:
            self.count -= 1
        self.hits.append(f"{kind} {path}")
        return True
