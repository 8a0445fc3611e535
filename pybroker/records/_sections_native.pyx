# cython: boundscheck=False, wraparound=False, cdivision=True
"""Walks through the records of one batch, which come in pieces, natively. The contract is in `_sections_python.py`; the tests run
on both.

Bounds are checked by hand, because the input may be hostile: every read against the end of its record or piece. A piece above
RELEASE_GIL_BYTES is walked through without the interpreter.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from pybroker.records._numbers cimport *

from pybroker.records._sections_python import Refused
from pybroker.records.errors import record_fault

cdef enum:
    RELEASE_GIL_BYTES = 32768
    HEAD_BYTES_MAX = 21  # size, attributes, timestamp delta, offset delta
    MADE_BYTES_MAX = 21

include "_records.pxi"

check_faults()

cdef enum State:  # the field of a cut record that comes next
    AT_RECORD
    IN_SIZE
    IN_ATTRIBUTES
    IN_TIMESTAMP
    IN_OFFSET
    IN_KEY
    IN_VALUE
    IN_HEADER_COUNT
    IN_HEADER_KEY
    IN_HEADER_VALUE
    AT_END

cdef enum Mode:
    SCANNING
    REFUSING
    SEARCHING

cdef struct Listed:
    int64_t index
    int64_t timestamp
    bint has_key

# Numbers that are written for every record are in a struct and not in the object, because C keeps such a struct's numbers in
# registers.
cdef struct Walked:
    int mode
    int64_t count
    int64_t index
    int64_t base_timestamp
    # scanning
    Scan scan
    # refusing
    bint needs_key
    int64_t earliest
    int64_t latest
    int64_t listed_max
    int64_t total
    bint is_late_or_early
    Listed *listed
    # searching
    int64_t base_offset
    int64_t start_offset
    bint is_largest_wanted
    int64_t wanted
    bint is_found
    int64_t found_offset
    int64_t found_timestamp
    # a record that is cut
    int state
    uint64_t raw
    int digits
    int64_t left
    int64_t skipped
    int64_t headers
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_size


cdef inline bint is_over(Walked *w) noexcept nogil:
    return w.is_found and not w.is_largest_wanted


cdef inline int take(Walked *w, int64_t timestamp_delta, int64_t offset_delta, int64_t key_size) noexcept nogil:
    """Take the next record, in whatever way is asked for."""
    cdef int64_t timestamp = 0
    cdef int64_t offset = 0
    cdef bint lacks_key
    if pb_sum(w.base_timestamp, timestamp_delta, &timestamp):
        return OUT_OF_RANGE
    if w.mode == SCANNING:
        if timestamp > w.scan.max_timestamp:
            w.scan.max_timestamp = timestamp
        if timestamp < w.scan.min_timestamp and timestamp != -1:
            w.scan.min_timestamp = timestamp
        if key_size < 0:
            w.scan.keyless += 1
        if offset_delta != w.index:
            w.scan.is_sequential = False
    elif w.mode == REFUSING:
        lacks_key = w.needs_key and key_size < 0
        if lacks_key or (timestamp != -1 and (timestamp < w.earliest or timestamp > w.latest)):
            if not lacks_key:
                w.is_late_or_early = True
            if w.total < w.listed_max:
                w.listed[w.total].index = w.index
                w.listed[w.total].timestamp = timestamp
                w.listed[w.total].has_key = key_size >= 0
            w.total += 1
    else:
        if pb_sum(w.base_offset, offset_delta, &offset):
            return OUT_OF_RANGE
        if offset >= w.start_offset and (timestamp > w.found_timestamp if w.is_largest_wanted else timestamp >= w.wanted):
            w.is_found = True
            w.found_offset = offset
            w.found_timestamp = timestamp
    w.index += 1
    return FINE


cdef int cut_number(Walked *w, int bytes_max, Bytes *at, Bytes end, bint *is_whole, int64_t *value) noexcept nogil:
    """Read on in a number that may be spread over pieces. `left` is not for the record's own size."""
    cdef uint8_t digit
    is_whole[0] = False
    while True:
        if w.digits == bytes_max:
            return LONG_NUMBER
        if w.state != IN_SIZE and w.left == 0:
            return CUT_NUMBER
        if at[0] == end:
            return FINE
        digit = at[0][0]
        at[0] += 1
        if w.state != IN_SIZE:
            w.left -= 1
        w.raw |= <uint64_t>(digit & 0x7F) << (7 * w.digits)
        w.digits += 1
        if digit < 0x80:
            break
    if bytes_max == 5:
        w.raw = <uint32_t>w.raw
    value[0] = <int64_t>(w.raw >> 1) ^ -<int64_t>(w.raw & 1)
    w.raw = 0
    w.digits = 0
    is_whole[0] = True
    return FINE


