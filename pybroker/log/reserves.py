"""Who gives room back when a small file of a log directory cannot be written because its volume is full.

As with descriptors (`open_files`), the filesystem asks here once and tries again. Files of data and their indexes do not: what
clients send is refused on a full volume, and must not use up what deletions and a clean stop need. See `room`.
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
        """`release()` gives room back, and returns whether it did."""
        self._by_path[path] = release

    def discard(self, path: str) -> None:
        """The directory's reserve stays as it is from now on."""
        self._by_path.pop(path, None)

    def release_for(self, path: str) -> bool:
        """Give back the reserve of the directory in which the file `path` is. Returns whether there was one."""
        for directory, release in list(self._by_path.items()):
            if path.startswith(f"{directory}/"):
                return release()
        return False


RESERVES: Final = Reserves()
"""Of all log directories of this process."""
