"""Reads the size of a request in C, as `sizes.py` does in Python."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t


cdef inline int64_t size_at(object buffer, int64_t position) except? -1:
    """Return what `pybroker.network.sizes.size_at` returns."""
    cdef Py_buffer view
    cdef const uint8_t *data
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= view.len - 4:
            raise IndexError(f"no size at {position}")
        data = <const uint8_t *>view.buf + position
        return <int32_t>(<uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3])
    finally:
        PyBuffer_Release(&view)
