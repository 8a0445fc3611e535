"""The types of `_limited_python`."""

cimport cython
from libc.stdint cimport int64_t
from pybroker cimport _clock as time
from pybroker.security.quotas cimport _usage_native


cdef class _Use:
    cdef object _broker
    cdef readonly object api, context
    cdef readonly _usage_native.ClientUse client

    cpdef plain(self, message)
    cpdef handle(self, message)
    @cython.locals(started_ns=int64_t, took_ns=int64_t, client=_usage_native.ClientUse)
    cdef _handled(self, way, message, counted)
    @cython.locals(client=_usage_native.ClientUse)
    cdef _finished(self, response, took_ns, counted)
    cdef _throttle_ms(self, _response, _counted, now_ms)
    cdef _replaced(self, response, _counted)


cdef class _ProduceUse(_Use):
    @cython.locals(size=int64_t)
    cpdef handle(self, message)
    cpdef handle_records(self, way, records)


cdef class _FetchUse(_Use):
    @cython.locals(size=int64_t)
    cdef _throttle_ms(self, _response, _counted, now_ms)


cdef class _MutatingUse(_Use):
    pass
