"""The results that a shard has gathered in a turn of the event loop (`gathering`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorResult


class Source(Protocol):
    """An object that has one request in work at a time: a connection."""

    @property
    def has_next_request(self) -> bool:
        """Whether other requests, which wait for the one in work, are there already."""


class Gathered(NamedTuple):
    """A result whose records are not appended yet, with the ends of these records."""

    result: CoordinatorResult
    ends: Sequence[bytes]
    done: Callable[[Any], None]


class Turn:
    """The results that a shard has gathered, and what it knows of the present turn and of the one before."""

    __slots__ = ("count", "gathered", "is_begun", "is_shared", "size", "source")

    def __init__(self) -> None:
        self.gathered: list[Gathered] = []
        self.size = 0  # of the ends in `gathered`, bytes
        self.count = 0  # the number of results that were gathered in this turn
        self.is_begun = False
        self.is_shared = False  # the turn before had requests of several sources
        self.source: Source | None = None  # of the last request that was not gathered

    def end(self) -> None:
        """Forget this turn, except whether it had several sources."""
        self.is_shared = self.count + (not self.is_shared) > 1
        self.count, self.is_begun, self.source = 0, False, None
