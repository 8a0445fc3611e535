"""The types of `_usage_python`."""

cimport cython

cdef double _MS_PER_S
cdef double _PERCENT_PER_NS


cdef class Rate:
    cdef object __weakref__
    cdef list _samples
    cdef long _samples_max, _window_ms
    cdef double _before, _shortest_s

    cpdef use(self, double value, double limit, double now_ms)
    cpdef record(self, double value, double now_ms)
    cpdef throttle_ms(self, double limit, double now_ms)
    cdef _sum_up(self)
    cpdef measured(self, double now_ms)


cdef class ClientUse:
    cdef object _window
    cdef dict _rates
    cdef Rate _time_rate
    cdef double _time_limit
    cdef readonly object bucket, now_ms, quotas
    cdef readonly bint is_limited

    @cython.locals(rate=Rate)
    cpdef bytes_throttle_ms(self, str key, double size, double now_ms, bint takes_back=*)
    cpdef time_throttle_ms(self, double took_ns, double now_ms)
    cpdef fetch_bytes_max(self)


cdef class Usage:
    cdef object _addresses, _buckets, _clients, _controller_window, _rates
    cdef readonly object now_ms, window
    cdef public object quotas

    @cython.locals(found=ClientUse)
    cpdef of(self, principal, client_id)
