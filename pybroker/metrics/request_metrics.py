"""Counts the requests of each API: plain ints that the dispatcher increments.

A request's time has Kafka's four parts, which add up to the total: queue (before the handler begins), local (in the handler),
remote (parked: waiting for data, replicas or time), send (from the finished response until it is handed over).

Source: RequestChannel.RequestMetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metrics.counts import RequestCounts, observe_request
from pybroker.metrics.histogram import Histogram


class RequestMetrics(RequestCounts):
    """The requests of one API since the start, with the API's name. `at_once` counts a request that did not wait."""

    __slots__ = ("name",)

    if TYPE_CHECKING:
        queue_ns: Histogram
        local_ns: Histogram
        remote_ns: Histogram
        send_ns: Histogram
        total_ns: Histogram

    def __init__(self, name: str) -> None:
        """Start at zero; `name` is Kafka's for the API, for example "ListOffsets"."""
        super().__init__(Histogram(), Histogram(), Histogram(), Histogram(), Histogram())
        self.name = name

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

    def error(self, name: str, count: int = 1) -> None:
        """Count responses with the error of this name."""
        if count:
            self.errors[name] = self.errors.get(name, 0) + count
