"""Counts of durations in ns, of requests and of records, in Python: the contract, and the code that runs without the native part.

One thread writes, others may read.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Counts", "RequestCounts", "TopicCounts", "observe_request"]

NO_ERROR: Final = "NONE"
"""The key in `RequestCounts.errors` of what has no error."""


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


class RequestCounts:
    """The requests of one API since the start; sizes in bytes with their 4-byte prefix, times in ns.

    Attributes:
        requests: the count by API version, from 0 to 63; as `errors` to be read only, and perhaps a snapshot.
        errors: the count by the name of the error in the response, "NONE" included, as in Kafka.
        queue_ns, local_ns, remote_ns, send_ns, total_ns: where the time of the requests went.
    """

    __slots__ = (
        "errors",
        "local_ns",
        "queue_ns",
        "remote_ns",
        "request_bytes",
        "requests",
        "response_bytes",
        "send_ns",
        "total_ns",
    )

    def __init__(self, queue_ns: Counts, local_ns: Counts, remote_ns: Counts, send_ns: Counts, total_ns: Counts) -> None:
        self.requests: dict[int, int] = {}
        self.errors: dict[str, int] = {}
        self.request_bytes = 0
        self.response_bytes = 0
        self.queue_ns = queue_ns
        self.local_ns = local_ns
        self.remote_ns = remote_ns
        self.send_ns = send_ns
        self.total_ns = total_ns

    def completed(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self, version: int, request_size: int, size: int, queue_ns: int, local_ns: int, send_ns: int, none_count: int
    ) -> None:
        """Count a request that did not wait, and its response, in which `none_count` codes are NONE."""
        self.requests[version] = self.requests.get(version, 0) + 1
        if none_count:
            self.errors[NO_ERROR] = self.errors.get(NO_ERROR, 0) + none_count
        self.request_bytes += request_size
        self.response_bytes += size
        observe_request(self.queue_ns, self.local_ns, self.remote_ns, self.send_ns, self.total_ns, queue_ns, local_ns, 0, send_ns)

    def received(self, version: int, size: int) -> None:
        """Count a request of `size` bytes that has no response yet."""
        self.requests[version] = self.requests.get(version, 0) + 1
        self.request_bytes += size

    def responded(self, size: int, queue_ns: int, local_ns: int, remote_ns: int, send_ns: int) -> None:
        """Count a response of `size` bytes, 0 where there is none, and where its time went."""
        self.response_bytes += size
        observe_request(
            self.queue_ns, self.local_ns, self.remote_ns, self.send_ns, self.total_ns, queue_ns, local_ns, remote_ns, send_ns
        )

    def error(self, name: str, number: int) -> None:
        """Count responses with the error of this name."""
        if number:
            self.errors[name] = self.errors.get(name, 0) + number


class TopicCounts:
    """The counters that every append and every read of a topic changes: requests, records and bytes of record batches."""

    __slots__ = ("bytes_in", "bytes_out", "fetch_requests", "messages_in", "produce_requests")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.fetch_requests = 0
        self.messages_in = 0
        self.produce_requests = 0

    def produced(self, size: int, record_count: int) -> None:
        """Count an append of `size` bytes of batches with that many records."""
        self.produce_requests += 1
        self.bytes_in += size
        self.messages_in += record_count

    def fetched(self, size: int) -> None:
        """Count a read of `size` bytes of batches."""
        self.fetch_requests += 1
        self.bytes_out += size
