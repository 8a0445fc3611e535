"""The types of `_tail_python`: numbers of 64 bits."""

cimport cython
from libc.stdint cimport int64_t

cdef int64_t RELATIVE_OFFSET_MAX
cdef int64_t RECENT_BATCHES
cdef int64_t NO_TIMESTAMP
cdef int UNUSUAL, WRITTEN, ENTRY_DUE


cdef class SegmentTail:
    cdef public int64_t base_offset, size, jitter_ms, created_ms, index_interval, bytes_since_entry
    cdef public int64_t first_timestamp, max_timestamp, offset_of_max_timestamp
    cdef public bint is_first_known, is_max_known, has_index_room
    cdef public dict recent, older

    @cython.locals(age_ms=int64_t)
    cpdef bint should_roll(
        self, int64_t size, int64_t last_offset, int64_t max_timestamp, int64_t now_ms, int64_t segment_bytes, int64_t segment_ms,
        bint is_index_full,
    ) except -1
    cdef bint _is_entry_due(self) noexcept
    @cython.locals(is_entry_due=bint)
    cpdef bint note(self, int64_t size, int64_t max_timestamp, int64_t offset_of_max_timestamp) except -1
    cpdef bint lengthen(self, int64_t size, int64_t max_timestamp, int64_t offset_of_max_timestamp) except -1
    cpdef int remember(self, base_offset, int64_t position, int64_t size) except -1
    cpdef recent_place(self, base_offset)
    @cython.locals(size=int64_t, position=int64_t, batch_size=int64_t, is_entry_due=bint)
    cpdef int append(
        self, file, data, first_offset, int64_t last_offset, int64_t max_timestamp, int64_t offset_of_max_timestamp, int64_t now_ms,
        int64_t segment_bytes, int64_t segment_ms, list places,
    ) except -1
