"""Releases a reserve when a small file of a log directory cannot be written because its volume is full.

As with descriptors (`open_files`), the filesystem calls this once and tries again. Data files and their indexes do
not use it: on a full volume, records of clients are refused, and must not use up what deletions and a clean stop
need. `room` describes the reserves.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


class Reserves:
    """The reserves of this process, by the path of their directory. Any thread may call `release_for`."""

    __slots__ = ("_by_path",)

    def __init__(self) -> None:
        self._by_path: dict[str, Callable[[], bool]] = {}

    def add(self, path: str, release: Callable[[], bool]) -> None:
        """Add a reserve; `release()` gives its room back, and returns whether it did."""
        self._by_path[path] = release

    def discard(self, path: str) -> None:
        """Remove a reserve, which stays as it is from now on."""
        self._by_path.pop(path, None)

    def release_for(self, path: str) -> bool:
        """Release the reserve of the directory that contains the file `path`. Returns whether there was one."""
        for directory, release in list(self._by_path.items()):
            if path.startswith(f"{directory}/"):
                return release()
        return False


RESERVES: Final = Reserves()
"""The reserves of all log directories of this process."""
