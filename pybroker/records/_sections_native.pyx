# cython: boundscheck=False, wraparound=False, cdivision=True
"""Looks into the records of one batch, natively. The contract is in `_sections_python.py`; the tests run on both.

Bounds are checked by hand, because the input may be hostile: every read against the end of its record. What is written has been
measured first.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.string cimport memcpy

from pybroker.records._numbers cimport *

from pybroker.records._sections_python import Refused
from pybroker.records.errors import record_fault

cdef enum:
    RELEASE_GIL_BYTES = 262144

include "_records.pxi"

check_faults()

cdef struct Found:
    int64_t offset
    int64_t timestamp
    bint is_found

cdef struct Renumbering:
    bint is_log_append_time
    int64_t log_append_time
    int64_t base_timestamp
    int64_t first
    int64_t size


cdef int times(Bytes p, Bytes end, int64_t count, int64_t base_offset, int64_t base_timestamp, int64_t start_offset,
               int64_t *wanted, Found *found) noexcept nogil:
    """Find the first record from `wanted` on, or the one with the largest timestamp if `wanted` is NULL."""
    cdef Parsed record
    cdef int64_t index
    cdef int64_t timestamp = 0
    cdef int64_t offset = 0
    cdef int fault
    found.is_found = False
    found.offset = 0
    found.timestamp = -1
    for index in range(count):
        fault = parse_record(p, end, &record)
        if fault != FINE:
            return fault
        p = record.next
        if pb_sum(base_timestamp, record.timestamp_delta, &timestamp) or pb_sum(base_offset, record.offset_delta, &offset):
            return OUT_OF_RANGE
        if offset < start_offset:
            continue
        if wanted != NULL:
            if timestamp >= wanted[0]:
                found.is_found = True
                found.offset = offset
                found.timestamp = timestamp
                return FINE
        elif timestamp > found.timestamp:
            found.is_found = True
            found.offset = offset
            found.timestamp = timestamp
    return FINE if p == end else BYTES_LEFT


cdef object time_of(object section, int64_t record_count, int64_t base_offset, int64_t base_timestamp, int64_t start_offset,
                    int64_t *wanted):
    cdef Py_buffer view
    cdef Found found
    cdef Bytes start
    cdef int fault
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        start = <Bytes>view.buf
        if view.len > RELEASE_GIL_BYTES:
            with nogil:
                fault = times(start, start + view.len, record_count, base_offset, base_timestamp, start_offset, wanted, &found)
        else:
            fault = times(start, start + view.len, record_count, base_offset, base_timestamp, start_offset, wanted, &found)
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return (found.offset, found.timestamp) if found.is_found else None


def first_record(section, int64_t record_count, int64_t base_offset, int64_t base_timestamp, int64_t timestamp, int64_t start_offset):
    return time_of(section, record_count, base_offset, base_timestamp, start_offset, &timestamp)


def largest_timestamp(section, int64_t record_count, int64_t base_offset, int64_t base_timestamp, int64_t start_offset):
    return time_of(section, record_count, base_offset, base_timestamp, start_offset, NULL)


def refused_records(section, int64_t record_count, int64_t base_timestamp, bint needs_key, int64_t earliest, int64_t latest,
                    int64_t listed_max):
    cdef Py_buffer view
    cdef Parsed record
    cdef Bytes p
    cdef Bytes end
    cdef int64_t index
    cdef int64_t timestamp = 0
    cdef int64_t count = 0
    cdef bint lacks_key
    cdef bint is_outside
    cdef bint is_late_or_early = False
    cdef int fault = FINE
    cdef list first = []
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
            if pb_sum(base_timestamp, record.timestamp_delta, &timestamp):
                fault = OUT_OF_RANGE
                break
            lacks_key = needs_key and record.key.size < 0
            is_outside = timestamp != -1 and (timestamp < earliest or timestamp > latest)
            if not is_outside and not lacks_key:
                continue
            count += 1
            if not lacks_key:
                is_late_or_early = True
            if count <= listed_max:
                first.append((index, timestamp, record.key.size >= 0))
        if fault == FINE and p != end:
            fault = BYTES_LEFT
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return Refused(first, count, is_late_or_early)


cdef int renumber(Bytes p, Bytes end, int64_t count, Renumbering *r, uint8_t *out) noexcept nogil:
    """Measure the records with new offset deltas, and write them too unless `out` is NULL."""
    cdef Parsed record
    cdef Bytes rest
    cdef int64_t index
    cdef int64_t number = 0
    cdef int64_t timestamp = 0
    cdef int64_t delta
    cdef int64_t body
    cdef int fault
    r.size = 0
    r.first = 0
    for index in range(count):
        fault = parse_record(p, end, &record)
        if fault != FINE:
            return fault
        rest = p
        read_varint(&rest, record.next, &number)
        rest += 1
        read_varlong(&rest, record.next, &number)
        read_varint(&rest, record.next, &number)
        p = record.next
        if r.is_log_append_time:
            timestamp = r.log_append_time
        elif pb_sum(r.base_timestamp, record.timestamp_delta, &timestamp):
            return OUT_OF_RANGE
        if index == 0:
            r.first = timestamp
        if (r.first < 0 and timestamp > INT64_MAX + r.first) or (r.first > 0 and timestamp < INT64_MIN + r.first):
            return OUT_OF_RANGE
        delta = timestamp - r.first
        body = 1 + varlong_size(delta) + varlong_size(index) + (record.next - rest)
        r.size += varlong_size(body) + body
        if out != NULL:
            out = put_varlong(out, body)
            out[0] = 0
            out = put_varlong(put_varlong(out + 1, delta), index)
            memcpy(out, rest, record.next - rest)
            out += record.next - rest
    return FINE if p == end else BYTES_LEFT


cdef object renumber_section(object section, int64_t record_count, int64_t base_timestamp, object log_append_time, bint is_made):
    cdef Py_buffer view
    cdef Renumbering r
    cdef Bytes start
    cdef bytes made = None
    cdef uint8_t *out = NULL
    cdef int fault
    r.is_log_append_time = log_append_time is not None
    r.log_append_time = 0 if log_append_time is None else log_append_time
    r.base_timestamp = base_timestamp
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        start = <Bytes>view.buf
        with nogil:
            fault = renumber(start, start + view.len, record_count, &r, NULL)
        if fault == FINE and is_made:
            made = PyBytes_FromStringAndSize(NULL, r.size)
            out = <uint8_t *>PyBytes_AS_STRING(made)
            with nogil:
                fault = renumber(start, start + view.len, record_count, &r, out)
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return (made if is_made else r.size), r.first


def renumbered_size(section, int64_t record_count, int64_t base_timestamp, log_append_time):
    return renumber_section(section, record_count, base_timestamp, log_append_time, False)


def renumbered(section, int64_t record_count, int64_t base_timestamp, log_append_time):
    return renumber_section(section, record_count, base_timestamp, log_append_time, True)
