# cython: boundscheck=False, wraparound=False, cdivision=True
"""Records of magic 2 as messages of magic 0 and 1, and back, natively. The contract is in `_conversions_python.py`; the tests run on
both.

Bounds are checked by hand, because the input may be hostile: every read against the end of its record, every write
against the end of its output.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from pybroker.records._crc cimport pb_crc32, pb_crc32c, pb_crc32c_init, pb_crc_init, pb_has_crc32c
from pybroker.records._numbers cimport *

from crc32c import crc32c

from pybroker.records import batch
from pybroker.records._conversions_python import PLAIN_BYTES_MAX
from pybroker.records.errors import record_fault

cdef extern from "Python.h":  # bytes that are made larger than they turn out to be
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t size) except NULL
    char *bytes_at "PyBytes_AS_STRING"(PyObject *data)
    int resize_bytes "_PyBytes_Resize"(PyObject **data, Py_ssize_t size) except -1

cdef enum:
    RELEASE_GIL_BYTES = 262144

cdef enum:
    LOG_APPEND_TIME_BIT = 0x08
    NOT_PLAIN_BITS = 0x27  # a codec, or control

cdef int64_t plain_bytes_max = PLAIN_BYTES_MAX

include "_header.pxi"
include "_records.pxi"


check_faults()
if [LOG_APPEND_TIME_BIT, NOT_PLAIN_BITS] != [batch.LOG_APPEND_TIME_BIT, batch.COMPRESSION_MASK | batch.CONTROL_BIT]:
    raise ImportError("the bits of a batch's attributes differ from those in batch.py")
pb_crc_init(1)
pb_crc32c_init(1)


def _use_crc32c(bint enabled):
    """Choose how `down_convert_batches` computes checksums, for tests; this has no effect where there is no choice."""
    pb_crc32c_init(enabled)


cdef struct Conversion:
    int64_t base_offset
    int64_t base_timestamp
    bint is_log_append_time
    int64_t log_append_time
    int magic
    int64_t first_offset
    bint is_relative
    # results
    int64_t written
    int64_t kept
    int64_t first_kept
    int64_t last_kept
    int64_t max_timestamp


# --- down

cdef inline int64_t message_size(Parsed *record, int magic) noexcept nogil:
    return (34 if magic else 26) + (record.key.size if record.key.size > 0 else 0) + (
        record.value.size if record.value.size > 0 else 0)


cdef int measure(Bytes p, Bytes end, int64_t count, Conversion *c, int64_t *size) noexcept nogil:
    cdef Parsed record
    cdef int64_t index
    cdef int64_t offset = 0
    cdef int fault
    size[0] = 0
    for index in range(count):
        fault = parse_record(p, end, &record)
        if fault != FINE:
            return fault
        p = record.next
        if pb_sum(c.base_offset, record.offset_delta, &offset):
            return OUT_OF_RANGE
        if offset >= c.first_offset:
            size[0] += message_size(&record, c.magic)
    return FINE if p == end else BYTES_LEFT


cdef inline uint8_t *put_field(uint8_t *out, Field *field) noexcept nogil:
    if field.size < 0:
        put_int32(out, -1)
        return out + 4
    put_int32(out, field.size)
    memcpy(out + 4, field.data, field.size)
    return out + 4 + field.size


cdef inline void put_message(uint8_t *out, int64_t size, int64_t offset, int64_t timestamp, Parsed *record, Conversion *c) noexcept nogil:
    cdef uint8_t *fields = out + 18
    put_int64(out, offset)
    put_int32(out + 8, size - 12)
    out[16] = <uint8_t>c.magic
    out[17] = 0x08 if c.magic and c.is_log_append_time else 0
    if c.magic:
        put_int64(out + 18, timestamp)
        fields = out + 26
    put_field(put_field(fields, &record.key), &record.value)
    put_int32(out + 12, pb_crc32(out + 16, size - 16))


cdef int convert(Bytes p, Bytes end, int64_t count, Conversion *c, uint8_t *out, int64_t room) noexcept nogil:
    cdef Parsed record
    cdef int64_t index, size
    cdef int64_t offset = 0
    cdef int64_t timestamp = 0
    cdef uint8_t *start = out
    cdef int fault
    c.written = c.kept = c.first_kept = 0
    c.last_kept = c.max_timestamp = -1
    for index in range(count):
        fault = parse_record(p, end, &record)
        if fault != FINE:
            return fault
        p = record.next
        if pb_sum(c.base_offset, record.offset_delta, &offset):
            return OUT_OF_RANGE
        if c.is_log_append_time:
            timestamp = c.log_append_time
        elif pb_sum(c.base_timestamp, record.timestamp_delta, &timestamp):
            return OUT_OF_RANGE
        if offset < c.first_offset:
            continue
        if c.kept == 0:
            c.first_kept = offset
        c.kept += 1
        c.last_kept = offset
        if timestamp > c.max_timestamp:
            c.max_timestamp = timestamp
        if c.is_relative:
            offset -= c.first_kept  # both are within 32 bits of the base offset
        size = message_size(&record, c.magic)
        if size > room - (out - start):
            return BYTES_LEFT  # the buffer was changed meanwhile
        put_message(out, size, offset, timestamp, &record, c)
        out += size
    c.written = out - start
    return FINE if p == end else BYTES_LEFT


# --- up

cdef struct Message:
    int64_t timestamp
    Field key
    Field value


cdef int parse_message(Bytes p, Bytes end, int magic, Message *message) noexcept nogil:
    cdef int fault
    if p[4] > 1:
        return WRONG_MAGIC
    if pb_crc32(p + 4, end - p - 4) != <uint32_t>get_int32(p):
        return CHECKSUM
    if p[4] != magic:
        return WRONG_MAGIC
    if p[5] & 0x07:
        return NESTED
    p += 6
    message.timestamp = -1
    if magic:
        if end - p < 8:
            return MESSAGE_FIELDS
        message.timestamp = get_int64(p)
        p += 8
    fault = read_message_field(&p, end, &message.key)
    if fault != FINE:
        return fault
    fault = read_message_field(&p, end, &message.value)
    if fault != FINE:
        return fault
    return FINE if p == end else MESSAGE_FIELDS


cdef inline uint8_t *put_varint_field(uint8_t *out, Field *field) noexcept nogil:
    if field.size < 0:
        return put_varlong(out, -1)
    out = put_varlong(out, field.size)
    memcpy(out, field.data, field.size)
    return out + field.size


cdef inline int64_t varint_field_size(Field *field) noexcept nogil:
    return 1 if field.size < 0 else varlong_size(field.size) + field.size


cdef struct Upward:
    int magic
    bint is_log_append_time
    int64_t log_append_time
    # of the messages before, then of all
    int64_t count
    int64_t base_timestamp
    # results
    int64_t read
    int64_t written
    Scan scan


cdef int lift(Bytes p, Bytes end, Upward *u, uint8_t *out, int64_t room) noexcept nogil:
    cdef Message message
    cdef int64_t size, body
    cdef int64_t delta = 0
    cdef Bytes first = p
    cdef uint8_t *start = out
    cdef int fault
    u.scan.keyless = 0
    u.scan.max_timestamp = -1
    u.scan.min_timestamp = INT64_MAX
    while end - p >= 12:
        size = get_int32(p + 8)
        if size < 14:
            return SMALL_MESSAGE
        if size > end - p - 12:
            break
        fault = parse_message(p + 12, p + 12 + size, u.magic, &message)
        if fault != FINE:
            return fault
        if u.is_log_append_time:
            message.timestamp = u.log_append_time
        if u.count == 0:
            u.base_timestamp = message.timestamp
        if u.base_timestamp == -INT64_MAX - 1:  # cannot be negated
            if message.timestamp >= 0:
                return OUT_OF_RANGE
            delta = message.timestamp - u.base_timestamp
        elif pb_sum(message.timestamp, -u.base_timestamp, &delta):
            return OUT_OF_RANGE
        body = 2 + varlong_size(delta) + varlong_size(u.count) + varint_field_size(&message.key) + varint_field_size(&message.value)
        if varlong_size(body) + body > room:
            return TOO_LARGE  # a record is never larger than its message
        room -= varlong_size(body) + body
        out = put_varlong(out, body)
        out[0] = 0  # attributes
        out = put_varlong(put_varlong(out + 1, delta), u.count)
        out = put_varint_field(put_varint_field(out, &message.key), &message.value)
        out[0] = 0  # no headers
        out += 1
        if message.timestamp > u.scan.max_timestamp:
            u.scan.max_timestamp = message.timestamp
        if message.timestamp < u.scan.min_timestamp and message.timestamp != -1:
            u.scan.min_timestamp = message.timestamp
        if message.key.size < 0:
            u.scan.keyless += 1
        u.count += 1
        p += 12 + size
    u.read = p - first
    u.written = out - start
    return FINE


# --- batches

cdef inline bint has_plain_head(Bytes p, int64_t room) noexcept nogil:
    """Return whether a whole batch begins here that `down_convert_batches` converts, if checksum and records are good."""
    cdef int64_t size
    if room < HEADER_SIZE or p[MAGIC_AT] != 2 or p[ATTRIBUTES_AT + 1] & NOT_PLAIN_BITS:
        return False
    size = get_int32(p + BATCH_LENGTH_AT) + 12
    return HEADER_SIZE <= size <= room and size <= plain_bytes_max


cdef inline void begin(Bytes p, Conversion *c) noexcept nogil:
    """Take what the conversion needs of a batch's header."""
    c.base_offset = get_int64(p)
    c.base_timestamp = get_int64(p + BASE_TIMESTAMP_AT)
    c.is_log_append_time = p[ATTRIBUTES_AT + 1] & LOG_APPEND_TIME_BIT != 0
    c.log_append_time = get_int64(p + MAX_TIMESTAMP_AT)


