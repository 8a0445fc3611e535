"""The one way by which a broker sends requests to other brokers. The simulation has another implementation of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from pybroker.model import BrokerId

REQUEST_MS_MAX: Final = 30_000


class Peers(Protocol):
    """The other brokers, by their ids."""

    def send(
        self,
        broker_id: BrokerId,
        request: Any,
        done: Callable[[Any | None], object],
        *,
        lane: str = "",
        timeout_ms: int = REQUEST_MS_MAX,
    ) -> None:
        """Send a request, and call `done` once, later: with the response, or with None if there is none.

        Without a response, the request may have been carried out all the same. The requests of a `lane` are carried out in their
        order, on a connection of their own. The records of a response are a view of a buffer of its own.
        """

    def close(self) -> None:
        """End all connections; what waits gets no response."""
