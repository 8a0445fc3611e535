# Converts records of magic 2 to messages of magic 0 and 1, and back. Every write is checked against the end of its output.
# `_kernels_native.pyx` includes this file, so that C can inline what is in it.

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
            return BYTES_LEFT  # the buffer was changed meanwhile
        put_message(out, size, offset, timestamp, &record, c)
        out += size
        room -= size
    return FINE if room == 0 else BYTES_LEFT


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
