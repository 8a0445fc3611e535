"""How the outcome of a commit is found when its response was lost: each commit writes a mark that only it can write.

Idea
    Every commit compares the mark that the commit before has left and puts its own in its place, in one transaction. So it
    happens once at most, however often it is sent: the second time the comparison fails, and the mark shows the outcome.
    For the same reason a request that was given up and arrives late changes nothing any more, once a later commit is done.
    A mark has the process that wrote it, the number of the commit, and whether the commit's own comparisons held. Another
    process of the same owner replaces it when it starts, and from then on the commits of the process before fail.

Example
    Commit 5 of process ab compares the mark with "ab 4 done" and puts "ab 5 done". Its response is lost. When it is sent again,
    the comparison fails, and "ab 5 done" is read: it has happened.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_DONE: Final = "done"
_REFUSED: Final = "refused"


class Mark(NamedTuple):
    """A mark: `is_done`: the comparisons of the commit held."""

    process: str
    number: int
    is_done: bool

    def encoded(self) -> bytes:
        """Return the value of its key."""
        return f"{self.process} {self.number} {_DONE if self.is_done else _REFUSED}".encode()


def decoded(value: bytes) -> Mark | None:
    """Return the mark in a value; None if there is none."""
    try:
        process, number, outcome = value.decode().split(" ")
        return Mark(process, int(number), outcome == _DONE)
    except ValueError:
        return None
