"""The types of `_counters_python`: numbers of 64 bits."""

from libc.stdint cimport int64_t


cdef class ListenerCounters:
    cdef public str name
    cdef public int64_t connections_open, connections_created, connections_closed, connections_refused, connections_expired
    cdef public int64_t protocol_violations, bytes_in, bytes_out, requests
