"""How long listeners wait before they accept again, so that no more connections come than max.connection.creation.rate allows.

Clients wait meanwhile, in the system's queue. The listener for brokers, beside others for clients, has only the rate of its own.

Source: ConnectionQuotas.recordConnectionAndGetThrottleTimeMs of Kafka; KIP-612.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.network.limits import UNLIMITED
from pybroker.security.quotas.usage import Rate

if TYPE_CHECKING:
    from pybroker.network.limits import Listener, NetworkLimits

_OF_ALL = ""


class ConnectionRates:
    """Counts the connections that listeners accept while they have a limit. Belongs to the loop."""

    def __init__(self) -> None:
        self._rates: dict[str, Rate] = {}

    def accepted(self, listener: Listener, limits: NetworkLimits, *, now_ms: float) -> int:
        """Count a connection, and return for how many ms the listener accepts no other."""
        own = limits.of_listeners.get(listener.name)
        wanted = {listener.name: UNLIMITED if own is None else own.max_connection_creation_rate}
        if not listener.is_protected:
            wanted[_OF_ALL] = limits.max_connection_creation_rate
        return max(self._wait_ms(name, limit, limits, now_ms=now_ms) for name, limit in wanted.items())

    def _wait_ms(self, name: str, limit: int, limits: NetworkLimits, *, now_ms: float) -> int:
        if limit >= UNLIMITED:
            return 0
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = Rate(samples=limits.connection_rate_samples, window_ms=limits.connection_rate_window_ms)
        rate.record(1, now_ms)
        longest_ms = limits.connection_rate_window_ms
        return min(rate.throttle_ms(limit, now_ms), longest_ms) if limit else longest_ms
