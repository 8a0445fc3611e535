"""A process of a simulated cluster: a node's life, which ends by a kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from testing.simulation.cluster.scheduling import SharedLoop

if TYPE_CHECKING:
    from pybroker.network.context import ConnectionContext
    from pybroker.protocol.api_keys import ApiKey
    from testing.simulation.cluster.scheduling import Scheduler


class Process:
    """A process with a loop of its own. `problems` are shared by all processes."""

    def __init__(self, scheduler: Scheduler, node: int, problems: list[str], interleaving: float = 0.0) -> None:
        self.node, self.problems = node, problems
        self.loop = SharedLoop(scheduler.clock, scheduler.random, problems, interleaving)
        self.loop.is_fine = scheduler.is_fine
        self.is_dead = False
        self._scheduler = scheduler
        scheduler.loops.append(self.loop)

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call `callback` in the next turn of the process, if it lives then."""
        if not self.is_dead:
            self.loop.call_soon(callback, *arguments)

    def handle(self, context: ConnectionContext, frame: memoryview) -> Any:
        """Serve a request."""
        raise NotImplementedError

    def responds(self, key: ApiKey, version: int, response: bytes) -> None:
        """Look at a response before it is sent."""

    def end(self) -> None:
        """End the process at once."""
        self.is_dead = True
        self._scheduler.loops.remove(self.loop)
        self.loop.end()
