# Writes numbers, bytes and records to an output that grows.
# `_codec_native.pyx` includes this file, so that C can inline what is in it.

cdef uint8_t *room(Output *out, Py_ssize_t size) except NULL:
    """Return where to write the next `size` bytes, which count as written."""
    cdef Py_ssize_t capacity
    cdef uint8_t *data
    if size > out.capacity - out.size:
        capacity = 2 * (out.size + size)
        data = <uint8_t *>PyMem_Realloc(NULL if out.data == out.stack else out.data, capacity)
        if data == NULL:
            raise MemoryError
        if out.data == out.stack:
            memcpy(data, out.stack, out.size)
        out.data, out.capacity = data, capacity
    out.size += size
    return out.data + out.size - size


cdef int put(Output *out, const uint8_t *data, Py_ssize_t size) except -1:
    copy(room(out, size), data, size)
    return 0


cdef int put_bytes(Output *out, value) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        put(out, <const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef void store(uint8_t *data, uint64_t bits, int size) noexcept:
    cdef int index
    for index in range(size - 1, -1, -1):
        data[index] = <uint8_t>bits
        bits >>= 8


cdef int store32(uint8_t *data, Py_ssize_t value) except -1:
    if value > 0x7FFFFFFF:
        raise OverflowError("a message of more than 2 GiB")
    store(data, value, 4)
    return 0


cdef int put_uvarint(Output *out, uint64_t value) except -1:
    while value > 0x7F:
        room(out, 1)[0] = <uint8_t>(value & 0x7F | 0x80)
        value >>= 7
    room(out, 1)[0] = <uint8_t>value
    return 0


cdef int put_number(Output *out, int code, value) except -1:
    cdef int64_t number, lowest, highest
    cdef double real
    cdef uint64_t bits
    cdef int size
    if code == c's':
        return put_bytes(out, value)
    if code == c'?':
        room(out, 1)[0] = PyObject_IsTrue(value)
        return 0
    if code == c'd':
        real = PyFloat_AsDouble(value)
        memcpy(&bits, &real, 8)
        store(room(out, 8), bits, 8)
        return 0
    number = PyLong_AsLongLong(value)
    if code == c'q':
        store(room(out, 8), <uint64_t>number, 8)
        return 0
    size = 1 if code in (c'b', c'B') else 2 if code in (c'h', c'H') else 4
    if code in (c'b', c'h', c'i'):
        highest = (<int64_t>1 << (8 * size - 1)) - 1
        lowest = -highest - 1
    else:
        highest = (<int64_t>1 << 8 * size) - 1
        lowest = 0
    if not lowest <= number <= highest:
        raise OverflowError(f"{number} is not in {lowest}..{highest}")
    store(room(out, size), <uint64_t>number, size)
    return 0


cdef int put_records(Output *out, records, Py_ssize_t size) except -1:
    """Append records of `size` bytes: small ones are copied, large ones become parts of their own."""
    kind = type(records)
    if kind is list or kind is tuple:
        for part in records:
            put_records(out, part, parts_size(part))
        return 0
    if size <= join_bytes_max and (kind is memoryview or kind is bytes or kind is bytearray):
        return put_bytes(out, records)
    if out.parts == NULL or out.size:
        close_part(out)
    (<list>out.parts).append(records)
    out.closed_size += size
    return 0


cdef int close_part(Output *out) except -1:
    """Make what was written since the last part a part of its own."""
    if out.parts == NULL:
        parts = []
        Py_INCREF(parts)
        out.parts = <PyObject *>parts
    (<list>out.parts).append(new_bytes(out.data, out.size))
    out.closed_size += out.size
    out.size = 0
    return 0


cdef bint differs(Step *step, value) except -1:
    """Return whether a value is not at its default."""
    if step.differs == IS_SET:
        return PyObject_IsTrue(value)
    if step.differs == IS_SET_OR_NULL:
        return value is None or PyObject_IsTrue(value)
    if step.differs == IS_NOT_NULL:
        return value is not None
    if step.differs == IS_OTHER_BOOL:
        return PyObject_IsTrue(value) != PyObject_IsTrue(<object>step.default)
    return value is not <object>step.default and value != <object>step.default
