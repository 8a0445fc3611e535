# cython: boundscheck=False, wraparound=False, cdivision=True
"""Decodes records into the buffers of Arrow columns, natively. The contract is in `_columns_python.py`; the tests run on
both.

Every read is checked against the end of its record.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from pybroker.records._crc cimport pb_crc32, pb_crc_init
from pybroker.records._numbers cimport *

from pybroker.spark import _columns_python as flags
from pybroker.records.errors import record_fault

cdef enum:  # checked below to match `_columns_python`
    OFFSET = 1
    TIMESTAMP = 2
    KEY = 4
    VALUE = 8
    HEADERS = 16

cdef enum:
    SMALLEST_CAPACITY = 256


check_faults()
pb_crc_init(1)
if (OFFSET, TIMESTAMP, KEY, VALUE, HEADERS) != (flags.OFFSET, flags.TIMESTAMP, flags.KEY, flags.VALUE, flags.HEADERS):
    raise ImportError("the column flags differ from those in _columns_python")


# --- the buffers that are filled

@cython.final
cdef class Memory:
    """Bytes that grow while a builder fills them, and that a caller then reads as a buffer."""

    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __cinit__(self, Py_ssize_t capacity):
        self.capacity = max(capacity, <Py_ssize_t>SMALLEST_CAPACITY)
        self.size = 0
        self.data = <uint8_t *>malloc(self.capacity)
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __len__(self):
        return self.size

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t capacity = self.capacity
        cdef uint8_t *data
        if self.size + more > capacity:
            while self.size + more > capacity:
                capacity *= 2
            data = <uint8_t *>realloc(self.data, capacity)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.capacity = capacity
        return 0

    cdef inline int put_int64(self, int64_t value) except -1:
        if self.size + 8 > self.capacity:
            self.reserve(8)
        (<int64_t *>(self.data + self.size))[0] = value
        self.size += 8
        return 0

    cdef inline int put_int32(self, int32_t value) except -1:
        if self.size + 4 > self.capacity:
            self.reserve(4)
        (<int32_t *>(self.data + self.size))[0] = value
        self.size += 4
        return 0


@cython.final
cdef class Binary:
    """A column of byte strings: Arrow's validity bitmap, 32-bit ends and data."""

    cdef Memory validity
    cdef Memory ends
    cdef Memory data
    cdef Py_ssize_t count
    cdef Py_ssize_t nulls

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t bytes_):
        self.validity = Memory(rows // 8 + 1)
        self.ends = Memory(4 * (rows + 1))
        self.data = Memory(bytes_)
        self.count = self.nulls = 0
        self.ends.put_int32(0)

    cdef inline int put(self, Field *field) except -2:
        cdef Memory data = self.data
        cdef Memory validity = self.validity
        if (self.count & 7) == 0:
            validity.reserve(1)
            validity.data[validity.size] = 0
            validity.size += 1
        if field.size < 0:
            self.nulls += 1
        else:
            if data.size + field.size > INT32_MAX:
                return TOO_LARGE
            if data.size + field.size > data.capacity:
                data.reserve(field.size)
            memcpy(data.data + data.size, field.data, field.size)
            data.size += field.size
            validity.data[self.count >> 3] |= <uint8_t>(1 << (self.count & 7))
        self.ends.put_int32(<int32_t>data.size)
        self.count += 1
        return FINE

    cdef tuple taken(self):
        return (self.validity if self.nulls else None, self.ends, self.data, self.nulls)


@cython.final
cdef class ColumnBuilder:
    """The contract is in `_columns_python.py`."""

    cdef readonly Py_ssize_t rows
    cdef int wanted
    cdef int64_t least
    cdef int64_t greatest
    cdef Memory offsets
    cdef Memory timestamps
    cdef Binary key
    cdef Binary value
    cdef Memory header_ends
    cdef Binary header_keys
    cdef Binary header_values

    def __cinit__(self, int wanted):
        self.wanted = wanted
        self.key = self.value = self.header_keys = self.header_values = None
        self.start(0, 0, 0, 0)

    cdef start(self, Py_ssize_t rows, Py_ssize_t key_bytes, Py_ssize_t value_bytes, Py_ssize_t headers):
        cdef int wanted = self.wanted
        self.rows = 0
        self.least = INT64_MAX
        self.greatest = INT64_MIN
        self.offsets = Memory(8 * rows if wanted & OFFSET else 0)
        self.timestamps = Memory(8 * rows if wanted & TIMESTAMP else 0)
        if wanted & KEY:
            self.key = Binary(rows, key_bytes)
        if wanted & VALUE:
            self.value = Binary(rows, value_bytes)
        if wanted & HEADERS:
            self.header_ends = Memory(4 * (rows + 1))
            self.header_ends.put_int32(0)
            self.header_keys = Binary(headers, 0)
            self.header_values = Binary(headers, 0)

    @property
    def data_bytes(self):
        cdef Py_ssize_t total = 0
        if self.wanted & KEY:
            total += self.key.data.size
        if self.wanted & VALUE:
            total += self.value.data.size
        if self.wanted & HEADERS:
            total += self.header_keys.data.size + self.header_values.data.size
        return total

    cdef inline int put_timestamp(self, int64_t timestamp) except -2:
        if timestamp < self.least:
            self.least = timestamp
        if timestamp > self.greatest:
            self.greatest = timestamp
        self.timestamps.put_int64(timestamp)
        return FINE

    cdef int put_headers(self, Bytes *at, Bytes end) except -2:
        cdef Field field
        cdef int64_t count = 0
        cdef int fault = read_varint(at, end, &count)
        if fault != FINE:
            return fault
        if count < 0 or count > end - at[0]:
            return HEADER_COUNT
        while count > 0:
            fault = read_field(at, end, &field)
            if fault == FINE and field.size < 0:
                fault = NULL_HEADER_KEY
            if fault == FINE:
                fault = self.header_keys.put(&field)
            if fault == FINE:
                fault = read_field(at, end, &field)
            if fault == FINE:
                fault = self.header_values.put(&field)
            if fault != FINE:
                return fault
            count -= 1
        if at[0] != end:
            return LONG_RECORD
        if self.header_keys.count > INT32_MAX:
            return TOO_LARGE
        self.header_ends.put_int32(<int32_t>self.header_keys.count)
        return FINE

    cdef int put_record(self, Bytes p, Bytes end, int64_t offset, int64_t timestamp) except -2:
        """Decode a record from its key on."""
        cdef int wanted = self.wanted
        cdef Field field
        cdef int fault
        if wanted & (KEY | VALUE | HEADERS):
            fault = read_field(&p, end, &field)
            if fault == FINE and wanted & KEY:
                fault = self.key.put(&field)
            if fault != FINE:
                return fault
        if wanted & (VALUE | HEADERS):
            fault = read_field(&p, end, &field)
            if fault == FINE and wanted & VALUE:
                fault = self.value.put(&field)
            if fault != FINE:
                return fault
        if wanted & HEADERS:
            fault = self.put_headers(&p, end)
            if fault != FINE:
                return fault
        if wanted & OFFSET:
            self.offsets.put_int64(offset)
        if wanted & TIMESTAMP:
            self.put_timestamp(timestamp)
        self.rows += 1
        return FINE

    def append_section(self, section, int64_t record_count, int64_t base_offset, int64_t base_timestamp, bint is_log_append_time,
                       int64_t log_append_time, int64_t first_offset, int64_t end_offset):
        cdef Py_buffer view
        cdef Bytes p
        cdef Bytes end
        cdef int fault
        cdef Py_ssize_t before = self.rows
        PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
        try:
            if view.len > SECTION_MAX:
                raise record_fault(TOO_LARGE)
            p = <Bytes>view.buf
            end = p + view.len
            fault = self.put_section(p, end, record_count, base_offset, base_timestamp, is_log_append_time, log_append_time,
                                     first_offset, end_offset)
        finally:
            PyBuffer_Release(&view)
        if fault != FINE:
            raise record_fault(fault)
        return self.rows - before

    cdef int put_section(self, Bytes p, Bytes section_end, int64_t record_count, int64_t base_offset, int64_t base_timestamp,
                         bint is_log_append_time, int64_t log_append_time, int64_t first_offset, int64_t end_offset) except -2:
        cdef int64_t index
        cdef int64_t size = 0
        cdef int64_t delta = 0
        cdef int64_t offset = 0
        cdef int64_t timestamp = log_append_time
        cdef Bytes end
        cdef int fault
        cdef bint is_delta = not is_log_append_time and self.wanted & TIMESTAMP != 0
        for index in range(record_count):
            fault = read_varint(&p, section_end, &size)
            if fault != FINE:
                return fault
            if size < 1 or size > section_end - p:
                return RECORD_SIZE
            end = p + size
            p += 1  # attributes
            fault = read_varlong(&p, end, &delta)
            if fault != FINE:
                return fault
            if is_delta:
                fault = OUT_OF_RANGE if pb_sum(base_timestamp, delta, &timestamp) else FINE
                if fault != FINE:
                    return fault
            fault = read_varint(&p, end, &delta)
            if fault != FINE:
                return fault
            fault = OUT_OF_RANGE if pb_sum(base_offset, delta, &offset) else FINE
            if fault != FINE:
                return fault
            if first_offset <= offset < end_offset:
                fault = self.put_record(p, end, offset, timestamp)
                if fault != FINE:
                    return fault
            p = end
        return FINE if p == section_end else BYTES_LEFT

    def append_messages(self, messages, Py_ssize_t position, int64_t wrapper_offset, bint is_log_append_time,
                        int64_t log_append_time, int64_t first_offset, int64_t end_offset):
        cdef Py_buffer view
        cdef int fault
        cdef Py_ssize_t before = self.rows
        PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
        try:
            if view.len > SECTION_MAX:
                raise record_fault(TOO_LARGE)
            fault = self.put_messages(<Bytes>view.buf, view.len, &position, wrapper_offset, is_log_append_time, log_append_time,
                                      first_offset, end_offset)
        finally:
            PyBuffer_Release(&view)
        if fault != FINE:
            raise record_fault(fault)
        return position, self.rows - before

    cdef int put_messages(self, Bytes start, Py_ssize_t length, Py_ssize_t *position, int64_t wrapper_offset,
                          bint is_log_append_time, int64_t log_append_time, int64_t first_offset, int64_t end_offset) except -2:
        cdef Bytes end = start + length
        cdef Bytes p = start + position[0]
        cdef Bytes last = NULL
        cdef int64_t size, shift = 0
        cdef int64_t offset = 0
        cdef int magic = -1
        cdef int attributes = 0
        cdef int fault
        if wrapper_offset > 0:
            while end - p >= 12 and 14 <= get_int32(p + 8) <= end - p - 12:
                last = p
                p += 12 + get_int32(p + 8)
            p = start + position[0]
            if last != NULL:
                shift = wrapper_offset - get_int64(last)
                if shift < 0:
                    return OUT_OF_RANGE
        while end - p >= 12:
            size = get_int32(p + 8)
            if size < 14:
                return SMALL_MESSAGE
            if size > end - p - 12:
                break
            if magic < 0:
                magic, attributes = p[16], p[17] & 0x0F
            if p[16] > 1:
                if wrapper_offset < 0 and magic <= 1:
                    break
                return WRONG_MAGIC
            if p[16] != magic or (wrapper_offset < 0 and p[17] & 0x0F != attributes):
                if wrapper_offset < 0:
                    break
                return WRONG_MAGIC
            if p[17] & 7:
                return NESTED
            if pb_crc32(p + 16, size - 4) != <uint32_t>get_int32(p + 12):
                return CHECKSUM
            fault = OUT_OF_RANGE if pb_sum(get_int64(p), shift, &offset) else FINE
            if fault != FINE:
                return fault
            if first_offset <= offset < end_offset:
                fault = self.put_message(p, p + 12 + size, offset, is_log_append_time, log_append_time)
                if fault != FINE:
                    return fault
            p += 12 + size
        position[0] = p - start
        return FINE

    cdef int put_message(self, Bytes p, Bytes end, int64_t offset, bint is_log_append_time, int64_t log_append_time) except -2:
        cdef int64_t timestamp = -1
        cdef Field key
        cdef Field value
        cdef int fault
        cdef bint has_timestamp = p[16] == 1
        p += 18
        if has_timestamp:
            if end - p < 8:
                return MESSAGE_FIELDS
            timestamp = get_int64(p)
            p += 8
        if is_log_append_time:
            timestamp = log_append_time
        fault = read_message_field(&p, end, &key)
        if fault == FINE:
            fault = read_message_field(&p, end, &value)
        if fault == FINE and p != end:
            fault = MESSAGE_FIELDS
        if fault == FINE and self.wanted & KEY:
            fault = self.key.put(&key)
        if fault == FINE and self.wanted & VALUE:
            fault = self.value.put(&value)
        if fault != FINE:
            return fault
        if self.wanted & HEADERS:
            self.header_ends.put_int32(<int32_t>self.header_keys.count)
        if self.wanted & OFFSET:
            self.offsets.put_int64(offset)
        if self.wanted & TIMESTAMP:
            self.put_timestamp(timestamp)
        self.rows += 1
        return FINE

    def append_run(self, Py_ssize_t count, int64_t first_offset, int64_t timestamp):
        cdef Py_ssize_t i
        if self.wanted & (KEY | VALUE | HEADERS):
            raise ValueError("a batch's header has no keys and values")
        if self.wanted & OFFSET:
            for i in range(count):
                self.offsets.put_int64(first_offset + i)
        if self.wanted & TIMESTAMP:
            for i in range(count):
                self.put_timestamp(timestamp)
        self.rows += count

    def take(self):
        cdef int wanted = self.wanted
        headers = None
        if wanted & HEADERS:
            headers = (self.header_ends, self.header_keys.taken(), self.header_values.taken())
        result = (
            self.rows,
            self.offsets if wanted & OFFSET else None,
            (self.timestamps, self.least, self.greatest) if wanted & TIMESTAMP else None,
            self.key.taken() if wanted & KEY else None,
            self.value.taken() if wanted & VALUE else None,
            headers,
        )
        self.start(
            self.rows,
            self.key.data.size if wanted & KEY else 0,
            self.value.data.size if wanted & VALUE else 0,
            self.header_keys.count if wanted & HEADERS else 0,
        )
        return result
