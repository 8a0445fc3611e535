# cython: boundscheck=False, wraparound=False, cdivision=True
"""Typed twins of `_kernels_python`. Every read is checked against the end of its record, every write against the end of its output.

Bounds are checked by hand: what comes in may be hostile. Results and kinds of errors are those of `_kernels_python`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from crc32c import crc32c

from pybroker.records.errors import record_fault


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* CRC-32 (IEEE, reflected). Eight tables, eight bytes a step; with carry-less multiplication 64 bytes a step
       (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009). */
    static uint32_t pb_table[8][256];
    static int pb_has_clmul;

    static uint32_t pb_crc_tables(uint32_t crc, const uint8_t *p, size_t n) {
        while (n >= 8) {
            uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            crc = pb_table[7][low & 255] ^ pb_table[6][low >> 8 & 255] ^ pb_table[5][low >> 16 & 255] ^ pb_table[4][low >> 24]
                ^ pb_table[3][p[4]] ^ pb_table[2][p[5]] ^ pb_table[1][p[6]] ^ pb_table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n--) crc = crc >> 8 ^ pb_table[0][(crc ^ *p++) & 255];
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define PB_CLMUL __attribute__((target("pclmul,sse4.1")))
    #define PB_LOAD(p) _mm_loadu_si128((const __m128i *)(p))

    /* The product of the two halves of `a` with the two constants, added to `b`: `a` moved along by a fixed distance. */
    PB_CLMUL static inline __m128i pb_fold(__m128i a, __m128i k, __m128i b) {
        return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)), b);
    }

    /* n >= 64 and a multiple of 16 */
    PB_CLMUL static uint32_t pb_crc_clmul(uint32_t crc, const uint8_t *p, size_t n) {
        const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i by_4 = _mm_set_epi64x(0, 0x0163cd6124), reduce = _mm_set_epi64x(0x01f7011641, 0x01db710641);
        const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
        __m128i a = _mm_xor_si128(PB_LOAD(p), _mm_cvtsi32_si128((int)crc)), b = PB_LOAD(p + 16), c = PB_LOAD(p + 32),
                d = PB_LOAD(p + 48), t;
        for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
            a = pb_fold(a, by_64, PB_LOAD(p));
            b = pb_fold(b, by_64, PB_LOAD(p + 16));
            c = pb_fold(c, by_64, PB_LOAD(p + 32));
            d = pb_fold(d, by_64, PB_LOAD(p + 48));
        }
        a = pb_fold(pb_fold(pb_fold(a, by_16, b), by_16, c), by_16, d);
        for (; n >= 16; p += 16, n -= 16) a = pb_fold(a, by_16, PB_LOAD(p));
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10)); /* 128 bits to 96 */
        t = _mm_srli_si128(a, 4);                                                      /* to 64 */
        a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low_words), by_4, 0x00), t);
        t = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), reduce, 0x10);           /* to 32, by Barrett */
        t = _mm_clmulepi64_si128(_mm_and_si128(t, low_words), reduce, 0x00);
        return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
    }
    #endif

    static uint32_t pb_crc32(const uint8_t *p, size_t n) {
        uint32_t crc = 0xffffffffu;
    #if defined(__x86_64__) && defined(__GNUC__)
        if (n >= 64 && pb_has_clmul) {
            size_t folded = n & ~(size_t)15;
            crc = pb_crc_clmul(crc, p, folded);
            p += folded;
            n -= folded;
        }
    #endif
        return ~pb_crc_tables(crc, p, n);
    }

    static void pb_crc_init(int use_clmul) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
            pb_table[0][i] = crc;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++) pb_table[k][i] = pb_table[k - 1][i] >> 8 ^ pb_table[0][pb_table[k - 1][i] & 255];
    #if defined(__x86_64__) && defined(__GNUC__)
        __builtin_cpu_init();
        pb_has_clmul = use_clmul && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    #else
        (void)use_clmul;
        pb_has_clmul = 0;
    #endif
    }

    /* CRC-32C with the processor's own instruction; 0 where there is none. */
    static int pb_has_crc32c;

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2"))) static uint32_t pb_crc32c(const uint8_t *p, size_t n) {
        uint64_t crc = 0xffffffffu, word;
        for (; n >= 8; p += 8, n -= 8) {
            memcpy(&word, p, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        while (n--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
        return ~(uint32_t)crc;
    }

    static void pb_crc32c_init(int use_instruction) {
        __builtin_cpu_init();
        pb_has_crc32c = use_instruction && __builtin_cpu_supports("sse4.2");
    }
    #else
    static uint32_t pb_crc32c(const uint8_t *p, size_t n) {
        (void)p, (void)n;
        return 0;
    }
    static void pb_crc32c_init(int use_instruction) { (void)use_instruction; }
    #endif

    /* A varint of one or two bytes, which nearly all are, without a loop. The result is a fault, or -1. */
    static inline __attribute__((always_inline)) int pb_number(const uint8_t **at, const uint8_t *end, int bytes_max, uint64_t *value) {
        const uint8_t *p = *at;
        if (end - p >= 2) {
            if (p[0] < 0x80) {
                *value = p[0];
                *at = p + 1;
                return -1;
            }
            if (p[1] < 0x80) {
                *value = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
                *at = p + 2;
                return -1;
            }
        }
        uint64_t raw = 0;
        for (int i = 0; i < bytes_max; i++, p++) {
            if (p == end) return 0; /* CUT_NUMBER */
            raw |= (uint64_t)(*p & 0x7f) << (7 * i);
            if (*p < 0x80) {
                *value = raw;
                *at = p + 1;
                return -1;
            }
        }
        return 1; /* LONG_NUMBER */
    }

    static inline int pb_sum(int64_t a, int64_t b, int64_t *sum) {
        if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return 1;
        *sum = a + b;
        return 0;
    }
    """
    uint32_t pb_crc32(const uint8_t *p, size_t n) nogil
    void pb_crc_init(int use_clmul) nogil
    int pb_has_crc32c
    uint32_t pb_crc32c(const uint8_t *p, size_t n) nogil
    void pb_crc32c_init(int use_instruction) nogil
    int pb_number(const uint8_t **at, const uint8_t *end, int bytes_max, uint64_t *value) nogil
    int pb_sum(int64_t a, int64_t b, int64_t *total) nogil


