"""The types of `_file_end_python`: the system's `pread` and `pwrite` are called without Python's module for them."""

cimport cython
from libc.stdint cimport int64_t
from pybroker.log cimport _system as os


cdef class FileEnd:
    cdef public object _pread, _pwrite, filesystem, path
    cdef public bint is_growing
    cdef public int fd
    cdef public int64_t size

    @cython.locals(size=int64_t, end=int64_t, written_end=int64_t)
    cpdef append(self, data)
    @cython.locals(data=bytes)
    cpdef bytes pread(self, int64_t length, int64_t position)


cdef class FileSlice:
    cdef readonly FileEnd file
    cdef readonly int64_t position, size
    cdef public int64_t sent

    @cython.locals(file=FileEnd, size=int64_t, is_young=bint)
    cpdef bytes copied(self, int64_t bytes_max)
