# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A growing buffer of JSON text, and strings in it.

Strings are escaped as Jackson does it: quotation mark, backslash and control characters, nothing
else. Bytes that are not UTF-8 become U+FFFD, as many as Java's decoder makes of them.

Thread-safety: a buffer belongs to one thread; the GIL is not needed.
Source: RFC 8259 §7; Unicode 15 §3.9, table 3-7, for well-formed UTF-8.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

cdef enum:
    CAPACITY_MIN = 65536
    # An escape is at most six bytes; a replacement has three.
    ESCAPE_BYTES_MAX = 6
    PLAIN = 0
    ESCAPED = 1
    NOT_ASCII = 2

cdef int64_t CAPACITY_MAX = <int64_t>1 << 62
cdef uint64_t ONES = 0x0101010101010101U
cdef uint64_t HIGH_BITS = 0x8080808080808080U
cdef const uint8_t* HEX_DIGITS = b"0123456789ABCDEF"
cdef const uint8_t* REPLACEMENT = b"\xef\xbf\xbd"
cdef const uint8_t* BASE64_DIGITS = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)

# The kind of each byte in a string; the second letter of an escape that has a name, or 0.
cdef uint8_t[256] KINDS
cdef uint8_t[128] NAMED_ESCAPES


cdef void _fill_tables():
    for byte in range(256):
        is_escaped = byte < 0x20 or byte in b'"\\'
        KINDS[byte] = NOT_ASCII if byte >= 0x80 else ESCAPED if is_escaped else PLAIN
    for byte in range(128):
        NAMED_ESCAPES[byte] = 0
    for byte, name in zip(b'"\\\n\r\t\b\f', b'"\\nrtbf', strict=True):
        NAMED_ESCAPES[byte] = name


_fill_tables()


cdef int grow(JsonBuffer* text, int64_t more) except -1 nogil:
    """Make room for more bytes: at least twice what there was."""
    cdef int64_t capacity = max(text.capacity * 2, <int64_t>CAPACITY_MIN)
    cdef void* start = NULL
    capacity = max(capacity, text.size + more)
    if 0 <= more < CAPACITY_MAX - text.size:
        start = realloc(text.start, capacity)
    if start == NULL:
        with gil:
            raise MemoryError(f"no memory for {capacity} bytes of JSON")
    text.start = <uint8_t*>start
    text.capacity = capacity
    return 0


cdef int put_string(JsonBuffer* text, const uint8_t* start, int64_t size) except -1 nogil:
    """Write a string with its quotation marks.

    Between two escapes there is always room for all bytes that are left, plus one escape.
    """
    cdef const uint8_t* at = start
    cdef const uint8_t* end = start + size
    cdef const uint8_t* copied = start
    cdef int64_t width
    reserve(text, size + 2 + ESCAPE_BYTES_MAX)
    put_byte(text, c'"')
    while at < end:
        if end - at >= 8 and _are_plain(at):
            at += 8
            continue
        if KINDS[at[0]] == PLAIN:
            at += 1
            continue
        width = _sequence_bytes(at, end - at) if KINDS[at[0]] == NOT_ASCII else 0
        if width > 0:
            at += width
            continue
        put_bytes(text, copied, at - copied)
        if KINDS[at[0]] == ESCAPED:
            _put_escape(text, at[0])
            at += 1
        else:
            put_bytes(text, REPLACEMENT, 3)
            at -= width  # as many bytes as one replacement covers
        copied = at
        reserve(text, (end - at) + 2 + ESCAPE_BYTES_MAX)
    put_bytes(text, copied, at - copied)
    put_byte(text, c'"')
    return 0


cdef inline bint _are_plain(const uint8_t* at) noexcept nogil:
    """Return whether eight bytes are ASCII without an escape; a wrong no costs only time."""
    cdef uint64_t word
    memcpy(&word, at, 8)
    return not (
        (
            word | (word - 0x20 * ONES)
            | ((word ^ (0x22 * ONES)) - ONES) | ((word ^ (0x5C * ONES)) - ONES)
        ) & HIGH_BITS
    )


cdef inline void _put_escape(JsonBuffer* text, uint8_t byte) noexcept nogil:
    put_byte(text, c"\\")
    if NAMED_ESCAPES[byte]:
        put_byte(text, NAMED_ESCAPES[byte])
        return
    put_bytes(text, b"u00", 3)
    put_byte(text, HEX_DIGITS[byte >> 4])
    put_byte(text, HEX_DIGITS[byte & 15])


cdef int64_t _sequence_bytes(const uint8_t* at, int64_t left) noexcept nogil:
    """Return the length of a well-formed sequence, or minus the bytes of an ill-formed one."""
    cdef uint8_t lead = at[0]
    cdef uint8_t least = 0x80
    cdef uint8_t most = 0xBF
    cdef int64_t width
    cdef int64_t index
    if 0xC2 <= lead <= 0xDF:
        width = 2
    elif 0xE0 <= lead <= 0xEF:
        width = 3
        least = 0xA0 if lead == 0xE0 else 0x80
    elif 0xF0 <= lead <= 0xF4:
        width = 4
        least = 0x90 if lead == 0xF0 else 0x80
        most = 0x8F if lead == 0xF4 else 0xBF
    else:
        return -1
    for index in range(1, width):
        if index >= left or not least <= at[index] <= most:
            return -index
        least, most = 0x80, 0xBF
    if lead == 0xED and at[1] >= 0xA0:
        return -3  # half of a surrogate pair
    return width


cdef int put_base64(JsonBuffer* text, const uint8_t* start, int64_t size) except -1 nogil:
    """Write bytes as a string of Base64, with padding and without line ends."""
    cdef int64_t at = 0
    cdef unsigned int group
    reserve(text, (size + 2) // 3 * 4 + 2)
    put_byte(text, c'"')
    while at < size:
        group = <unsigned int>start[at] << 16
        if at + 1 < size:
            group |= <unsigned int>start[at + 1] << 8
        if at + 2 < size:
            group |= start[at + 2]
        put_byte(text, BASE64_DIGITS[group >> 18])
        put_byte(text, BASE64_DIGITS[(group >> 12) & 63])
        put_byte(text, BASE64_DIGITS[(group >> 6) & 63] if at + 1 < size else c"=")
        put_byte(text, BASE64_DIGITS[group & 63] if at + 2 < size else c"=")
        at += 3
    put_byte(text, c'"')
    return 0
