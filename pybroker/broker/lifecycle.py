"""What a command adds to a broker's life: before clients can connect, when it is ready, and when it stops.

`pybroker start` says that clients can connect, and no more; a container has topics to make first and others to tell.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.network.limits import BoundListener


class Lifecycle:
    """That of `pybroker start`."""

    async def before_sockets(self, controller: Controller) -> str | None:  # noqa: ARG002
        """The cluster is there, and no client can connect yet. Returns why the broker cannot start, if so."""
        return None

    async def announce(self, node_id: int, bound: Sequence[BoundListener], groups_loaded: Callable[[], Awaitable[None]]) -> None:  # noqa: ARG002
        """Clients can connect. `groups_loaded()` returns when the groups of all partitions are loaded. Cancelled at the stop."""
        sys.stdout.write(f"READY {host_and_port(*local_address(bound[0]))}\n")
        sys.stdout.flush()

    def stopping(self) -> None:
        """Clients will not be able to connect any more."""


def local_address(listener: BoundListener) -> tuple[str, int]:
    """Host and port by which a program on this machine reaches a listener."""
    return ("127.0.0.1" if listener.host in ("::", "0.0.0.0") else listener.host), listener.port  # noqa: S104  compared, not bound
