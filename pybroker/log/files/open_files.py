"""Limits how many data files this process holds open, by closing some when there are too many.

Idea
    A segment opens its data file when it first needs it, and keeps it open. Beyond `held_max` descriptors the segment that
    opened its file first must close it. A file that was written since then counts as opened now. The segment opens the file
    again when it needs it, for about 10 us. Appends and reads know nothing of this: only opening a file costs a check.

What counts
    The descriptor of each open file, and that of its map: Python keeps one in each map (before 3.13). A slice that is
    being sent keeps its file and map, whatever the segment closes, so the count may be above the bound for as long as
    that lasts.

Descriptors and maps are limited for a process as a whole, so the process has one object. Any thread may use it, because each
change is one call that cannot be interrupted. A file that is closed while another thread uses it is really closed after that.
Each broker in the process adds its share when it starts and removes it when it stops. All shares are of the same limit of the
process, so the brokers have the largest share together, not each its own.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from weakref import ReferenceType

MAPS_MAX: Final = 16_384
"""A quarter of the number that Linux allows a process (vm.max_map_count); beyond it files are read."""
SECOND_CHANCES: Final = 8
LET_GO_AT_ONCE: Final = 4


class FileOwner(Protocol):
    """An object that may have to close its open file. `size` grows when the file is written."""

    @property
    def size(self) -> int:
        """The size of the file in bytes."""

    def let_go(self) -> None:
        """Forget the open file; the next need opens it again."""


class OpenFiles:
    """The open data files of this process: at most `held_max` descriptors, not counting those that are being sent.

    Attributes:
        held_max: the bound of the descriptors, of files and of maps: the largest share, none without shares.
        let_go_count: how often a file was closed because there were too many.
    """

    __slots__ = ("_descriptors", "_maps", "_owners", "_shares", "held_max", "let_go_count")

    def __init__(self, held_max: int = sys.maxsize) -> None:
        self.held_max = held_max
        self._shares: list[int] = []
        self.let_go_count = 0
        self._descriptors: set[int] = set()
        self._maps: set[int] = set()
        self._owners: OrderedDict[ReferenceType[FileOwner], int] = OrderedDict()  # with the file's size at the owner's last turn

    def add_share(self, count: int) -> None:
        """Note that a broker of this process may hold `count` descriptors."""
        self._shares.append(count)
        self.held_max = max(self._shares)

    def remove_share(self, count: int) -> None:
        """Undo one `add_share` of the same `count`."""
        self._shares.remove(count)
        self.held_max = max(self._shares, default=sys.maxsize)

    @property
    def held(self) -> int:
        """The number of descriptors that are held now."""
        return len(self._descriptors) + len(self._maps)

    @property
    def may_map(self) -> bool:
        """Whether one more map is within bounds."""
        return len(self._maps) < MAPS_MAX

    def opened(self, fd: int) -> None:
        """Count a data file that was opened."""
        self._descriptors.add(fd)

    def mapped(self, fd: int) -> None:
        """Count the map of an open file."""
        self._maps.add(fd)

    def closing(self, fd: int) -> None:
        """Discount an open file and its map; call this before the descriptor is free for others."""
        self._maps.discard(fd)
        self._descriptors.discard(fd)

    def keep(self, owner: FileOwner) -> None:
        """Note that `owner` has opened its file and keeps it; others close theirs if there are too many."""
        self._owners[weakref.ref(owner, self._forget)] = owner.size
        if self.held > self.held_max:
            self._make_room(owner)

    def forget(self, owner: FileOwner) -> None:
        """Note that `owner` has no open file any more."""
        self._owners.pop(weakref.ref(owner), None)

    def _forget(self, reference: ReferenceType[FileOwner]) -> None:
        self._owners.pop(reference, None)

    def let_go(self, count: int) -> int:
        """Close the `count` files that were opened first. Returns how many there were."""
        done = 0
        while done < count and (oldest := self._oldest()) is not None:
            owner = oldest[0]()
            if owner is not None:
                owner.let_go()
                done += 1
        self.let_go_count += done
        return done

    def _make_room(self, newest: FileOwner) -> None:
        """Close files, in a bounded piece of work: files that are being sent stay open, and closing more would not help
        then.
        """
        chances, left = SECOND_CHANCES, LET_GO_AT_ONCE
        while self.held > self.held_max and left and chances and (oldest := self._oldest()) is not None:
            owner, size = oldest[0](), oldest[1]
            if owner is newest:
                self._owners[weakref.ref(owner, self._forget)] = owner.size
                chances = 0 if len(self._owners) == 1 else chances - 1
            elif owner is not None and owner.size != size and chances > 1:
                self._owners[weakref.ref(owner, self._forget)] = owner.size
                chances -= 1
            elif owner is not None:
                owner.let_go()
                self.let_go_count += 1
                left -= 1

    def _oldest(self) -> tuple[ReferenceType[FileOwner], int] | None:
        try:
            return self._owners.popitem(last=False)
        except KeyError:
            return None


OPEN_FILES: Final = OpenFiles()
