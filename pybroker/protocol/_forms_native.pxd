"""The types of `_forms_native`."""

from libc.stdint cimport int64_t, uint8_t


cdef class RequestForm:
    cdef bytes _head, _tail
    cdef bint _is_flexible
    cdef readonly int64_t correlation_id, number

    cpdef object records_in(self, object frame)
    cdef bint _finds(self, const uint8_t *data, Py_ssize_t size, Py_ssize_t *start, Py_ssize_t *end) noexcept
