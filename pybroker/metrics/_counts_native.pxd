"""The types of `_counts_native`, for native parts of other packages that count durations."""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    BUCKETS = 64  # bit lengths 0 to 63


cdef class Counts:
    cdef uint64_t _buckets[BUCKETS]
    cdef uint64_t _sum


cdef void count(Counts counts, int64_t duration_ns) noexcept
