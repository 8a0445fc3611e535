"""The broker that the verbs work on, as far as they may touch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.admin.calls import UNAVAILABLE, AdminError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pybroker.faults.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a broker that serves clients.

    Attributes:
        faults: the rules by which requests go wrong, which any thread may change.
    """

    faults: Faults


@dataclass(slots=True, kw_only=True)
class Subject:
    """One broker, from the start of its listener on. The verbs run in the thread of the listener.

    Attributes:
        loop: the broker's event loop.
        why_not_ready: returns None when the broker is ready; it only looks at plain attributes.
        serving: set when the broker serves clients.
    """

    loop: asyncio.AbstractEventLoop
    why_not_ready: Callable[[], str | None]
    serving: Parts | None = None

    @property
    def parts(self) -> Parts:
        """The parts. Raises AdminError if the broker does not serve clients."""
        if self.serving is None:
            raise AdminError(UNAVAILABLE, f"The broker is not ready: {self.why_not_ready() or 'it stops'}")
        return self.serving
