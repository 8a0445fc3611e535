"""A bound on the connections that have large pieces of their responses at the transport.

Large pieces save CPU time, but a consumer that reads quickly and then stops leaves the broker with one of them. So only this many
connections have large pieces at a time, whoever they are, and all others have small ones.
"""

from __future__ import annotations

from typing import Final

LARGE_PIECES_MAX: Final = 32


class LargePieces:
    """The connections that may have large pieces now. `left` is how many more may."""

    __slots__ = ("left",)

    def __init__(self, count_max: int = LARGE_PIECES_MAX) -> None:
        self.left = count_max

    def take(self) -> bool:
        """Return whether one more connection may have large pieces, and count it, until `give_back`."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True

    def give_back(self) -> None:
        """Count one connection less."""
        self.left += 1
