"""Counts the requests of each API: plain ints that the dispatcher increments.

A request's time has Kafka's four parts, which add up to the total: queue (before the handler begins), local (in the handler),
remote (parked: waiting for data, replicas or time), send (from the finished response until it is handed over).

Source: RequestChannel.RequestMetrics.
"""

from __future__ import annotations

from pybroker.metrics.counts import observe_request
from pybroker.metrics.histogram import Histogram


class RequestMetrics:
    """The requests of one API since the start; sizes in bytes with their 4-byte prefix, times in ns."""

    __slots__ = (
        "errors",
        "local_ns",
        "name",
        "queue_ns",
        "remote_ns",
        "request_bytes",
        "requests",
        "response_bytes",
        "send_ns",
        "total_ns",
    )

    def __init__(self, name: str) -> None:
        """Start at zero; `name` is Kafka's for the API, for example "ListOffsets"."""
        self.name = name
        self.requests: dict[int, int] = {}
        """Count by API version."""
        self.errors: dict[str, int] = {}
        """Count by the name of the error in the response, "NONE" included, as in Kafka."""
        self.request_bytes = 0
        self.response_bytes = 0
        self.queue_ns = Histogram()
        self.local_ns = Histogram()
        self.remote_ns = Histogram()
        self.send_ns = Histogram()
        self.total_ns = Histogram()

    def received(self, version: int, *, size: int) -> None:
        """Count a request of `size` bytes."""
        self.requests[version] = self.requests.get(version, 0) + 1
        self.request_bytes += size

    def responded(self, size: int, *, queue_ns: int, local_ns: int, remote_ns: int, send_ns: int) -> None:
        """Count a response of `size` bytes, 0 where there is none, and where its time went."""
        self.response_bytes += size
        observe_request(
            self.queue_ns, self.local_ns, self.remote_ns, self.send_ns, self.total_ns, queue_ns, local_ns, remote_ns, send_ns
        )

    def at_once(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self, version: int, request_size: int, size: int, queue_ns: int, local_ns: int, send_ns: int
    ) -> None:
        """Count a request that did not wait: `received` and `responded` in one."""
        self.requests[version] = self.requests.get(version, 0) + 1
        self.request_bytes += request_size
        self.response_bytes += size
        observe_request(self.queue_ns, self.local_ns, self.remote_ns, self.send_ns, self.total_ns, queue_ns, local_ns, 0, send_ns)

    def error(self, name: str, count: int = 1) -> None:
        """Count responses with the error of this name."""
        self.errors[name] = self.errors.get(name, 0) + count