cdef int walk_cut(Walked *w, Bytes *at, Bytes end) noexcept nogil:
    """Walk on in a record that no piece has whole, to its end or to the piece's."""
    cdef int64_t value = 0
    cdef int64_t part
    cdef bint is_whole = False
    cdef int fault
    while True:
        if w.skipped > 0:
            part = end - at[0]
            if part > w.skipped:
                part = w.skipped
            at[0] += part
            w.skipped -= part
            if w.skipped > 0:
                return FINE
        if w.state == AT_END:
            if w.left != 0:
                return LONG_RECORD
            w.state = AT_RECORD
            return take(w, w.timestamp_delta, w.offset_delta, w.key_size)
        if w.state == IN_ATTRIBUTES:
            w.skipped = 1
            w.left -= 1
            w.state = IN_TIMESTAMP
            continue
        fault = cut_number(w, 10 if w.state == IN_TIMESTAMP else 5, at, end, &is_whole, &value)
        if fault != FINE or not is_whole:
            return fault
        if w.state == IN_SIZE:
            if value < 1:
                return RECORD_SIZE
            w.left = value
            w.state = IN_ATTRIBUTES
        elif w.state == IN_TIMESTAMP:
            w.timestamp_delta = value
            w.state = IN_OFFSET
        elif w.state == IN_OFFSET:
            w.offset_delta = value
            w.state = IN_KEY
        elif w.state == IN_HEADER_COUNT:
            if value < 0 or value > w.left:
                return HEADER_COUNT
            w.headers = value
            w.state = IN_HEADER_KEY if value else AT_END
        else:
            if value > w.left:
                return LONG_FIELD
            if w.state == IN_HEADER_KEY and value < 0:
                return NULL_HEADER_KEY
            if value > 0:
                w.skipped = value
                w.left -= value
            if w.state == IN_KEY:
                w.key_size = value
                w.state = IN_VALUE
            elif w.state == IN_VALUE:
                w.state = IN_HEADER_COUNT
            elif w.state == IN_HEADER_KEY:
                w.state = IN_HEADER_VALUE
            else:
                w.headers -= 1
                w.state = IN_HEADER_KEY if w.headers else AT_END


cdef int walk(Walked *kept, Bytes p, Bytes end) noexcept nogil:
    cdef Walked w = kept[0]
    cdef Parsed record
    cdef Bytes q
    cdef int64_t size = 0
    cdef int fault = FINE
    while p < end or w.state != AT_RECORD:
        if w.state != AT_RECORD:
            fault = walk_cut(&w, &p, end)
            if fault != FINE or w.state != AT_RECORD:
                break
            continue
        if is_over(&w):
            break
        if w.index == w.count:
            fault = BYTES_LEFT
            break
        q = p
        fault = read_varint(&q, end, &size)
        if fault == CUT_NUMBER or (fault == FINE and size > end - q):
            fault = FINE
            w.state = IN_SIZE
            continue
        fault = parse_record(p, end, &record)
        if fault != FINE:
            break
        p = record.next
        fault = take(&w, record.timestamp_delta, record.offset_delta, record.key.size)
        if fault != FINE:
            break
    kept[0] = w
    return fault


cdef class Walk:
    cdef Walked w

    def __cinit__(self, *args):
        self.w.listed = NULL

    def __dealloc__(self):
        free(self.w.listed)

    cdef void begin(self, int mode, int64_t record_count, int64_t base_timestamp) noexcept:
        self.w.mode = mode
        self.w.count = record_count
        self.w.base_timestamp = base_timestamp
        self.w.state = AT_RECORD  # all that is not named is 0

    def feed(self, piece):
        cdef Py_buffer view
        cdef Bytes start
        cdef int fault
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        try:
            start = <Bytes>view.buf
            if view.len > RELEASE_GIL_BYTES:
                with nogil:
                    fault = walk(&self.w, start, start + view.len)
            else:
                fault = walk(&self.w, start, start + view.len)
        finally:
            PyBuffer_Release(&view)
        if fault != FINE:
            raise record_fault(fault)
        return bool(is_over(&self.w))

    def finish(self):
        if is_over(&self.w):
            return
        if self.w.state != AT_RECORD:
            raise record_fault(RECORD_SIZE)
        if self.w.index < self.w.count:
            raise record_fault(CUT_NUMBER)


cdef class Overview(Walk):
    def __init__(self, int64_t record_count, int64_t base_timestamp):
        self.begin(SCANNING, record_count, base_timestamp)
        self.w.scan.max_timestamp = -1
        self.w.scan.min_timestamp = INT64_MAX
        self.w.scan.is_sequential = True

    @property
    def max_timestamp(self):
        return self.w.scan.max_timestamp

    @property
    def min_timestamp(self):
        return self.w.scan.min_timestamp

    @property
    def keyless(self):
        return self.w.scan.keyless

    @property
    def is_sequential(self):
        return bool(self.w.scan.is_sequential)


