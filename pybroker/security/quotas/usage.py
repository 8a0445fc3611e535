"""The use by each client, and the throttle times that follow. Belongs to the loop.

Counts are kept for the CLIENTS_MAX that were there last: names of clients are the clients' own, so there may be very many. Those
that share a quota share its count, which lives as long as one of them is kept.

Source: ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager of Kafka.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from pybroker.security.principal import name_of
from pybroker.security.quotas.entity import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE
from pybroker.security.quotas.rate import Rate, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.security.quotas.quotas import Limit, Quotas

CLIENTS_MAX: Final = 10_000
_PERCENT_PER_NS: Final = 100 / 1e9


class Window(NamedTuple):
    """Over how many windows a use is averaged, and how long each is, in ms."""

    samples: int
    window_ms: int


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
        rate.record(1, now_ms=now_ms)
        if is_above := bool(rate.throttle_ms(value, now_ms=now_ms)):
            rate.record(-1, now_ms=now_ms)
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


class ClientUse:
    """The use by a client of what `quotas` limits.

    Attributes:
        is_limited: whether any quota but that of connections holds for the client.
    """

    __slots__ = ("_bucket", "_rates", "_time", "_usage", "is_limited", "quotas")

    def __init__(self, usage: Usage, user: str, client_id: str) -> None:
        self._usage, self.quotas = usage, usage.quotas
        limits = self.quotas.limits(user, client_id)
        self.is_limited = bool(limits)
        changes = limits.pop(CONTROLLER_MUTATION_RATE, None)
        self._bucket = None if changes is None else usage.bucket(changes)
        self._rates = {key: (usage.rate(key, limit), limit.value) for key, limit in limits.items()}
        self._time = self._rates.get(REQUEST_PERCENTAGE)

    def bytes_throttle_ms(self, key: str, size: int, *, takes_back: bool = False) -> int:
        """Count bytes of the rate `key`, and return the throttle time. `takes_back`: do not count bytes that exceed the quota,
        because they are not sent.
        """
        if (found := self._rates.get(key)) is None:
            return 0
        (rate, limit), now_ms = found, self._usage.now_ms()
        rate.record(size, now_ms=now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms=now_ms)
        if throttle_ms and takes_back:
            rate.record(-size, now_ms=now_ms)
        return throttle_ms

    def time_throttle_ms(self, took_ns: int) -> int:
        """Count time of the loop, and return the throttle time, which is at most a window."""
        if self._time is None:
            return 0
        (rate, limit), usage = self._time, self._usage
        now_ms = usage.now_ms()
        rate.record(took_ns * _PERCENT_PER_NS, now_ms=now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms=now_ms)
        return min(throttle_ms, usage.window.window_ms) if throttle_ms else 0

    def fetch_bytes_max(self) -> int | None:
        """Return the bytes that a response to Fetch may have: those of the whole window; None if there is no quota."""
        if (found := self._rates.get(CONSUMER_BYTE_RATE)) is None:
            return None
        window = self._usage.window
        return int(found[1] * (window.samples - 1) * window.window_ms / 1000)

    def mutations(self) -> Mutations | None:
        """Return what counts the changes of partitions by one request; None if there is no quota."""
        return None if self._bucket is None else Mutations(self._bucket, self._usage.now_ms)


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
