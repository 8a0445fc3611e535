"""The types of `_receiver_python`: numbers of 64 bits."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.network cimport _sizes as sizes
from pybroker.network cimport _state_native

cdef int64_t PREFIX_BYTES


cdef class Receiver:
    cdef _state_native.AdmissionState _admission
    cdef _state_native.PoolState _pool
    cdef object _listener, _scratch, _source, _kept, _held, _refused
    cdef bytes _prefix
    cdef int64_t _ahead_used_max, _request_bytes_max, _position, _end, _frame_size, _large_bytes, _counted
    cdef bint _is_queued
    cdef public int64_t bytes_wanted, bytes_come

    @cython.locals(here=int64_t)
    cpdef bint has_more(self)
    cpdef int64_t partial_bytes(self)
    @cython.locals(prefix=bytes, admission=_state_native.AdmissionState)
    cpdef object get_buffer(self, bint is_busy)
    cpdef object received(self, int64_t count)
    @cython.locals(position=int64_t, size=int64_t, end=int64_t)
    cpdef object next_frame(self)