pb_crc_init(1)
pb_crc32c_init(1)

cdef enum:  # keep in step with RECORD_FAULTS
    FINE = -1
    CUT_NUMBER = 0
    LONG_NUMBER = 1
    RECORD_SIZE = 2
    LONG_FIELD = 3
    HEADER_COUNT = 4
    NULL_HEADER_KEY = 5
    LONG_RECORD = 6
    BYTES_LEFT = 7
    OUT_OF_RANGE = 8
    SMALL_MESSAGE = 9
    WRONG_MAGIC = 10
    NESTED = 11
    MESSAGE_FIELDS = 12
    CHECKSUM = 13
    TOO_LARGE = 14

cdef enum:
    SECTION_MAX = 0x7FFF0000
    RELEASE_GIL_BYTES = 262144
    OWN_CRC32C_BYTES = 2048  # above it three sums at once, as in the package, are worth a call

cdef enum:  # a batch's header; see `batch`
    BATCH_LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    HEADER_SIZE = 61
    UNUSUAL_BITS = 0x3F  # codec, log append time, transactional, control

ctypedef const uint8_t *Bytes

cdef struct Field:
    int64_t size  # negative: null
    Bytes data

cdef struct Parsed:
    int64_t timestamp_delta
    int64_t offset_delta
    Field key
    Field value
    Bytes next

cdef struct Scan:
    int64_t max_timestamp
    int64_t min_timestamp
    int64_t keyless
    bint is_sequential

cdef struct Conversion:
    int64_t base_offset
    int64_t base_timestamp
    bint is_log_append_time
    int64_t log_append_time
    int magic
    int64_t first_offset
    bint is_relative
    # results
    int64_t kept
    int64_t first_kept
    int64_t last_kept
    int64_t max_timestamp


# --- reading numbers

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


# --- writing numbers

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


# --- records of magic 2

