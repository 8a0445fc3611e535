"""Counts the requests of each API: plain ints that the dispatcher increments.

A request's time has Kafka's four parts, which add up to the total: queue (before the handler begins), local (in the handler),
remote (parked: waiting for data, replicas or time), send (from the finished response until it is handed over).

Source: RequestChannel.RequestMetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metrics.counts import RequestCounts
from pybroker.metrics.histogram import Histogram


class RequestMetrics(RequestCounts):
    """The requests of one API since the start, with the API's name.

    `completed` counts a request that did not wait; `received`, `responded` and `error` count others.
    """

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
