"""How many data files this process holds open, and which of them are closed when they get too many.

Idea
    A segment opens its data file at the first need and would keep it. Beyond `held_max` descriptors the segment that opened its
    file first lets go of it, unless it was written to since: then it has another turn, as if it had been opened now. It opens the
    file again at the next need, for about 10 us. Appends and reads know nothing of this: only opening a file costs a look.

What counts
    The descriptor of each open file, and that of its map: Python keeps one in each map (before 3.13). A slice that is being sent
    keeps its file and map, whatever the segment lets go of, so the count may be above the bound for as long as that lasts.

Descriptors and maps are bounded for a process as a whole, so there is one object for it, which any thread may use: each step is
one call that cannot be interrupted, and a file that is let go of while another thread uses it is closed after that.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from weakref import ReferenceType

MAPS_MAX: Final = 16_384
"""A quarter of what Linux lets a process have (vm.max_map_count); beyond it files are read."""
SECOND_CHANCES: Final = 8
LET_GO_AT_ONCE: Final = 4


class FileOwner(Protocol):
    """Who may be asked to let go of its open file. `size` grows when the file is written."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def let_go(self) -> None:
        """Forget the open file; the next need opens it again."""


class OpenFiles:
    """The open data files of this process, at most `held_max` descriptors as far as nobody is being sent them.

    Attributes:
        held_max: descriptors, of files and of maps.
        let_go_count: how often a file was let go of for want of room.
    """

    __slots__ = ("_descriptors", "_maps", "_owners", "held_max", "let_go_count")

    def __init__(self, held_max: int = sys.maxsize) -> None:
        self.held_max = held_max
        self.let_go_count = 0
        self._descriptors: set[int] = set()
        self._maps: set[int] = set()
        self._owners: OrderedDict[ReferenceType[FileOwner], int] = OrderedDict()  # with the size when it had its turn

    @property
    def held(self) -> int:
        """Descriptors held now."""
        return len(self._descriptors) + len(self._maps)

    @property
    def may_map(self) -> bool:
        """Whether one more map is within bounds."""
        return len(self._maps) < MAPS_MAX

    def opened(self, fd: int) -> None:
        """A data file was opened."""
        self._descriptors.add(fd)

    def mapped(self, fd: int) -> None:
        """The open file has a map now."""
        self._maps.add(fd)

    def closing(self, fd: int) -> None:
        """The open file and its map go; to be told before the descriptor is free for others."""
        self._maps.discard(fd)
        self._descriptors.discard(fd)

    def keep(self, owner: FileOwner) -> None:
        """`owner` has opened its file and would keep it; others let go of theirs when there are too many."""
        self._owners[weakref.ref(owner, self._forget)] = owner.size
        if self.held > self.held_max:
            self._make_room(owner)

    def forget(self, owner: FileOwner) -> None:
        """`owner` has no open file any more."""
        self._owners.pop(weakref.ref(owner), None)

    def _forget(self, reference: ReferenceType[FileOwner]) -> None:
        self._owners.pop(reference, None)

    def let_go(self, count: int) -> int:
        """Have the `count` files that were opened first closed. Returns how many were there."""
        done = 0
        while done < count and (oldest := self._oldest()) is not None:
            owner = oldest[0]()
            if owner is not None:
                owner.let_go()
                done += 1
        self.let_go_count += done
        return done

    def _make_room(self, newest: FileOwner) -> None:
        """A bounded piece of work: what is being sent stays open, and then nothing that is let go of helps."""
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
