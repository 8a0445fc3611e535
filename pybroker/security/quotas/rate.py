"""The use in a window of time: rates by samples, and Kafka's bucket of tokens.

Times are in ms, of any clock that does not go back.

Source: Rate, SampledStat, WindowedSum and TokenBucket of Kafka; QuotaUtils.throttleTime; KIP-13, KIP-599.
"""

from __future__ import annotations

from typing import Final

_MS_PER_S: Final = 1000


class Rate:
    """The use per second over the last `samples` windows of `window_ms` each, the first of which may be under way for longer."""

    __slots__ = ("__weakref__", "_before", "_samples", "_samples_max", "_shortest_s", "_window_ms", "used_ms")

    def __init__(self, *, samples: int, window_ms: int) -> None:
        self._samples_max = samples
        self._window_ms = window_ms
        self._shortest_s = (samples - 1) * window_ms / _MS_PER_S
        self._samples: list[list[float]] = []  # start, last event, sum: the oldest first
        self._before = 0.0  # the sum of all samples but the last
        self.used_ms = 0.0

    def record(self, value: float, *, now_ms: float) -> None:
        """Count `value`, which is negative if it takes back what was counted."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, now_ms, 0.0])
            del samples[: -self._samples_max - 1]
            self._before = sum(one[2] for one in samples[:-1])
        sample = samples[-1]
        sample[1] = self.used_ms = now_ms
        sample[2] += value

    def throttle_ms(self, limit: float, *, now_ms: float) -> int:
        """Return how long nothing may be used until the use per second is `limit` again; 0 if it is not above."""
        if not self._samples or self._before + self._samples[-1][2] <= limit * self._shortest_s:
            return 0  # also if some of it has expired
        used, window_ms = self.measured(now_ms)
        over = used / (window_ms / _MS_PER_S) - limit
        return round(over / limit * window_ms) if over > 0 else 0

    def measured(self, now_ms: float) -> tuple[float, float]:
        """Return the use within the windows, and the time in ms over which it is averaged: at least all windows but one, so that
        a first burst is no high rate.
        """
        samples, expired_ms = self._samples, now_ms - self._samples_max * self._window_ms
        if samples and samples[0][1] <= expired_ms:
            while samples and samples[0][1] <= expired_ms:
                del samples[0]
            self._before = sum(one[2] for one in samples[:-1])
        elapsed_ms = now_ms - samples[0][0] if samples else 0
        missing = self._samples_max - 1 - int(elapsed_ms // self._window_ms)
        used = self._before + samples[-1][2] if samples else 0
        return used, max(elapsed_ms + max(missing, 0) * self._window_ms, 1)


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
