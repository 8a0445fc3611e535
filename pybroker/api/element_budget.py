"""Bounds what long requests take in their decoded form, by sum over all connections.

A long request is one that is decoded in a thread (`long_messages.py`). Before that it takes as many elements as it may have: one
for each of its bytes, and at most what a single request may have. When it is decoded, it gives back what it does not have. The
rest stays taken until its response is encoded. While there are not enough elements, a request waits in the order in which it
came; its connection is not read, and its bytes stay counted by the memory pool. A single request never waits, so each gets its
turn.

A request that waits in the purgatory gives its elements back, as it gives back its bytes: what it waits for is bounded by nothing
but the connections, as in Kafka. Otherwise two clients with endless fetches would keep out all long requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

REQUESTS: Final = 2
"""The sum is what this many of the largest requests have."""


_OF_TASK: ContextVar[Reservation | None] = ContextVar("elements", default=None)


class ElementBudget:
    """The elements of all long requests. Belongs to the loop."""

    __slots__ = ("_waiting", "elements_max", "used")

    def __init__(self, elements_max: int) -> None:
        self.elements_max = elements_max
        self.used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    async def take(self, elements: int) -> None:
        """Take elements, as soon as there are enough, and the requests before have theirs."""
        if not self._waiting and self._has(elements):
            self.used += elements
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((elements, turn))
        await turn

    def give_back(self, elements: int) -> None:
        """Give elements back, and let requests continue that wait for them."""
        self.used -= elements
        while self._waiting and self._has(self._waiting[0][0]):
            wanted, turn = self._waiting.popleft()
            if not turn.done():  # its task was cancelled
                self.used += wanted
                turn.set_result(None)

    def _has(self, elements: int) -> bool:
        return not self.used or self.used + elements <= self.elements_max


class Reservation:
    """The elements of one request, which two hold: the task that handles it, and its response until that is encoded.

    `let_go` frees the decoded request, which its handler needs no more.
    """

    __slots__ = ("_budget", "_elements", "_holders", "let_go")

    def __init__(self, budget: ElementBudget) -> None:
        self._budget = budget
        self._elements = 0
        self._holders = 2
        self.let_go: Callable[[], None] = _nothing

    @property
    def is_abandoned(self) -> bool:
        """Whether one of the two has ended."""
        return self._holders < 2

    async def take(self, elements: int) -> None:
        """Take this many elements, perhaps later."""
        await self._budget.take(elements)
        self._elements = elements

    def keep(self, elements: int) -> None:
        """Give back all but this many elements."""
        kept = min(elements, self._elements)
        given, self._elements = self._elements - kept, kept
        if given:
            self._budget.give_back(given)

    def end(self) -> None:
        """End one of the two. The second one gives the elements back."""
        self._holders -= 1
        if not self._holders:
            self.keep(0)

    def belongs_to_task(self) -> None:
        """Let `parked` give back this reservation when it is called in the task that calls this."""
        _OF_TASK.set(self)


def parked() -> None:
    """Free the long request that the current task handles, if it does, and give back its elements, because it waits in the
    purgatory. Call it when nothing refers to the decoded request any more: what something refers to is not freed.
    """
    reservation = _OF_TASK.get()
    if reservation is not None:
        reservation.let_go()
        reservation.keep(0)


def _nothing() -> None:
    """Let go of nothing: there is no decoded request."""
