"""The types of `_limited_python`."""

cimport cython


@cython.final
cdef class _Use:
    cdef object _broker
    cdef readonly object api, client, context

    cpdef plain(self, message)
