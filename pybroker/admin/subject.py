"""The broker that the verbs work on, as far as they may touch it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pybroker.admin.calls import UNAVAILABLE, AdminError
from pybroker.admin.inner import frame_of, response_of
from pybroker.admin.steps import carry_out
from pybroker.admin.topics import CONTROLLER
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security.acl.authorizer import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pybroker.admin.elsewhere import Elsewhere
    from pybroker.admin.inner import Inner
    from pybroker.admin.steps import Ask, Steps
    from pybroker.api.seen_clients import SeenClient
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import Trail
    from pybroker.model import BrokerId
    from pybroker.security.acl.binding import AclOperation
    from pybroker.times.clock import BrokerClock

Result = TypeVar("Result")


class Listening(NamedTuple):
    """A listener. `advertised` is the address that clients get; None if that depends on where the client is."""

    name: str
    security_protocol: str
    address: str
    advertised: str | None


class BrokerState(NamedTuple):
    """The work of a broker now, and its listeners.

    Attributes:
        connections: those of clients that are open.
        muted_connections: those of which nothing is read, because the memory for requests is used up (KIP-72).
        request_bytes: the memory of requests in work.
        request_bytes_max: its bound; None if there is none.
        queued_requests: those that are read and wait for their connection's turn.
    """

    listeners: tuple[Listening, ...]
    connections: int
    muted_connections: int
    request_bytes: int
    request_bytes_max: int | None
    queued_requests: int

    def as_data(self) -> dict[str, Any]:
        """Return the state as it is written in JSON."""
        return {**self._asdict(), "listeners": [one._asdict() for one in self.listeners]}


class SeenClients(Protocol):
    """The clients of a broker."""

    async def seen(self) -> list[SeenClient]:
        """Return all clients."""

    def clear(self) -> None:
        """Forget all clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a broker that serves clients.

    Attributes:
        faults: the rules by which requests go wrong, which any thread may change.
        trail: the last requests, which any thread may read; None if none are kept.
        clock: the time of the broker, which its loop alone may move.
        inner: takes requests of no client, in the broker's loop.
        elsewhere: the other brokers of the cluster.
        is_alone: whether the broker is a cluster by itself.
        clients: the clients that have sent requests, which belong to the loop.
        may: returns whether a principal from a host may do an operation on the cluster; it runs in the loop.
        state: returns what the broker has in work; it runs in the loop.
        has_failed_directory: returns whether a log directory is offline, which it remains until the next start.
    """

    faults: Faults
    trail: Trail | None
    clock: BrokerClock
    inner: Inner
    elsewhere: Elsewhere
    node_id: BrokerId
    is_alone: bool
    clients: SeenClients
    has_failed_directory: Callable[[], bool]
    may: Callable[[str, str, AclOperation], Coroutine[Any, Any, bool]]
    state: Callable[[], Coroutine[Any, Any, BrokerState]]


@dataclass(slots=True, kw_only=True)
class Subject:
    """One broker, from the start of its listener on. The verbs run in the thread of the listener.

    Attributes:
        loop: the broker's event loop.
        why_not_ready: returns None when the broker is ready; it only looks at plain attributes.
        serving: set when the broker serves clients.
        principal, host: those of the person that looks, or changes something, for ACLs.
    """

    loop: asyncio.AbstractEventLoop
    why_not_ready: Callable[[], str | None]
    serving: Parts | None = None
    principal: str = OPERATOR
    host: str = ""

    @property
    def parts(self) -> Parts:
        """The parts. Raises AdminError if the broker does not serve clients."""
        if self.serving is None:
            raise AdminError(UNAVAILABLE, f"The broker is not ready: {self.why_not_ready() or 'it stops'}")
        return self.serving

    def of(self, principal: str, host: str) -> Subject:
        """Return the same broker as someone else may touch it."""
        return replace(self, principal=principal, host=host)

    async def require(self, operation: AclOperation) -> None:
        """Raise KafkaError if the principal may not do an operation on the cluster."""
        if self.principal != OPERATOR and not await self.in_loop(self.parts.may(self.principal, self.host, operation)):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{self.principal} has no {operation.name} on the cluster")

    async def in_loop(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` in the broker's loop, and return its result."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def carry_out(self, steps: Steps[Result]) -> Result:
        """Carry out steps, and return their result. The broker's loop serves the requests, and does nothing else of it.

        Raises KafkaError, and AdminError if another broker does not respond.
        """
        return await carry_out(steps, self._ask)

    async def _ask(self, ask: Ask) -> Any:
        parts = self.parts
        if ask.node in (None, CONTROLLER, parts.node_id):
            return response_of(ask, await self.in_loop(parts.inner.handle(frame_of(ask), self.principal, self.host)))
        return await self.in_loop(parts.elsewhere.ask(ask, self.principal, self.host))
