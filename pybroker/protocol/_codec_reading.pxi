# Reads numbers, lengths and values of fields; every read is checked against the cursor's end.
# `_codec_native.pyx` includes this file, so that C can inline what is in it.

cdef int need(Cursor *cursor, Py_ssize_t size) except -1:
    if size > cursor.end - cursor.position:
        raise IndexError
    return 0


cdef int spend(Cursor *cursor, Py_ssize_t count) except -1:
    """Count elements, or what weighs as much, before there is anything made of them."""
    if count > cursor.elements_left:
        raise too_many()
    cursor.elements_left -= count
    return 0


cdef uint64_t load(const uint8_t *data, int size) noexcept:
    cdef uint64_t value = 0
    cdef int index
    for index in range(size):
        value = value << 8 | data[index]
    return value


cdef uint32_t read_uvarint(Cursor *cursor) except? 0xFFFFFFFF:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if cursor.position >= cursor.end:
            raise IndexError
        byte = cursor.data[cursor.position]
        cursor.position += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 35:
            raise DecodeError("a varint of more than 5 bytes")
    if value > 0xFFFFFFFF:
        raise DecodeError("a varint of more than 32 bits")
    return <uint32_t>value


cdef Py_ssize_t read_length(Cursor *cursor, bint is_short, bint is_nullable, bint is_flexible) except? -2:
    """Read a length or count; -1 is null."""
    cdef Py_ssize_t length
    if is_flexible:
        length = <Py_ssize_t>read_uvarint(cursor) - 1
    elif is_short:
        need(cursor, 2)
        length = <int16_t>load(cursor.data + cursor.position, 2)
        cursor.position += 2
    else:
        need(cursor, 4)
        length = <int32_t>load(cursor.data + cursor.position, 4)
        cursor.position += 4
    if length < 0 and (length != -1 or not is_nullable):
        raise bad_length(length)
    return length


cdef object read_number(Cursor *cursor, int code):
    cdef const uint8_t *data = cursor.data + cursor.position
    cdef uint64_t bits
    cdef double real
    cdef int size = 1 if code in (c'b', c'B', c'?') else 2 if code in (c'h', c'H') else 4 if code in (c'i', c'I') else 8
    if code == c's':
        size = 16
    need(cursor, size)
    cursor.position += size
    if code == c'i':
        return <int32_t>load(data, 4)
    if code == c'q':
        return <int64_t>load(data, 8)
    if code == c'h':
        return <int16_t>load(data, 2)
    if code == c'b':
        return <int8_t>data[0]
    if code == c's':
        return PyBytes_FromStringAndSize(<const char *>data, 16)
    if code == c'?':
        return data[0] != 0
    if code == c'H':
        return <uint16_t>load(data, 2)
    if code == c'I':
        return <uint32_t>load(data, 4)
    if code == c'B':
        return data[0]
    bits = load(data, 8)
    memcpy(&real, &bits, 8)
    return PyFloat_FromDouble(real)


cdef object read_value(Cursor *cursor, Step *step, int kind, bint is_nullable, bint is_flexible):
    cdef Py_ssize_t length, start
    cdef int marker
    if kind == NUMBER:
        return read_number(cursor, step.code)
    if kind == STRUCT:
        if is_nullable:
            need(cursor, 1)
            marker = <int8_t>cursor.data[cursor.position]
            cursor.position += 1
            if marker == -1:
                return None
            if marker != 1:
                raise bad_length(marker)
        return (<Plan>step.plan)._read(cursor)
    length = read_length(cursor, kind == TEXT, is_nullable, is_flexible)
    if length < 0:
        return None
    if kind == ARRAY:
        if length * step.least > cursor.end - cursor.position:
            raise too_short(length)
        spend(cursor, length)
        elements = PyList_New(length) if step.least else []
        read_elements(cursor, step, is_flexible, elements, length)
        return elements
    if length > cursor.end - cursor.position:
        raise too_short(length)
    start = cursor.position
    cursor.position += length
    if length > weightless_bytes and kind != RECORDS:
        spend(cursor, length // weightless_bytes)
    if kind == TEXT:
        if length > text_bytes_max:
            raise bad_length(length)
        return PyUnicode_DecodeUTF8(<const char *>cursor.data + start, length, NULL)
    if kind == BYTES:
        return new_bytes(cursor.data + start, length)
    return (<object>cursor.source)[start : start + length]


cdef int read_elements(Cursor *cursor, Step *step, bint is_flexible, list elements, Py_ssize_t length) except -1:
    """Read the elements of an array into a list, which has places for them unless they may be empty."""
    cdef Py_ssize_t index
    for index in range(length):
        value = read_value(cursor, step, step.element, False, is_flexible)
        if step.least:
            Py_INCREF(value)
            PyList_SET_ITEM(elements, index, value)
        else:
            elements.append(value)
    return 0


cdef bytes new_bytes(const uint8_t *data, Py_ssize_t size):
    """Return a copy. The interpreter is released meanwhile if it takes long."""
    cdef bytes copied
    if size <= copied_at_once_bytes:
        return PyBytes_FromStringAndSize(<const char *>data, size)
    copied = PyBytes_FromStringAndSize(NULL, size)
    copy(<uint8_t *>PyBytes_AS_STRING(copied), data, size)
    return copied


cdef void copy(uint8_t *to, const uint8_t *data, size_t size) noexcept:
    if <Py_ssize_t>size <= copied_at_once_bytes:
        memcpy(to, data, size)
        return
    with nogil:
        memcpy(to, data, size)