cdef int skip_headers(Bytes *at, Bytes end, int64_t count) noexcept nogil:
    cdef Field field
    cdef int fault
    if count < 0 or count > end - at[0]:
        return HEADER_COUNT
    while count > 0:
        fault = read_field(at, end, &field)
        if fault != FINE:
            return fault
        if field.size < 0:
            return NULL_HEADER_KEY
        fault = read_field(at, end, &field)
        if fault != FINE:
            return fault
        count -= 1
    return FINE


cdef inline int parse_record(Bytes p, Bytes section_end, Parsed *record) noexcept nogil:
    cdef int64_t size = 0
    cdef int64_t headers = 0
    cdef Bytes end
    cdef int fault = read_varint(&p, section_end, &size)
    if fault != FINE:
        return fault
    if size < 1 or size > section_end - p:
        return RECORD_SIZE
    end = p + size
    p += 1  # attributes
    fault = read_varlong(&p, end, &record.timestamp_delta)
    if fault != FINE:
        return fault
    fault = read_varint(&p, end, &record.offset_delta)
    if fault != FINE:
        return fault
    fault = read_field(&p, end, &record.key)
    if fault != FINE:
        return fault
    fault = read_field(&p, end, &record.value)
    if fault != FINE:
        return fault
    fault = read_varint(&p, end, &headers)
    if fault != FINE:
        return fault
    if headers != 0 or p != end:
        fault = skip_headers(&p, end, headers)
        if fault != FINE:
            return fault
        if p != end:
            return LONG_RECORD
    record.next = end
    return FINE


cdef int scan(Bytes p, Bytes end, int64_t count, int64_t base_timestamp, Scan *result) noexcept nogil:
    cdef Parsed record
    cdef int64_t index
    cdef int64_t timestamp = 0
    cdef int fault
    result.max_timestamp = -1
    result.min_timestamp = INT64_MAX
    result.keyless = 0
    result.is_sequential = True
    for index in range(count):
        fault = parse_record(p, end, &record)
        if fault != FINE:
            return fault
        p = record.next
        if pb_sum(base_timestamp, record.timestamp_delta, &timestamp):
            return OUT_OF_RANGE
        if timestamp > result.max_timestamp:
            result.max_timestamp = timestamp
        if timestamp < result.min_timestamp and timestamp != -1:
            result.min_timestamp = timestamp
        if record.key.size < 0:
            result.keyless += 1
        if record.offset_delta != index:
            result.is_sequential = False
    return FINE if p == end else BYTES_LEFT


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
    cdef int fault
    c.kept = c.first_kept = 0
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
        if size > room:
            return BYTES_LEFT  # the buffer changed under our hands
        put_message(out, size, offset, timestamp, &record, c)
        out += size
        room -= size
    return FINE if room == 0 else BYTES_LEFT


# --- messages of magic 0 and 1

cdef struct Message:
    int64_t timestamp
    Field key
    Field value


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
    # results
    int64_t count
    int64_t base_timestamp
    int64_t written
    Scan scan


cdef int lift(Bytes p, Bytes end, Upward *u, uint8_t *out, int64_t room) noexcept nogil:
    cdef Message message
    cdef int64_t size, body
    cdef int64_t delta = 0
    cdef uint8_t *start = out
    cdef int fault
    u.count = u.base_timestamp = u.scan.keyless = 0
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
    u.written = out - start
    return FINE


cdef uint8_t *put_moved_record(uint8_t *out, Bytes p, Parsed *record, int64_t timestamp_delta) noexcept nogil:
    """A record with another timestamp delta; at most 18 bytes longer than it was."""
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


# --- what Python calls

def _use_clmul(bint enabled):
    """For tests: choose how `crc32` works; without effect where there is no choice."""
    pb_crc_init(enabled)


def _use_crc32c(bint enabled):
    """For tests: choose how `accept_batch` makes its checksum; without effect where there is no choice."""
    pb_crc32c_init(enabled)


