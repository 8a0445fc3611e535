# cython: boundscheck=False, wraparound=False, cdivision=True
"""The kernels over raw records, natively. The contract is in `_kernels_python.py`; the tests run on both.

Bounds are checked by hand, because the input may be hostile: every read against the end of its record, every write
against the end of its output.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int16_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from pybroker.records._crc cimport pb_crc32, pb_crc32c, pb_crc32c_init, pb_crc_init, pb_has_crc32c
from pybroker.records._numbers cimport *

from crc32c import crc32c

from pybroker.records import batch

from pybroker.records.errors import record_fault

cdef enum:
    RELEASE_GIL_BYTES = 262144

cdef enum:
    LOG_OVERHEAD = 12
    TRANSACTIONAL_BIT = 0x10
    COMPRESSION_MASK = 0x07
    NOT_PLAIN = 0x30  # transactional, control
    UNUSUAL_BITS = 0x38  # log append time, transactional, control


include "_header.pxi"
include "_records.pxi"


check_faults()
if TRANSACTIONAL_BIT != batch.TRANSACTIONAL_BIT or NOT_PLAIN != batch.TRANSACTIONAL_BIT | batch.CONTROL_BIT:
    raise ImportError("the bits of a batch's attributes differ from those in batch.py")
include "_crc.pxi"


cdef uint8_t *put_moved_record(uint8_t *out, Bytes p, Parsed *record, int64_t timestamp_delta) noexcept nogil:
    """Write a record with another timestamp delta; it grows by 18 bytes at most."""
    cdef int64_t size = 0
    cdef int64_t delta = 0
    cdef Bytes after
    cdef uint8_t attributes
    read_varint(&p, record.next, &size)
    attributes = p[0]
    after = p + 1
    read_varlong(&after, record.next, &delta)
    out = put_varlong(out, 1 + varlong_size(timestamp_delta) + (record.next - after))
    out[0] = attributes
    out = put_varlong(out + 1, timestamp_delta)
    memcpy(out, after, record.next - after)
    return out + (record.next - after)


def scan_records(section, int64_t record_count, int64_t base_timestamp):
    cdef Py_buffer view
    cdef Scan result
    cdef Bytes start
    cdef Bytes end
    cdef int fault
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        start = <Bytes>view.buf
        end = start + view.len
        if view.len > RELEASE_GIL_BYTES:
            with nogil:
                fault = scan(start, end, record_count, base_timestamp, &result)
        else:
            fault = scan(start, end, record_count, base_timestamp, &result)
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return result.max_timestamp, result.min_timestamp, result.keyless, bool(result.is_sequential)


cdef inline bint has_plain_header(Bytes p, int64_t size, int64_t bytes_max, int kept_codecs) noexcept nogil:
    """Return whether `accept_batch` takes a batch with this header, if its records turn out to be good."""
    cdef int64_t count
    if size < HEADER_SIZE or size > bytes_max or p[MAGIC_AT] != 2 or get_int32(p + BATCH_LENGTH_AT) != size - 12:
        return False
    if get_int64(p) != 0 or p[ATTRIBUTES_AT + 1] & UNUSUAL_BITS:
        return False
    if not kept_codecs >> (p[ATTRIBUTES_AT + 1] & COMPRESSION_MASK) & 1:
        return False
    count = get_int32(p + RECORD_COUNT_AT)
    if count <= 0 or get_int32(p + LAST_OFFSET_DELTA_AT) != count - 1:
        return False
    return get_int32(p + BASE_SEQUENCE_AT) >= 0 or get_int64(p + PRODUCER_ID_AT) < 0


cdef inline bint has_plain_records(Bytes p, int64_t size, int64_t earliest, int64_t latest, bint is_compacted) noexcept nogil:
    cdef Scan found
    if scan(p + HEADER_SIZE, p + size, get_int32(p + RECORD_COUNT_AT), get_int64(p + BASE_TIMESTAMP_AT), &found) != FINE:
        return False
    return is_plain_scan(p, &found, earliest, latest, is_compacted)


cdef inline bint is_plain_scan(Bytes p, Scan *found, int64_t earliest, int64_t latest, bint is_compacted) noexcept nogil:
    if not found.is_sequential or found.max_timestamp != get_int64(p + MAX_TIMESTAMP_AT) or (is_compacted and found.keyless):
        return False
    return found.max_timestamp <= latest and found.min_timestamp >= earliest


def accept_batch(records, int64_t first_offset, int64_t leader_epoch, int64_t now_ms, int64_t bytes_max, int64_t before_max_ms,
                 int64_t after_max_ms, bint is_compacted, int kept_codecs=1, look_through=None):
    cdef Py_buffer view
    cdef uint8_t *p
    cdef uint32_t crc
    cdef bint is_plain
    cdef int64_t earliest, latest
    cdef int64_t inflated_bytes = 0
    cdef Scan scanned
    if pb_sum(now_ms, -before_max_ms, &earliest):
        earliest = -INT64_MAX
    if pb_sum(now_ms, after_max_ms, &latest):
        latest = INT64_MAX
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        p = <uint8_t *>view.buf
        if view.readonly or not has_plain_header(p, view.len, bytes_max, kept_codecs):
            return None
        crc = <uint32_t>get_int32(p + CRC_AT)
        if pb_has_crc32c:
            if view.len > RELEASE_GIL_BYTES:
                with nogil:
                    is_plain = crc == pb_crc32c(p + ATTRIBUTES_AT, view.len - ATTRIBUTES_AT)
            else:
                is_plain = crc == pb_crc32c(p + ATTRIBUTES_AT, view.len - ATTRIBUTES_AT)
            if not is_plain:
                return None
        elif crc != crc32c(memoryview(records)[ATTRIBUTES_AT:]):
            return None
        if p[ATTRIBUTES_AT + 1] & COMPRESSION_MASK:
            if look_through is None:
                return None
            found = look_through(
                p[ATTRIBUTES_AT + 1] & COMPRESSION_MASK, memoryview(records)[HEADER_SIZE:],
                record_count=get_int32(p + RECORD_COUNT_AT), base_timestamp=get_int64(p + BASE_TIMESTAMP_AT))
            if found is None:
                return None
            scanned.max_timestamp, scanned.min_timestamp, scanned.keyless, scanned.is_sequential, inflated_bytes = found
            is_plain = is_plain_scan(p, &scanned, earliest, latest, is_compacted)
        elif view.len > RELEASE_GIL_BYTES:
            with nogil:
                is_plain = has_plain_records(p, view.len, earliest, latest, is_compacted)
        else:
            is_plain = has_plain_records(p, view.len, earliest, latest, is_compacted)
        if not is_plain:
            return None
        put_int64(p, first_offset)
        put_int32(p + LEADER_EPOCH_AT, leader_epoch)
        return (
            get_int32(p + LAST_OFFSET_DELTA_AT),
            get_int64(p + MAX_TIMESTAMP_AT),
            get_int64(p + PRODUCER_ID_AT),
            <int16_t>(p[PRODUCER_EPOCH_AT] << 8 | p[PRODUCER_EPOCH_AT + 1]),
            get_int32(p + BASE_SEQUENCE_AT),
            inflated_bytes,
        )
    finally:
        PyBuffer_Release(&view)


cdef inline bint is_plain_copy(Bytes p, int64_t last_offset, int64_t leader_epoch) noexcept nogil:
    """Return whether `accept_copies` takes a whole batch with this header, if its checksum turns out to be right."""
    cdef int64_t last_delta = get_int32(p + LAST_OFFSET_DELTA_AT)
    if get_int32(p + LEADER_EPOCH_AT) != leader_epoch or p[ATTRIBUTES_AT + 1] & NOT_PLAIN or last_delta < 0:
        return False
    if get_int64(p) <= last_offset or get_int64(p) > INT64_MAX - last_delta:
        return False
    return get_int32(p + BASE_SEQUENCE_AT) >= 0 or get_int64(p + PRODUCER_ID_AT) < 0


def accept_copies(records, int64_t offset_min, int64_t leader_epoch):
    cdef Py_buffer view
    cdef Bytes p
    cdef uint32_t crc
    cdef int64_t size, left
    cdef int64_t last_offset = offset_min - 1
    cdef int64_t max_timestamp = 0
    cdef int64_t offset_of_max_timestamp = 0
    cdef int64_t record_count = 0
    cdef list places = []
    cdef list produced = []
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        p = <Bytes>view.buf
        left = view.len
        while left >= LOG_OVERHEAD:
            size = get_int32(p + BATCH_LENGTH_AT) + LOG_OVERHEAD
            if size < HEADER_SIZE or (left > MAGIC_AT and p[MAGIC_AT] != 2):
                return None
            if size > left:
                break
            if not is_plain_copy(p, last_offset, leader_epoch):
                return None
            if not pb_has_crc32c:
                crc = crc32c(memoryview(records)[view.len - left + ATTRIBUTES_AT:view.len - left + size])
            elif size > RELEASE_GIL_BYTES:
                with nogil:
                    crc = pb_crc32c(p + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
            else:
                crc = pb_crc32c(p + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
            if crc != <uint32_t>get_int32(p + CRC_AT):
                return None
            last_offset = get_int64(p) + get_int32(p + LAST_OFFSET_DELTA_AT)
            if not places or get_int64(p + MAX_TIMESTAMP_AT) > max_timestamp:
                max_timestamp = get_int64(p + MAX_TIMESTAMP_AT)
                offset_of_max_timestamp = last_offset
            record_count += get_int32(p + RECORD_COUNT_AT)
            places.append((get_int64(p), size))
            if get_int64(p + PRODUCER_ID_AT) >= 0:
                produced.append((
                    get_int64(p + PRODUCER_ID_AT),
                    <int16_t>(p[PRODUCER_EPOCH_AT] << 8 | p[PRODUCER_EPOCH_AT + 1]),
                    get_int32(p + BASE_SEQUENCE_AT),
                    last_offset,
                    get_int32(p + LAST_OFFSET_DELTA_AT),
                    get_int64(p + MAX_TIMESTAMP_AT),
                ))
            p += size
            left -= size
        if not places:
            return None
        return view.len - left, last_offset, max_timestamp, offset_of_max_timestamp, record_count, places, produced
    finally:
        PyBuffer_Release(&view)


def is_of_transaction(records):
    cdef Py_buffer view
    cdef uint8_t *p
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    p = <uint8_t *>view.buf
    cdef bint found = view.len > HEADER_SIZE and p[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0 and p[MAGIC_AT] == 2
    PyBuffer_Release(&view)
    return found


def is_only_at_end(data, Py_ssize_t size):
    cdef Py_buffer view
    cdef const uint8_t *end
    cdef const uint8_t *at
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len <= size:
            return False
        at = <const uint8_t *>view.buf
        end = at + view.len - size
        while True:  # memchr is quick, and memmem is not on every system
            at = <const uint8_t *>memchr(at, end[0], end - at)
            if at == NULL:
                return True
            if memcmp(at, end, size) == 0:
                return False
            at += 1
    finally:
        PyBuffer_Release(&view)


def take_records(section, Py_ssize_t position, int64_t record_count, Py_ssize_t bytes_min, bint may_be_cut=False):
    cdef Py_buffer view
    cdef Bytes p, start, end, enough
    cdef int64_t size
    cdef int64_t count = 0
    cdef int fault = FINE
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        if position < 0 or position > view.len or bytes_min < 0:
            raise record_fault(RECORD_SIZE)
        p = <Bytes>view.buf + position
        end = <Bytes>view.buf + view.len
        enough = end if bytes_min > end - p else p + bytes_min
        while count < record_count and p < enough:
            start = p
            fault = read_varint(&start, end, &size)
            if may_be_cut and (fault == CUT_NUMBER or (fault == FINE and size > end - start)):
                fault = FINE
                break
            if fault == FINE and (size < 1 or size > end - start):
                fault = RECORD_SIZE
            if fault != FINE:
                break
            p = start + size
            count += 1
        position = p - <Bytes>view.buf
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return count, position


def record_section(ends, int64_t first):
    cdef int64_t number = first
    cdef int64_t size = 0
    cdef int64_t record_size
    cdef bytes end
    cdef bytes section
    cdef uint8_t *out
    for end in ends:
        record_size = 2 + varlong_size(number) + len(end)
        size += varlong_size(record_size) + record_size
        number += 1
    section = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t *>PyBytes_AS_STRING(section)
    number = first
    for end in ends:
        out = put_varlong(out, 2 + varlong_size(number) + len(end))
        out[0] = out[1] = 0  # attributes, and the timestamp's delta
        out = put_varlong(out + 2, number)
        memcpy(out, PyBytes_AS_STRING(end), len(end))
        out += len(end)
        number += 1
    return section


def note_keys(section, int64_t record_count, int64_t base_offset, dict offsets):
    cdef Py_buffer view
    cdef Parsed record
    cdef Bytes p
    cdef Bytes end
    cdef int64_t index
    cdef int64_t key_bytes = 0
    cdef Py_ssize_t before = len(offsets)
    cdef Py_ssize_t known
    cdef int fault = FINE
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        p = <Bytes>view.buf
        end = p + view.len
        for index in range(record_count):
            fault = parse_record(p, end, &record)
            if fault != FINE:
                break
            p = record.next
            if record.key.size >= 0:
                known = len(offsets)
                offsets[PyBytes_FromStringAndSize(<const char *>record.key.data, record.key.size)] = base_offset + record.offset_delta
                if len(offsets) > known:
                    key_bytes += record.key.size
        if fault == FINE and p != end:
            fault = BYTES_LEFT
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return len(offsets) - before, key_bytes


def retain_records(section, int64_t record_count, int64_t base_offset, int64_t base_timestamp, int64_t new_base_timestamp,
                   dict offsets, int64_t latest_offset, bint keeps_tombstones):
    cdef Py_buffer view
    cdef Parsed record
    cdef Bytes p
    cdef Bytes end
    cdef bytes kept
    cdef uint8_t *start
    cdef uint8_t *out
    cdef int64_t index
    cdef int64_t count = 0
    cdef int64_t tombstones = 0
    cdef int64_t max_timestamp = -1
    cdef int64_t timestamp = 0
    cdef int64_t moved = 0
    cdef int64_t offset
    cdef int fault = FINE
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        p = <Bytes>view.buf
        end = p + view.len
        if record_count < 0 or record_count > view.len:
            raise record_fault(RECORD_SIZE)  # a record has at least one byte; the code below relies on it
        kept = PyBytes_FromStringAndSize(NULL, view.len + (18 * record_count if new_base_timestamp != base_timestamp else 0))
        start = out = <uint8_t *>PyBytes_AS_STRING(kept)
        for index in range(record_count):
            fault = parse_record(p, end, &record)
            if fault != FINE:
                break
            if pb_sum(base_timestamp, record.timestamp_delta, &timestamp) or pb_sum(timestamp, -new_base_timestamp, &moved):
                fault = OUT_OF_RANGE
                break
            offset = base_offset + record.offset_delta
            if offset <= latest_offset:
                if record.key.size < 0 or (record.value.size < 0 and not keeps_tombstones):
                    p = record.next
                    continue
                latest = offsets.get(PyBytes_FromStringAndSize(<const char *>record.key.data, record.key.size))
                if latest is not None and <int64_t>latest > offset:
                    p = record.next
                    continue
            if new_base_timestamp == base_timestamp:
                memcpy(out, p, record.next - p)
                out += record.next - p
            else:
                out = put_moved_record(out, p, &record, moved)
            p = record.next
            count += 1
            if record.value.size < 0:
                tombstones += 1
            if timestamp > max_timestamp:
                max_timestamp = timestamp
        if fault == FINE and p != end:
            fault = BYTES_LEFT
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return kept[:out - start], count, max_timestamp, tombstones
