# cython: boundscheck=False, wraparound=False
"""Counts of durations and of records in C; `_counts_python` has the same, and the tests run on both."""

from libc.stdint cimport int64_t

from pybroker.metrics._counts_python import NO_ERROR

cdef str no_error = NO_ERROR


cdef class Counts:
    """How many durations there were of each bit length, and their sum."""

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


cpdef observe_request(
    Counts queue, Counts local, Counts remote, Counts send, Counts total,
    int64_t queue_ns, int64_t local_ns, int64_t remote_ns, int64_t send_ns,
):
    """Count the parts of a request's time, and their sum."""
    count(queue, queue_ns)
    count(local, local_ns)
    count(remote, remote_ns)
    count(send, send_ns)
    count(total, queue_ns + local_ns + remote_ns + send_ns)


cdef class RequestCounts:
    """The requests of one API since the start."""

    def __init__(self, Counts queue_ns, Counts local_ns, Counts remote_ns, Counts send_ns, Counts total_ns):
        self._errors = {}
        self.queue_ns = queue_ns
        self.local_ns = local_ns
        self.remote_ns = remote_ns
        self.send_ns = send_ns
        self.total_ns = total_ns

    @property
    def requests(self):
        """The count by API version."""
        return {version: self._requests[version] for version in range(VERSIONS) if self._requests[version]}

    @property
    def errors(self):
        """The count by the name of the error."""
        return {no_error: self._none_count, **self._errors} if self._none_count else dict(self._errors)

    cdef int _count_version(self, int64_t version) except -1:
        if not 0 <= version < VERSIONS:
            raise IndexError(f"no API has a version {version}")
        self._requests[version] += 1
        return 0

    cpdef completed(
        self, int64_t version, int64_t request_size, int64_t size, int64_t queue_ns, int64_t local_ns, int64_t send_ns, int64_t none_count
    ):
        """Count a request that did not wait, and its response."""
        self._count_version(version)
        self._none_count += none_count
        self.request_bytes += request_size
        self.response_bytes += size
        count(self.queue_ns, queue_ns)
        count(self.local_ns, local_ns)
        count(self.remote_ns, 0)
        count(self.send_ns, send_ns)
        count(self.total_ns, queue_ns + local_ns + send_ns)

    cpdef received(self, int64_t version, int64_t size):
        """Count a request that has no response yet."""
        self._count_version(version)
        self.request_bytes += size

    cpdef responded(self, int64_t size, int64_t queue_ns, int64_t local_ns, int64_t remote_ns, int64_t send_ns):
        """Count a response, and where its time went."""
        self.response_bytes += size
        observe_request(
            self.queue_ns, self.local_ns, self.remote_ns, self.send_ns, self.total_ns, queue_ns, local_ns, remote_ns, send_ns
        )

    cpdef error(self, str name, int64_t number):
        """Count responses with the error of this name."""
        if name == no_error:
            self._none_count += number
        elif number:
            self._errors[name] = self._errors.get(name, 0) + number


cdef class TopicCounts:
    """The counters that every append and every read of a topic changes."""

    cpdef produced(self, int64_t size, int64_t record_count):
        """Count an append of `size` bytes of batches with that many records."""
        self.produce_requests += 1
        self.bytes_in += size
        self.messages_in += record_count

    def fetched(self, int64_t size):
        """Count a read of `size` bytes of batches."""
        self.fetch_requests += 1
        self.bytes_out += size
