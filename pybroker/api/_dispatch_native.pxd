"""The types of `_dispatch_python`: the clock, the counters and the routes are used without looking anything up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.metrics cimport _clock as time
from pybroker.metrics cimport _counts_native
from pybroker.protocol cimport _tuples as model

cdef int64_t SIZE_PREFIX
cdef int64_t NOTED_NS


@cython.final
cdef class Route:
    cdef readonly object api, lane
    cdef readonly object request, response, handle, error_codes, pieces, memo
    cdef readonly dict decoders, encoders
    cdef readonly int64_t lowest, highest
    cdef readonly _counts_native.RequestCounts metrics


cdef class Timing:
    cdef readonly int64_t received_ns, started_ns, handled_ns
    cdef public int64_t ready_ns
    cdef int64_t size
    cdef readonly _counts_native.RequestCounts metrics

    cpdef responded(self, int64_t size)
    @cython.locals(size=int64_t)
    cpdef outgoing(self, list parts)


@cython.final
cdef class Parked:
    cdef DispatcherCore _core
    cdef readonly Route route
    cdef readonly object context, request, outer
    cdef readonly Timing timing

    @cython.locals(core=DispatcherCore, timing=Timing, route=Route, took_ns=int64_t)
    cpdef finish(self, response, error)


cdef class DispatcherCore:
    cdef readonly object _broker
    cdef readonly dict _routes
    cdef public int64_t loop_elements_max

    @cython.locals(started_ns=int64_t, handled_ns=int64_t, sent_ns=int64_t, size=int64_t, none_count=int64_t, route=Route)
    cpdef object handle(self, object connection, object frame)
    @cython.locals(parked=Parked)
    cpdef object _later(
        self, Route route, object context, object request, object response, int64_t size, int64_t started_ns, int64_t handled_ns
    )
    cpdef object _decoded(self, Route route, api_version, object frame, body_offset)
    cpdef tuple _encoded(self, Route route, object context, object request, object response)
    cpdef int64_t _none_count(self, Route route, object response) except -1