def crc32(data):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return pb_crc32(<Bytes>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


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


cdef inline bint has_plain_header(Bytes p, int64_t size, int64_t bytes_max) noexcept nogil:
    """Whether a batch's header is one of those that `accept_batch` takes, but for what its records must be looked at for."""
    cdef int64_t count
    if size < HEADER_SIZE or size > bytes_max or p[MAGIC_AT] != 2 or get_int32(p + BATCH_LENGTH_AT) != size - 12:
        return False
    if get_int64(p) != 0 or p[ATTRIBUTES_AT + 1] & UNUSUAL_BITS:
        return False
    count = get_int32(p + RECORD_COUNT_AT)
    if count <= 0 or get_int32(p + LAST_OFFSET_DELTA_AT) != count - 1:
        return False
    return get_int32(p + BASE_SEQUENCE_AT) >= 0 or get_int64(p + PRODUCER_ID_AT) < 0


cdef inline bint has_plain_records(Bytes p, int64_t size, int64_t earliest, int64_t latest, bint is_compacted) noexcept nogil:
    cdef Scan found
    if scan(p + HEADER_SIZE, p + size, get_int32(p + RECORD_COUNT_AT), get_int64(p + BASE_TIMESTAMP_AT), &found) != FINE:
        return False
    if not found.is_sequential or found.max_timestamp != get_int64(p + MAX_TIMESTAMP_AT) or (is_compacted and found.keyless):
        return False
    return found.max_timestamp <= latest and found.min_timestamp >= earliest


def accept_batch(records, int64_t first_offset, int64_t leader_epoch, int64_t now_ms, int64_t bytes_max, int64_t before_max_ms,
                 int64_t after_max_ms, bint is_compacted):
    cdef Py_buffer view
    cdef uint8_t *p
    cdef uint32_t crc
    cdef bint is_plain
    cdef int64_t earliest, latest
    if pb_sum(now_ms, -before_max_ms, &earliest):
        earliest = -INT64_MAX
    if pb_sum(now_ms, after_max_ms, &latest):
        latest = INT64_MAX
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        p = <uint8_t *>view.buf
        if view.readonly or not has_plain_header(p, view.len, bytes_max):
            return None
        crc = <uint32_t>get_int32(p + CRC_AT)
        if pb_has_crc32c and view.len <= OWN_CRC32C_BYTES:
            if crc != pb_crc32c(p + ATTRIBUTES_AT, view.len - ATTRIBUTES_AT):
                return None
        elif crc != crc32c(memoryview(records)[ATTRIBUTES_AT:]):
            return None
        if view.len > RELEASE_GIL_BYTES:
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
        )
    finally:
        PyBuffer_Release(&view)


def down_converted_size(section, int64_t record_count, int64_t base_offset, int to_magic, int64_t first_offset):
    cdef Py_buffer view
    cdef Conversion c
    cdef int64_t size = 0
    cdef int fault
    c.base_offset = base_offset
    c.magic = to_magic
    c.first_offset = first_offset
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len > SECTION_MAX:
            raise record_fault(TOO_LARGE)
        fault = measure(<Bytes>view.buf, <Bytes>view.buf + view.len, record_count, &c, &size)
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
        fault = measure(start, end, record_count, &c, &size)
        if fault == FINE:
            messages = PyBytes_FromStringAndSize(NULL, size)
            out = <uint8_t *>PyBytes_AS_STRING(messages)
            if view.len > RELEASE_GIL_BYTES:
                with nogil:
                    fault = convert(start, end, record_count, &c, out, size)
            else:
                fault = convert(start, end, record_count, &c, out, size)
    finally:
        PyBuffer_Release(&view)
    if fault != FINE:
        raise record_fault(fault)
    return messages, c.kept, c.last_kept, c.max_timestamp


def up_convert_messages(messages, int magic, bint is_log_append_time, int64_t log_append_time):
    cdef Py_buffer view
    cdef Upward u
    cdef int fault
    cdef bytes section
    cdef uint8_t *out
    cdef Bytes start
    cdef Bytes end
    u.magic = magic
    u.is_log_append_time = is_log_append_time
    u.log_append_time = log_append_time
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
    return section[:u.written], u.count, u.base_timestamp, u.scan.max_timestamp, u.scan.min_timestamp, u.scan.keyless


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
            raise record_fault(RECORD_SIZE)  # a record has at least a byte; what follows relies on it
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
