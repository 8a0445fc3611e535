"""Kafka's bucket of tokens. Times are in ms, of any clock that does not go back.

Source: TokenBucket of Kafka; KIP-599.
"""

from __future__ import annotations

from typing import Final

_MS_PER_S: Final = 1000


class TokenBucket:
    """A bucket that `limit` tokens a second flow into, and that has room for those of all windows. It begins full."""

    __slots__ = ("__weakref__", "_limit", "_room", "_tokens", "used_ms")

    def __init__(self, limit: float, *, samples: int, window_ms: int, now_ms: float) -> None:
        self._limit = limit
        self._room = self._tokens = limit * samples * window_ms / _MS_PER_S
        self.used_ms = now_ms

    def take(self, count: float, *, now_ms: float) -> None:
        """Take tokens, also more than there are; a negative `count` gives them back."""
        flowed = (now_ms - self.used_ms) * self._limit / _MS_PER_S
        self._tokens = min(self._room, self._tokens + flowed)
        self._tokens = min(self._room, self._tokens - count)
        self.used_ms = now_ms

    def throttle_ms(self, now_ms: float) -> int:
        """Return how long it takes until no token is missing; 0 if none is."""
        self.take(0, now_ms=now_ms)
        return round(-self._tokens / self._limit * _MS_PER_S) if self._tokens < 0 else 0
