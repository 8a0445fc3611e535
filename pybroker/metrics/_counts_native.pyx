# cython: boundscheck=False, wraparound=False
"""Counts of durations in C; `_counts_python` has the same, and the tests run on both."""

from libc.stdint cimport int64_t, uint64_t


cdef enum:
    BUCKETS = 64  # bit lengths 0 to 63


cdef class Counts:
    """How many durations there were of each bit length, and their sum."""

    cdef uint64_t _buckets[BUCKETS]
    cdef uint64_t _sum

    @property
    def buckets(self):
        """A snapshot of the counts."""
        return [self._buckets[index] for index in range(BUCKETS)]

    @property
    def sum(self):
        """The sum of all durations."""
        return self._sum

    def observe(self, int64_t duration_ns):
        """Count one duration."""
        count(self, duration_ns)


cdef void count(Counts counts, int64_t duration_ns) noexcept:
    cdef int bits = 0
    cdef int64_t left = duration_ns
    while left >= 256:
        left >>= 8
        bits += 8
    while left:
        left >>= 1
        bits += 1
    counts._buckets[bits] += 1
    counts._sum += duration_ns


def observe_request(
    Counts queue, Counts local, Counts remote, Counts send, Counts total,
    int64_t queue_ns, int64_t local_ns, int64_t remote_ns, int64_t send_ns,
):
    """Count the parts of a request's time, and their sum."""
    count(queue, queue_ns)
    count(local, local_ns)
    count(remote, remote_ns)
    count(send, send_ns)
    count(total, queue_ns + local_ns + remote_ns + send_ns)
