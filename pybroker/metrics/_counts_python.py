"""Counts of durations in Python. Their contract is in `_counts_native.pyi`."""

from __future__ import annotations

from typing import Final

_BUCKETS: Final = 64  # bit lengths 0 to 63


class Counts:
    """See `_counts_native.pyi`."""

    __slots__ = ("_buckets", "_sum")

    def __init__(self) -> None:
        self._buckets = [0] * _BUCKETS
        self._sum = 0

    @property
    def buckets(self) -> list[int]:
        """See `_counts_native.pyi`."""
        return self._buckets.copy()

    @property
    def sum(self) -> int:
        """See `_counts_native.pyi`."""
        return self._sum

    def observe(self, duration_ns: int) -> None:
        """See `_counts_native.pyi`."""
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
    """See `_counts_native.pyi`."""
    queue.observe(queue_ns)
    local.observe(local_ns)
    remote.observe(remote_ns)
    send.observe(send_ns)
    total.observe(queue_ns + local_ns + remote_ns + send_ns)
