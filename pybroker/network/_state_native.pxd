"""The types of `_state_python`: numbers of 64 bits."""

from libc.stdint cimport int64_t


cdef class PoolState:
    cdef public int64_t open_below, size, used


cdef class AdmissionState:
    cdef public PoolState pool
    cdef public int64_t queued_requests, queued_requests_max


cdef class ContextState:
    cdef public int64_t received_ns, repeats_left, bytes_in, used, used_version
    cdef public bint is_in_order
    cdef public object repeated, used_route
