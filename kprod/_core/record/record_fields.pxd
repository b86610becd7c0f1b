# One record and one header of format V2, located in untrusted bytes; inline only, so there is no
# .pyx.
#
# Each length is copied out of the buffer once, compared with the remaining bytes, and only then
# used. The readers move `at` forward and never past `limit`; after a fault it may be anywhere
# between.
# Source: Kafka DefaultRecord (clients 4.3.1).

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kprod._core.varint cimport take_varint, take_varlong

cdef enum:
    # Length, attributes, both deltas, key and value lengths, header count: one byte each.
    RECORD_BYTES_MIN = 7
    # Key length and value length.
    HEADER_BYTES_MIN = 2
    NULL_LENGTH = -1

cdef enum Fault:
    FAULT_NONE = 0
    FAULT_VARINT = 1
    FAULT_RECORD_LENGTH = 2
    FAULT_OFFSET_DELTA = 3
    FAULT_KEY = 4
    FAULT_VALUE = 5
    FAULT_HEADER_COUNT = 6
    FAULT_HEADER_KEY = 7
    FAULT_HEADER_VALUE = 8
    FAULT_RECORD_END = 9

cdef struct RecordFields:
    int64_t timestamp_delta
    int32_t offset_delta
    # -1 for null.
    int32_t key_length
    int32_t value_length
    int32_t header_count
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers
    const uint8_t* end

cdef struct HeaderFields:
    const uint8_t* key
    const uint8_t* value
    int32_t key_length
    int32_t value_length


# Most varints have one byte, which needs no call.
cdef inline bint read_varint(
    const uint8_t** at, const uint8_t* limit, int32_t* value
) noexcept nogil:
    cdef const uint8_t* end
    cdef uint32_t byte
    if at[0] < limit:
        byte = at[0][0]
        if byte < 0x80:
            at[0] += 1
            value[0] = <int32_t>((byte >> 1) ^ (0 - (byte & 1)))
            return True
    end = take_varint(at[0], limit, value)
    if end == NULL:
        return False
    at[0] = end
    return True


cdef inline bint read_varlong(
    const uint8_t** at, const uint8_t* limit, int64_t* value
) noexcept nogil:
    cdef const uint8_t* end = take_varlong(at[0], limit, value)
    if end == NULL:
        return False
    at[0] = end
    return True


# Read a length, -1 for null, and skip as many bytes; False if there are fewer.
cdef inline bint read_nullable(
    const uint8_t** at, const uint8_t* limit, const uint8_t** start, int32_t* length
) noexcept nogil:
    if not read_varint(at, limit, length):
        return False
    start[0] = at[0]
    if length[0] == NULL_LENGTH:
        return True
    if length[0] < 0 or length[0] > limit - at[0]:
        return False
    at[0] += length[0]
    return True


cdef inline Fault read_header(
    const uint8_t** at, const uint8_t* limit, HeaderFields* header
) noexcept nogil:
    if not read_nullable(at, limit, &header.key, &header.key_length) or header.key_length < 0:
        return FAULT_HEADER_KEY
    if not read_nullable(at, limit, &header.value, &header.value_length):
        return FAULT_HEADER_VALUE
    return FAULT_NONE


# Check that exactly `header_count` headers fill the bytes up to `limit`.
cdef inline Fault skip_headers(
    const uint8_t* at, const uint8_t* limit, int32_t header_count
) noexcept nogil:
    cdef HeaderFields header
    cdef Fault fault
    cdef int32_t _index
    if header_count < 0 or header_count > (limit - at) // HEADER_BYTES_MIN:
        return FAULT_HEADER_COUNT
    for _index in range(header_count):
        fault = read_header(&at, limit, &header)
        if fault != FAULT_NONE:
            return fault
    return FAULT_NONE if at == limit else FAULT_RECORD_END


# Read one record's fields and move to its end. Without a fault its structure is valid.
cdef inline Fault read_record(
    const uint8_t** at, const uint8_t* limit, RecordFields* fields
) noexcept nogil:
    cdef int32_t length
    cdef const uint8_t* cursor
    if not read_varint(at, limit, &length):
        return FAULT_VARINT
    if length < RECORD_BYTES_MIN - 1 or length > limit - at[0]:
        return FAULT_RECORD_LENGTH
    # The first byte holds the attributes, which are unused.
    cursor = at[0] + 1
    at[0] += length
    fields.end = at[0]
    if not read_varlong(&cursor, fields.end, &fields.timestamp_delta):
        return FAULT_VARINT
    if not read_varint(&cursor, fields.end, &fields.offset_delta):
        return FAULT_VARINT
    if not read_nullable(&cursor, fields.end, &fields.key, &fields.key_length):
        return FAULT_KEY
    if not read_nullable(&cursor, fields.end, &fields.value, &fields.value_length):
        return FAULT_VALUE
    if not read_varint(&cursor, fields.end, &fields.header_count):
        return FAULT_VARINT
    fields.headers = cursor
    return skip_headers(cursor, fields.end, fields.header_count)
