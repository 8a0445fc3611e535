"""The types of `_repeats_python`."""

from libc.stdint cimport int64_t
from pybroker.protocol cimport _forms_native


cdef class Repeated:
    cdef readonly _forms_native.RequestForm form
    cdef readonly int64_t version
    cdef readonly object client_id
    cdef public object route
    cdef public int64_t uses

    cpdef handle(self, broker, records)
