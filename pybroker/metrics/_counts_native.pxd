"""The types of `_counts_native`, for native parts of other packages that count durations."""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    BUCKETS = 64  # bit lengths 0 to 63
    VERSIONS = 64


cdef class Counts:
    cdef uint64_t _buckets[BUCKETS]
    cdef uint64_t _sum


cdef void count(Counts counts, int64_t duration_ns) noexcept


cdef class RequestCounts:
    cdef int64_t _requests[VERSIONS]
    cdef int64_t _none_count
    cdef dict _errors
    cdef public int64_t request_bytes, response_bytes
    cdef readonly Counts queue_ns, local_ns, remote_ns, send_ns, total_ns

    cdef int _count_version(self, int64_t version) except -1
    cpdef completed(
        self, int64_t version, int64_t request_size, int64_t size, int64_t queue_ns, int64_t local_ns, int64_t send_ns, int64_t none_count
    )
    cpdef received(self, int64_t version, int64_t size)
    cpdef responded(self, int64_t size, int64_t queue_ns, int64_t local_ns, int64_t remote_ns, int64_t send_ns)
    cpdef error(self, str name, int64_t number)


cpdef observe_request(
    Counts queue, Counts local, Counts remote, Counts send, Counts total,
    int64_t queue_ns, int64_t local_ns, int64_t remote_ns, int64_t send_ns,
)


cdef class TopicCounts:
    cdef public int64_t bytes_in, bytes_out, fetch_requests, messages_in, produce_requests

    cpdef produced(self, int64_t size, int64_t record_count)
