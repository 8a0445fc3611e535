"""Counts of durations in ns; `_counts_python` has the same. One thread writes, others may read."""

class Counts:
    """How many durations there were of each bit length, 0 to 63, and their sum."""

    __slots__ = ()
    @property
    def buckets(self) -> list[int]:
        """A snapshot."""

    @property
    def sum(self) -> int:
        """Of all durations."""

    def observe(self, duration_ns: int) -> None:
        """Count one duration, >= 0 and below 2^63."""

def observe_request(
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
