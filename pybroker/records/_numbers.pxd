# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads and writes the numbers and fields of records, and lists their faults; every read is checked against the end."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from *:
    """
    #include <stdint.h>

    enum pb_fault {
        PB_FINE = -1,
        PB_CUT_NUMBER,
        PB_LONG_NUMBER,
        PB_RECORD_SIZE,
        PB_LONG_FIELD,
        PB_HEADER_COUNT,
        PB_NULL_HEADER_KEY,
        PB_LONG_RECORD,
        PB_BYTES_LEFT,
        PB_OUT_OF_RANGE,
        PB_SMALL_MESSAGE,
        PB_WRONG_MAGIC,
        PB_NESTED,
        PB_MESSAGE_FIELDS,
        PB_CHECKSUM,
        PB_TOO_LARGE,
    };

    /* Reads a varint of one or two bytes, as nearly all are, without a loop. Returns a fault, or PB_FINE. */
    static inline __attribute__((always_inline)) int pb_number(const uint8_t **at, const uint8_t *end, int bytes_max, uint64_t *value) {
        const uint8_t *p = *at;
        if (end - p >= 2) {
            if (p[0] < 0x80) {
                *value = p[0];
                *at = p + 1;
                return PB_FINE;
            }
            if (p[1] < 0x80) {
                *value = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
                *at = p + 2;
                return PB_FINE;
            }
        }
        uint64_t raw = 0;
        for (int i = 0; i < bytes_max; i++, p++) {
            if (p == end) return PB_CUT_NUMBER;
            raw |= (uint64_t)(*p & 0x7f) << (7 * i);
            if (*p < 0x80) {
                *value = raw;
                *at = p + 1;
                return PB_FINE;
            }
        }
        return PB_LONG_NUMBER;
    }

    static inline int pb_sum(int64_t a, int64_t b, int64_t *sum) {
        if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return 1;
        *sum = a + b;
        return 0;
    }
    """
    cdef enum Fault "pb_fault":  # the numbers of `errors.RecordFault`, as `check_faults` ensures
        FINE "PB_FINE"
        CUT_NUMBER "PB_CUT_NUMBER"
        LONG_NUMBER "PB_LONG_NUMBER"
        RECORD_SIZE "PB_RECORD_SIZE"
        LONG_FIELD "PB_LONG_FIELD"
        HEADER_COUNT "PB_HEADER_COUNT"
        NULL_HEADER_KEY "PB_NULL_HEADER_KEY"
        LONG_RECORD "PB_LONG_RECORD"
        BYTES_LEFT "PB_BYTES_LEFT"
        OUT_OF_RANGE "PB_OUT_OF_RANGE"
        SMALL_MESSAGE "PB_SMALL_MESSAGE"
        WRONG_MAGIC "PB_WRONG_MAGIC"
        NESTED "PB_NESTED"
        MESSAGE_FIELDS "PB_MESSAGE_FIELDS"
        CHECKSUM "PB_CHECKSUM"
        TOO_LARGE "PB_TOO_LARGE"
    int pb_number(const uint8_t **at, const uint8_t *end, int bytes_max, uint64_t *value) nogil
    int pb_sum(int64_t a, int64_t b, int64_t *total) nogil


ctypedef const uint8_t *Bytes

cdef enum:
    SECTION_MAX = 0x7FFF0000

cdef struct Field:
    int64_t size  # negative: null
    Bytes data


cdef inline object check_faults():
    """Raise ImportError unless the numbers of faults are those of Python."""
    from pybroker.records.errors import RecordFault

    faults = {
        "CUT_NUMBER": <int>CUT_NUMBER,
        "LONG_NUMBER": <int>LONG_NUMBER,
        "RECORD_SIZE": <int>RECORD_SIZE,
        "LONG_FIELD": <int>LONG_FIELD,
        "HEADER_COUNT": <int>HEADER_COUNT,
        "NULL_HEADER_KEY": <int>NULL_HEADER_KEY,
        "LONG_RECORD": <int>LONG_RECORD,
        "BYTES_LEFT": <int>BYTES_LEFT,
        "OUT_OF_RANGE": <int>OUT_OF_RANGE,
        "SMALL_MESSAGE": <int>SMALL_MESSAGE,
        "WRONG_MAGIC": <int>WRONG_MAGIC,
        "NESTED": <int>NESTED,
        "MESSAGE_FIELDS": <int>MESSAGE_FIELDS,
        "CHECKSUM": <int>CHECKSUM,
        "TOO_LARGE": <int>TOO_LARGE,
    }
    if faults != dict(RecordFault.__members__):
        raise ImportError("the numbers of faults are not those of RecordFault")


# --- reading

cdef inline int read_varint(Bytes *at, Bytes end, int64_t *value) noexcept nogil:
    cdef uint64_t raw = 0
    cdef int fault = pb_number(at, end, 5, &raw)
    raw = <uint32_t>raw
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return fault


cdef inline int read_varlong(Bytes *at, Bytes end, int64_t *value) noexcept nogil:
    cdef uint64_t raw = 0
    cdef int fault = pb_number(at, end, 10, &raw)
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return fault


cdef inline int read_field(Bytes *at, Bytes end, Field *field) noexcept nogil:
    cdef int fault = read_varint(at, end, &field.size)
    if fault != FINE:
        return fault
    if field.size > end - at[0]:
        return LONG_FIELD
    field.data = at[0]
    if field.size > 0:
        at[0] += field.size
    return FINE


cdef inline int64_t get_int32(Bytes p) noexcept nogil:
    return <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3])


cdef inline int64_t get_int64(Bytes p) noexcept nogil:
    cdef uint64_t high = <uint32_t>get_int32(p)
    cdef uint64_t low = <uint32_t>get_int32(p + 4)
    return <int64_t>(high << 32 | low)


cdef inline int read_message_field(Bytes *at, Bytes end, Field *field) noexcept nogil:
    if end - at[0] < 4:
        return MESSAGE_FIELDS
    field.size = get_int32(at[0])
    at[0] += 4
    if field.size > end - at[0]:
        return MESSAGE_FIELDS
    field.data = at[0]
    if field.size > 0:
        at[0] += field.size
    return FINE


# --- writing

cdef inline void put_int32(uint8_t *p, int64_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 24)
    p[1] = <uint8_t>(value >> 16)
    p[2] = <uint8_t>(value >> 8)
    p[3] = <uint8_t>value


cdef inline void put_int64(uint8_t *p, int64_t value) noexcept nogil:
    put_int32(p, value >> 32)
    put_int32(p + 4, value)


cdef inline uint8_t *put_varlong(uint8_t *p, int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw > 0x7F:
        p[0] = <uint8_t>(raw & 0x7F | 0x80)
        p += 1
        raw >>= 7
    p[0] = <uint8_t>raw
    return p + 1


cdef inline int varlong_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while raw > 0x7F:
        size += 1
        raw >>= 7
    return size
