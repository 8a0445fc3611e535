# Records of magic 2, one after the other. `_kernels_native.pyx` and `_sections_native.pyx` include this file, so that C can
# inline what is in it.

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


cdef inline int scan(Bytes p, Bytes end, int64_t count, int64_t base_timestamp, Scan *result) noexcept nogil:
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
