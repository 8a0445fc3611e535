# cython: annotation_typing=False
"""The use by clients, in Python; `_usage_native` is this same text, compiled with the types of `_usage_native.pxd`.

`usage.py` has the contract.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from pybroker.security.principal import name_of
from pybroker.security.quotas.entity import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE
from pybroker.security.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.security.quotas.quotas import Limit, Quotas

__all__ = ["ClientUse", "Mutations", "Rate", "Usage", "Window"]

CLIENTS_MAX: Final = 10_000
_MS_PER_S: Final = 1000
_PERCENT_PER_NS: Final = 100 / 1e9


class Window(NamedTuple):
    """Over how many windows a use is averaged, and how long each is, in ms."""

    samples: int
    window_ms: int


class Rate:
    """The use per second over the last `samples` windows of `window_ms` each, the first of which may be under way for longer."""

    __slots__ = ("__weakref__", "_before", "_samples", "_samples_max", "_shortest_s", "_window_ms")

    def __init__(self, *, samples: int, window_ms: int) -> None:
        self._samples_max = samples
        self._window_ms = window_ms
        self._shortest_s = (samples - 1) * window_ms / _MS_PER_S
        self._samples: list[list[float]] = []  # start, last event, sum: the oldest first
        self._before = 0.0  # the sum of all samples but the last

    def use(self, value: float, limit: float, now_ms: float) -> int:
        """Count `value`, and return the throttle time."""
        self.record(value, now_ms)
        return self.throttle_ms(limit, now_ms)

    def record(self, value: float, now_ms: float) -> None:
        """Count `value`, which is negative if it takes back what was counted."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, now_ms, 0.0])
            del samples[: -self._samples_max - 1]
            self._sum_up()
        sample = samples[-1]
        sample[1] = now_ms
        sample[2] += value

    def _sum_up(self) -> None:
        self._before = 0.0
        for sample in self._samples[:-1]:
            self._before += sample[2]

    def throttle_ms(self, limit: float, now_ms: float) -> int:
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
            self._sum_up()
        elapsed_ms = now_ms - samples[0][0] if samples else 0
        missing = self._samples_max - 1 - int(elapsed_ms // self._window_ms)
        used = self._before + samples[-1][2] if samples else 0
        return used, max(elapsed_ms + max(missing, 0) * self._window_ms, 1)


class ClientUse:
    """The use by a client of what `quotas` limits.

    Attributes:
        is_limited: whether any quota but that of connections holds for the client.
        now_ms: returns the time of `usage` in ms.
        bucket: what its changes of partitions take from; None without such a quota.
    """

    __slots__ = ("_rates", "_time_limit", "_time_rate", "_window", "bucket", "is_limited", "now_ms", "quotas")

    def __init__(self, usage: Usage, user: str, client_id: str) -> None:
        self.now_ms, self._window, self.quotas = usage.now_ms, usage.window, usage.quotas
        limits = self.quotas.limits(user, client_id)
        self.is_limited = bool(limits)
        changes = limits.pop(CONTROLLER_MUTATION_RATE, None)
        self.bucket: TokenBucket | None = None if changes is None else usage.bucket(changes)
        self._rates = {key: (usage.rate(key, limit), limit.value) for key, limit in limits.items()}
        self._time_rate: Rate | None
        self._time_rate, self._time_limit = self._rates.get(REQUEST_PERCENTAGE, (None, 0.0))

    def bytes_throttle_ms(self, key: str, size: int, now_ms: float, takes_back: bool = False) -> int:
        """Count bytes of the rate `key`, and return the throttle time. `takes_back`: do not count bytes that exceed the quota,
        because they are not sent.
        """
        if (found := self._rates.get(key)) is None:
            return 0
        rate, limit = found
        throttle_ms = rate.use(size, limit, now_ms)
        if throttle_ms and takes_back:
            rate.record(-size, now_ms)
        return throttle_ms

    def time_throttle_ms(self, took_ns: int, now_ms: float) -> int:
        """Count time of the loop, and return the throttle time, which is at most a window."""
        rate = self._time_rate
        if rate is None:
            return 0
        throttle_ms = rate.use(took_ns * _PERCENT_PER_NS, self._time_limit, now_ms)
        return min(throttle_ms, self._window.window_ms) if throttle_ms else 0

    def fetch_bytes_max(self) -> int | None:
        """Return the bytes that a response to Fetch may have: those of the whole window; None if there is no quota."""
        if (found := self._rates.get(CONSUMER_BYTE_RATE)) is None:
            return None
        window = self._window
        return int(found[1] * (window.samples - 1) * window.window_ms / 1000)


class Usage:
    """The use by all clients of what `quotas` limits; replace `quotas` when they change. `now_ms` never goes back."""

    __slots__ = ("_addresses", "_buckets", "_clients", "_controller_window", "_rates", "now_ms", "quotas", "window")

    def __init__(self, quotas: Quotas, window: Window, controller_window: Window, now_ms: Callable[[], float]) -> None:
        self.quotas = quotas
        self.window = window
        self._controller_window = controller_window
        self.now_ms = now_ms
        self._clients: OrderedDict[tuple[str, str], ClientUse] = OrderedDict()
        self._rates: WeakValueDictionary[tuple[str, str, str], Rate] = WeakValueDictionary()  # the clients hold them
        self._buckets: WeakValueDictionary[tuple[str, str, float], TokenBucket] = WeakValueDictionary()
        self._addresses: OrderedDict[str, Rate] = OrderedDict()

    def of(self, principal: str, client_id: str) -> ClientUse:
        """Return the use by a client. Valid until the return to the loop: quotas may change."""
        key = principal, client_id
        found = self._clients.get(key)
        if found is None or found.quotas is not self.quotas:
            found = self._clients[key] = ClientUse(self, name_of(principal), client_id)  # the one before holds the rates
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
        self._clients.move_to_end(key)
        return found

    def may_connect(self, host: str) -> bool:
        """Count a new connection from an address, and return whether it may stay."""
        if (value := self.quotas.connection_rate(host)) is None:
            return True
        rate, now_ms = self._addresses.get(host), self.now_ms()
        if rate is None:
            rate = self._addresses[host] = Rate(**self.window._asdict())
            if len(self._addresses) > CLIENTS_MAX:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(host)
        if is_above := bool(rate.use(1, value, now_ms)):
            rate.record(-1, now_ms)
        return not is_above

    def rate(self, key: str, limit: Limit) -> Rate:
        """Return the rate of all that share a quota. Hold it."""
        sensor = (key, limit.user, limit.client_id)
        rate = self._rates.get(sensor)
        if rate is None:
            rate = self._rates[sensor] = Rate(**self.window._asdict())
        return rate

    def bucket(self, limit: Limit) -> TokenBucket:
        """Return the bucket of all that share a quota of changes. Hold it."""
        key = (limit.user, limit.client_id, limit.value)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(limit.value, **self._controller_window._asdict(), now_ms=self.now_ms())
        return bucket


class Mutations:
    """The changes of partitions by one request. `throttle_ms` is the throttle time, once more was wanted than there was."""

    __slots__ = ("_bucket", "_now_ms", "throttle_ms")

    def __init__(self, bucket: TokenBucket, now_ms: Callable[[], float]) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self.throttle_ms = 0

    def may(self, count: int, *, is_strict: bool) -> bool:
        """Count the change of `count` partitions, and return whether it may be made. A client that does not know the error of
        KIP-599 may, and is throttled; a strict one must wait until no change of before is owed any more.
        """
        now_ms = self._now_ms()
        if is_strict and (wait_ms := self._bucket.throttle_ms(now_ms)):
            self.throttle_ms = max(self.throttle_ms, wait_ms)
            return False
        self._bucket.take(count, now_ms=now_ms)
        if not is_strict:
            self.throttle_ms = max(self.throttle_ms, self._bucket.throttle_ms(now_ms))
        return True
