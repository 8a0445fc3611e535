"""The types of `_receiver_python`: numbers of 64 bits."""

cimport cython
from libc.stdint cimport int64_t


cdef class Receiver:
    cdef object _admission, _pool, _listener, _scratch, _source, _kept, _held, _refused
    cdef bytes _prefix
    cdef int64_t _ahead_used_max, _request_bytes_max, _position, _end, _frame_size, _counted
    cdef bint _is_queued
    cdef public int64_t bytes_wanted, bytes_come

    cpdef int64_t partial_bytes(self)
    @cython.locals(prefix=bytes)
    cpdef object get_buffer(self, bint is_busy)
    cpdef object received(self, int64_t count)
    @cython.locals(position=int64_t, size=int64_t, end=int64_t)
    cpdef object next_frame(self)