cdef inline int64_t size_at(Bytes p) noexcept nogil:
    return get_int32(p + BATCH_LENGTH_AT) + 12


cdef inline int64_t most_bytes(Bytes p) noexcept nogil:
    """Return how many bytes the messages of a good batch have at most: beside key and value a record has 7 or more, a message 34."""
    cdef int64_t size = size_at(p) - HEADER_SIZE
    return size + 27 * min(max(get_int32(p + RECORD_COUNT_AT), 0), size // 7)


cdef bint has_good_checksum(Bytes p, int64_t size, data, int64_t position):
    cdef uint32_t crc = <uint32_t>get_int32(p + CRC_AT)
    if pb_has_crc32c:
        return crc == pb_crc32c(p + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
    return crc == crc32c(memoryview(data)[position + ATTRIBUTES_AT:position + size])


def down_convert_batches(data, int64_t position, int to_magic, int64_t first_offset, int64_t room):
    cdef Py_buffer view
    cdef Conversion c
    cdef Bytes start, p, end
    cdef int64_t size
    cdef int64_t most = 0
    cdef int64_t written = 0
    cdef int64_t count = 0
    cdef int64_t made = 0
    cdef PyObject *messages
    cdef uint8_t *out
    c.magic = to_magic
    c.first_offset = first_offset
    c.is_relative = False
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        start = p = <Bytes>view.buf
        end = start + view.len
        p += position
        while most < room and has_plain_head(p, end - p):
            most += most_bytes(p)
            p += size_at(p)
        most = min(most, room)
        messages = new_bytes(NULL, most)
        out = <uint8_t *>bytes_at(messages)
        p = start + position
        while has_plain_head(p, end - p):
            size = size_at(p)
            begin(p, &c)
            if most_bytes(p) > most - written:  # then look whether it fits, before anything is written
                if measure(p + HEADER_SIZE, p + size, get_int32(p + RECORD_COUNT_AT), &c, &made) != FINE or made > most - written:
                    break
            if not has_good_checksum(p, size, data, p - start):
                break
            if convert(p + HEADER_SIZE, p + size, get_int32(p + RECORD_COUNT_AT), &c, out + written, most - written) != FINE:
                break
            written += c.written
            count += c.kept
            p += size
        resize_bytes(&messages, written)
        result = <object>messages, p - start, count
        Py_DECREF(<object>messages)
        return result
    finally:
        PyBuffer_Release(&view)


def down_converted_size(section, int64_t record_count, int64_t base_offset, int to_magic, int64_t first_offset):
    cdef Py_buffer view
    cdef Conversion c
    cdef int64_t size = 0
    cdef Bytes start
    cdef Bytes end
    cdef int fault
    c.base_offset = base_offset
    c.magic = to_magic
    c.first_offset = first_offset
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        start = <Bytes>view.buf
        end = start + view.len
        if view.len > RELEASE_GIL_BYTES:
            with nogil:
                fault = measure(start, end, record_count, &c, &size)
        else:
            fault = measure(start, end, record_count, &c, &size)
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return size


def down_convert_records(section, int64_t record_count, int64_t base_offset, int64_t base_timestamp, bint is_log_append_time,
                         int64_t log_append_time, int to_magic, int64_t first_offset, bint is_relative):
    cdef Py_buffer view
    cdef Conversion c
    cdef int64_t size = 0
    cdef int fault
    cdef bytes messages = b""
    cdef uint8_t *out
    cdef Bytes start
    cdef Bytes end
    c.base_offset = base_offset
    c.base_timestamp = base_timestamp
    c.is_log_append_time = is_log_append_time
    c.log_append_time = log_append_time
    c.magic = to_magic
    c.first_offset = first_offset
    c.is_relative = is_relative
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        start = <Bytes>view.buf
        end = start + view.len
        if view.len > RELEASE_GIL_BYTES:
            with nogil:
                fault = measure(start, end, record_count, &c, &size)
        else:
            fault = measure(start, end, record_count, &c, &size)
        if fault == FINE:
            messages = PyBytes_FromStringAndSize(NULL, size)
            out = <uint8_t *>PyBytes_AS_STRING(messages)
            if view.len > RELEASE_GIL_BYTES:
                with nogil:
                    fault = convert(start, end, record_count, &c, out, size)
            else:
                fault = convert(start, end, record_count, &c, out, size)
            if fault == FINE and c.written != size:
                fault = BYTES_LEFT  # as above
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return messages, c.kept, c.last_kept, c.max_timestamp


def up_convert_messages(messages, int magic, bint is_log_append_time, int64_t log_append_time,
                        int64_t first_number=0, int64_t base_timestamp=0):
    cdef Py_buffer view
    cdef Upward u
    cdef int fault
    cdef bytes section
    cdef bytes whole
    cdef uint8_t *out
    cdef uint8_t *copy
    cdef Bytes start
    cdef Bytes end
    u.magic = magic
    u.is_log_append_time = is_log_append_time
    u.log_append_time = log_append_time
    u.count = first_number
    u.base_timestamp = base_timestamp
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        section = PyBytes_FromStringAndSize(NULL, view.len)
        out = <uint8_t *>PyBytes_AS_STRING(section)
        start = <Bytes>view.buf
        end = start + view.len
        if view.len > RELEASE_GIL_BYTES:
            with nogil:
                fault = lift(start, end, &u, out, view.len)
        else:
            fault = lift(start, end, &u, out, view.len)
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    if u.written > RELEASE_GIL_BYTES:
        whole = PyBytes_FromStringAndSize(NULL, u.written)
        copy = <uint8_t *>PyBytes_AS_STRING(whole)
        with nogil:
            memcpy(copy, out, u.written)
    else:
        whole = section[:u.written]
    return whole, u.count, u.base_timestamp, u.scan.max_timestamp, u.scan.min_timestamp, u.scan.keyless, u.read
