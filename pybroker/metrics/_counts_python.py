"""Counts of durations in ns, in Python: the contract, and the code that runs where the native part was not built.

One thread writes, others may read.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Counts", "observe_request"]

_BUCKETS: Final = 64  # bit lengths 0 to 63


class Counts:
    """The number of durations of each bit length, 0 to 63, and their sum."""

    __slots__ = ("_buckets", "_sum")

    def __init__(self) -> None:
        self._buckets = [0] * _BUCKETS
        self._sum = 0

    @property
    def buckets(self) -> list[int]:
        """A snapshot of the counts."""
        return self._buckets.copy()

    @property
    def sum(self) -> int:
        """The sum of all durations."""
        return self._sum

    def observe(self, duration_ns: int) -> None:
        """Count one duration, >= 0 and below 2^63."""
        self._buckets[duration_ns.bit_length()] += 1
        self._sum += duration_ns


def observe_request(  # noqa: PLR0917  (a call by position is a third of a call by name)
    queue: Counts,
    local: Counts,
    remote: Counts,
    send: Counts,
    total: Counts,
    queue_ns: int,
    local_ns: int,
    remote_ns: int,
    send_ns: int,
) -> None:
    """Count the parts of a request's time, and their sum."""
    queue.observe(queue_ns)
    local.observe(local_ns)
    remote.observe(remote_ns)
    send.observe(send_ns)
    total.observe(queue_ns + local_ns + remote_ns + send_ns)
