"""The use by each client, and the throttle times that follow. Belongs to the loop.

Counts are kept for the SENSORS_MAX that were used last: names of clients are the clients' own, so there may be very many.

Source: ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager of Kafka.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.security.quotas.entity import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    REQUEST_PERCENTAGE,
)
from pybroker.security.quotas.quotas import Limit
from pybroker.security.quotas.rate import Rate, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.security.quotas.quotas import Quotas

SENSORS_MAX: Final = 10_000
_PERCENT_PER_NS: Final = 100 / 1e9


class Window(NamedTuple):
    """Over how many windows a use is averaged, and how long each is, in ms."""

    samples: int
    window_ms: int


class Usage:
    """The use by clients of what `quotas` limits; replace `quotas` when they change. `now_ms` never goes back."""

    def __init__(self, quotas: Quotas, window: Window, controller_window: Window, now_ms: Callable[[], float]) -> None:
        self.quotas = quotas
        self._window = window
        self._controller_window = controller_window
        self._now_ms = now_ms
        self._rates: OrderedDict[tuple[str, str, str], Rate] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, float], TokenBucket] = OrderedDict()

    def limits(self, user: str, client_id: str) -> bool:
        """Return whether any quota but that of connections holds for a client."""
        return bool(self.quotas.limits(user, client_id))

    def bytes_throttle_ms(self, key: str, user: str, client_id: str, size: int, *, takes_back: bool = False) -> int:
        """Count bytes of the rate `key`, and return the throttle time. `takes_back`: do not count bytes that exceed the quota,
        because they are not sent.
        """
        if (limit := self.quotas.limits(user, client_id).get(key)) is None:
            return 0
        rate, now_ms = self._rate(key, limit), self._now_ms()
        rate.record(size, now_ms=now_ms)
        throttle_ms = rate.throttle_ms(limit.value, now_ms=now_ms)
        if throttle_ms and takes_back:
            rate.record(-size, now_ms=now_ms)
        return throttle_ms

    def time_throttle_ms(self, user: str, client_id: str, took_ns: int) -> int:
        """Count time of the loop, and return the throttle time, which is at most a window."""
        if (limit := self.quotas.limits(user, client_id).get(REQUEST_PERCENTAGE)) is None:
            return 0
        rate, now_ms = self._rate(REQUEST_PERCENTAGE, limit), self._now_ms()
        rate.record(took_ns * _PERCENT_PER_NS, now_ms=now_ms)
        throttle_ms = rate.throttle_ms(limit.value, now_ms=now_ms)
        return throttle_ms and min(throttle_ms, self._window.window_ms)

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """Return the bytes that a response to Fetch may have: those of the whole window; None if there is no quota."""
        if (limit := self.quotas.limits(user, client_id).get(CONSUMER_BYTE_RATE)) is None:
            return None
        return int(limit.value * (self._window.samples - 1) * self._window.window_ms / 1000)

    def may_connect(self, host: str) -> bool:
        """Count a new connection from an address, and return whether it may stay."""
        if (value := self.quotas.connection_rate(host)) is None:
            return True
        rate, now_ms = self._rate(CONNECTION_CREATION_RATE, Limit(value, host, "")), self._now_ms()
        rate.record(1, now_ms=now_ms)
        if is_above := bool(rate.throttle_ms(value, now_ms=now_ms)):
            rate.record(-1, now_ms=now_ms)
        return not is_above

    def mutations(self, user: str, client_id: str) -> Mutations | None:
        """Return what counts a client's changes of partitions; None if there is no quota."""
        if (limit := self.quotas.limits(user, client_id).get(CONTROLLER_MUTATION_RATE)) is None:
            return None
        key = (limit.user, limit.client_id, limit.value)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(limit.value, **self._controller_window._asdict(), now_ms=self._now_ms())
            if len(self._buckets) > SENSORS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return Mutations(bucket, self._now_ms)

    def _rate(self, key: str, limit: Limit) -> Rate:
        sensor = (key, limit.user, limit.client_id)
        rate = self._rates.get(sensor)
        if rate is None:
            rate = self._rates[sensor] = Rate(**self._window._asdict())
            if len(self._rates) > SENSORS_MAX:
                self._rates.popitem(last=False)
        self._rates.move_to_end(sensor)
        return rate


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
