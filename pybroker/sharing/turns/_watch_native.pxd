"""The types of `_watch_native`, so that a native part marks its turns without looking anything up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.metrics._counts_native cimport Counts


@cython.final
cdef class Watch:
    cdef Counts _lengths
    cdef object _look, _delay
    cdef int64_t _look_ns, _apart_ns, _apart_waited_ns, _collection_ns, _collection_waited_ns, _base_ns, _base_waited_ns
    cdef unsigned long _thread
    cdef int _depth
    cdef readonly int64_t begun_ns, round_ns
    cdef int64_t _round_turns
    cdef public int64_t input_ns
    cdef public object noted

    cpdef begin(self)
    cpdef end(self, object what)
    cpdef apart(self, str what, int64_t length_ns, int64_t waited_ns)
    cpdef int64_t waited_ns(self) noexcept
    cdef int64_t _looked_at(self, object what, int64_t length_ns) except? -1
    cdef void _refresh(self, int64_t now_ns) noexcept
