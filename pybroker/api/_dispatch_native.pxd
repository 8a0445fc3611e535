"""The types of `_dispatch_python`: the clock, the counters and the routes are used without looking anything up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.metrics cimport _clock as time
from pybroker.metrics cimport _counts_native

cdef int64_t SIZE_PREFIX
cdef int64_t NOTED_NS


@cython.final
cdef class Route:
    cdef readonly object api, lane
    cdef readonly object request, response, handle, error_codes, pieces, memo
    cdef readonly int64_t lowest, highest
    cdef readonly _counts_native.RequestCounts metrics


cdef class DispatcherCore:
    cdef readonly object _broker
    cdef readonly dict _routes
    cdef public int64_t at_once_elements

    @cython.locals(started_ns=int64_t, handled_ns=int64_t, sent_ns=int64_t, size=int64_t, none_count=int64_t, route=Route)
    cpdef object handle(self, object connection, object frame)
    cpdef tuple _encoded(self, object api, object context, object request, object response)
