"""The types of `_file_end_python`: the system's `pwrite` is called without Python's module for it."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.log cimport _system as os


cdef class FileEnd:
    cdef public object _pwrite, filesystem
    cdef public int fd
    cdef public int64_t size

    @cython.locals(size=int64_t, end=int64_t, written_end=int64_t)
    cpdef append(self, data)
