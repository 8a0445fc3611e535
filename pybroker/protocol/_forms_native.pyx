# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Requests that are like one before, in C. The contract is in `_forms_python.py`; the tests run on both."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from pybroker.protocol._forms_python import CORRELATION_ID_AT, CORRELATION_ID_END, LENGTH_BYTES, NUMBER_BYTES

cdef enum:
    ID_AT = 4
    ID_END = 8
    NUMBER = 4
    LENGTH = 4

assert (ID_AT, ID_END, NUMBER, LENGTH) == (CORRELATION_ID_AT, CORRELATION_ID_END, NUMBER_BYTES, LENGTH_BYTES)


cdef int32_t number_at(const uint8_t *data) noexcept:
    return <int32_t>(<uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3])


cdef Py_ssize_t after_length(const uint8_t *data, Py_ssize_t size, Py_ssize_t position, int64_t *length) noexcept:
    """Read the length of records, an unsigned varint; return the position after it, or -1 if there is none of 32 bits."""
    cdef uint64_t value = 0
    cdef int shift
    for shift in range(0, 35, 7):
        if position >= size:
            return -1
        value |= <uint64_t>(data[position] & 0x7F) << shift
        position += 1
        if data[position - 1] < 0x80:
            length[0] = <int64_t>value - 1
            return position if value <= 0xFFFFFFFF else -1
    return -1


cdef class RequestForm:
    """Requests that differ only in the correlation id, in one number of 32 bits, and in the records behind this number."""

    def __init__(self, bytes head not None, bytes tail not None, bint is_flexible):
        if len(head) < ID_END:
            raise ValueError("a request begins with a header")
        self._head = head
        self._tail = tail
        self._is_flexible = is_flexible

    cpdef object records_in(self, object frame):
        """Return the records of a request of this form, a slice of its `frame`, which is borrowed; None for any other."""
        cdef Py_buffer view
        cdef Py_ssize_t start = 0, end = 0
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        try:
            if not self._finds(<const uint8_t *>view.buf, view.len, &start, &end):
                return None
        finally:
            PyBuffer_Release(&view)
        return frame[start:end]

    cdef bint _finds(self, const uint8_t *data, Py_ssize_t size, Py_ssize_t *start, Py_ssize_t *end) noexcept:
        """Return whether the bytes are a request of this form, and where its records begin and end."""
        cdef const char *head = PyBytes_AS_STRING(self._head)
        cdef Py_ssize_t at = PyBytes_GET_SIZE(self._head)
        cdef Py_ssize_t tail_size = PyBytes_GET_SIZE(self._tail)
        cdef Py_ssize_t position = at + NUMBER
        cdef int64_t length = -1
        if size < position + LENGTH and not (self._is_flexible and size > position):
            return False
        if memcmp(data, head, ID_AT) or memcmp(data + ID_END, head + ID_END, at - ID_END):
            return False
        if self._is_flexible:
            position = after_length(data, size, position, &length)
        else:
            length = number_at(data + position)
            position += LENGTH
        if position < 0 or length < 0 or position + length + tail_size != size:
            return False
        if memcmp(data + position + length, PyBytes_AS_STRING(self._tail), tail_size):
            return False
        start[0] = position
        end[0] = position + length
        self.correlation_id = number_at(data + ID_AT)
        self.number = number_at(data + at)
        return True
