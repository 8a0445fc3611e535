"""The system's calls that appends and fetches make, as Python's `os` makes them."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t

cdef extern from "unistd.h" nogil:
    ssize_t c_pread "pread" (int descriptor, void *buffer, size_t size, int64_t position)
    ssize_t c_pwrite "pwrite" (int descriptor, const void *buffer, size_t size, int64_t position)


cdef inline int64_t pwrite(int fd, object data, int64_t position) except -1:
    """Write at a position, and return how many bytes were written. The interpreter is free meanwhile. Raises OSError."""
    cdef Py_buffer view
    cdef ssize_t written
    cdef int error = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while True:
            with nogil:
                written = c_pwrite(fd, view.buf, view.len, position)
                if written < 0:
                    error = errno
            if written >= 0:
                return written
            if error != EINTR:
                errno = error
                PyErr_SetFromErrno(OSError)
            PyErr_CheckSignals()
    finally:
        PyBuffer_Release(&view)


cdef inline bytes pread(int fd, int64_t length, int64_t position):
    """Return at most `length` bytes from a position, fewer only at the end of the file. The interpreter is free meanwhile. Raises
    OSError.
    """
    cdef bytes data = PyBytes_FromStringAndSize(NULL, length)
    cdef char *start = PyBytes_AS_STRING(data)
    cdef ssize_t count
    cdef int error = 0
    while True:
        with nogil:
            count = c_pread(fd, start, length, position)
            if count < 0:
                error = errno
        if count == length:
            return data
        if count >= 0:
            return data[:count]
        if error != EINTR:
            errno = error
            PyErr_SetFromErrno(OSError)
        PyErr_CheckSignals()