cdef class Refusals(Walk):
    def __init__(self, int64_t record_count, int64_t base_timestamp, bint needs_key, int64_t earliest, int64_t latest,
                 int64_t listed_max):
        self.begin(REFUSING, record_count, base_timestamp)
        self.w.needs_key = needs_key
        self.w.earliest = earliest
        self.w.latest = latest
        self.w.listed_max = listed_max
        free(self.w.listed)
        self.w.listed = <Listed *>malloc(max(listed_max, 1) * sizeof(Listed))
        if self.w.listed == NULL:
            raise MemoryError

    @property
    def refused(self):
        cdef int64_t number
        first = []
        for number in range(min(self.w.total, self.w.listed_max)):
            first.append((self.w.listed[number].index, self.w.listed[number].timestamp, bool(self.w.listed[number].has_key)))
        return Refused(first, self.w.total, bool(self.w.is_late_or_early))


cdef class Search(Walk):
    def __init__(self, int64_t record_count, int64_t base_offset, int64_t base_timestamp, timestamp, int64_t start_offset):
        self.begin(SEARCHING, record_count, base_timestamp)
        self.w.base_offset = base_offset
        self.w.start_offset = start_offset
        self.w.is_largest_wanted = timestamp is None
        self.w.wanted = 0 if timestamp is None else timestamp
        self.w.found_timestamp = -1

    @property
    def found(self):
        return (self.w.found_offset, self.w.found_timestamp) if self.w.is_found else None


cdef struct Heads:
    int64_t count
    int64_t index
    int64_t base_timestamp
    bint is_log_append_time
    int64_t log_append_time
    int64_t first
    int64_t copied


cdef int put_head(Heads *h, Bytes *at, Bytes end, uint8_t **out) noexcept nogil:
    """Read the head of a record, and write the new head."""
    cdef Bytes p = at[0]
    cdef Bytes body
    cdef uint8_t *made = out[0]
    cdef int64_t size = 0
    cdef int64_t given = 0
    cdef int64_t timestamp = h.log_append_time
    cdef int64_t ignored = 0
    cdef int64_t rest
    cdef int fault = read_varint(&p, end, &size)
    if fault != FINE:
        return fault
    body = p
    if p == end:
        return CUT_NUMBER
    p += 1
    fault = read_varlong(&p, end, &given)
    if fault != FINE:
        return fault
    fault = read_varint(&p, end, &ignored)
    if fault != FINE:
        return fault
    rest = size - (p - body)
    if rest < 0:
        return RECORD_SIZE
    if not h.is_log_append_time and pb_sum(h.base_timestamp, given, &timestamp):
        return OUT_OF_RANGE
    if h.index == 0:
        h.first = timestamp
    if (h.first < 0 and timestamp > INT64_MAX + h.first) or (h.first > 0 and timestamp < INT64_MIN + h.first):
        return OUT_OF_RANGE
    made = put_varlong(made, 1 + varlong_size(timestamp - h.first) + varlong_size(h.index) + rest)
    made[0] = 0
    out[0] = put_varlong(put_varlong(made + 1, timestamp - h.first), h.index)
    at[0] = p
    h.copied = rest
    h.index += 1
    return FINE


cdef int renumber(Heads *h, Bytes *at, Bytes end, uint8_t **out) noexcept nogil:
    """Write what the piece becomes, up to a head that is cut."""
    cdef int64_t part
    cdef int fault
    while at[0] < end:
        if h.copied > 0:
            part = end - at[0]
            if part > h.copied:
                part = h.copied
            memcpy(out[0], at[0], part)
            out[0] += part
            at[0] += part
            h.copied -= part
            continue
        if h.index == h.count:
            return BYTES_LEFT
        fault = put_head(h, at, end, out)
        if fault != FINE:
            return FINE if fault == CUT_NUMBER and end - at[0] < HEAD_BYTES_MAX else fault
    return FINE


cdef class Renumbering:
    cdef Heads h
    cdef bytes head

    def __init__(self, int64_t record_count, int64_t base_timestamp, log_append_time):
        self.h.count = record_count
        self.h.base_timestamp = base_timestamp
        self.h.is_log_append_time = log_append_time is not None
        self.h.log_append_time = 0 if log_append_time is None else log_append_time
        self.head = b""

    @property
    def base_timestamp_made(self):
        return self.h.first

    def feed(self, piece):
        cdef Py_buffer view
        cdef Bytes start
        cdef Bytes at
        cdef Bytes end
        cdef uint8_t *made
        cdef uint8_t *out
        cdef int fault
        if self.head:
            piece = self.head + bytes(piece)
            self.head = b""
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        try:
            start = at = <Bytes>view.buf
            end = start + view.len
            # A head of four bytes, the least that one has, may become MADE_BYTES_MAX.
            made = out = <uint8_t *>malloc((view.len // 4 + 1) * MADE_BYTES_MAX + view.len)
            if made == NULL:
                raise MemoryError
            try:
                with nogil:
                    fault = renumber(&self.h, &at, end, &out)
                if fault != FINE:
                    raise record_fault(fault)
                self.head = at[: end - at]
                return made[: out - made]
            finally:
                free(made)
        finally:
            PyBuffer_Release(&view)

    def finish(self):
        if self.head or self.h.copied:
            raise record_fault(RECORD_SIZE)
        if self.h.index < self.h.count:
            raise record_fault(CUT_NUMBER)
