"""The types of `_dispatch_python`: the clock, the counters and the routes are used without looking anything up."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.api.produce cimport _repeats_native
from pybroker cimport _clock as time
from pybroker.metrics cimport _counts_native
from pybroker.network cimport _state_native
from pybroker.protocol cimport _tuples as model

cdef int64_t SIZE_PREFIX
cdef int64_t NOTED_NS


@cython.final
cdef class Route:
    cdef readonly object api
    cdef readonly object request, response, handle, error_codes, pieces, memo, repeats
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
    cdef readonly object _elements_max

    @cython.locals(started_ns=int64_t, repeated=_repeats_native.Repeated)
    cpdef object handle(self, _state_native.ContextState connection, object frame)
    @cython.locals(size=int64_t, route=Route)
    cdef object _handled(self, _state_native.ContextState connection, object frame, int64_t started_ns)
    @cython.locals(handled_ns=int64_t, route=Route)
    cdef object _handled_again(
        self, _state_native.ContextState connection, _repeats_native.Repeated repeated, object frame, object records, int64_t started_ns
    )
    @cython.locals(none_count=int64_t)
    cdef object _finished(
        self, Route route, object context, object request, object response, int64_t size, int64_t started_ns, int64_t handled_ns,
        object memo_key,
    )
    @cython.locals(sent_ns=int64_t)
    cdef object _count(
        self, Route route, _state_native.ContextState connection, int64_t api_version, int64_t size, int64_t response_size,
        int64_t started_ns, int64_t handled_ns, int64_t none_count,
    )
    @cython.locals(parked=Parked)
    cdef object _later(
        self, Route route, object context, object request, object response, int64_t size, int64_t started_ns, int64_t handled_ns
    )
    cpdef object _decoded(self, Route route, api_version, object frame, body_offset)
    cpdef tuple _encoded(self, Route route, object context, object request, object response)
    cpdef int64_t _none_count(self, Route route, object response) except -1
