# A growing buffer of JSON text. Functions that write return 0, or −1 with MemoryError set.

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy


cdef struct JsonBuffer:
    uint8_t* start
    int64_t size
    int64_t capacity


cdef int grow(JsonBuffer* text, int64_t more) except -1 nogil
cdef int put_string(JsonBuffer* text, const uint8_t* start, int64_t size) except -1 nogil
cdef int put_base64(JsonBuffer* text, const uint8_t* start, int64_t size) except -1 nogil


cdef inline int reserve(JsonBuffer* text, int64_t more) except -1 nogil:
    if text.capacity - text.size < more:
        return grow(text, more)
    return 0


# The functions below need room that was reserved before.
cdef inline void put_byte(JsonBuffer* text, uint8_t byte) noexcept nogil:
    text.start[text.size] = byte
    text.size += 1


cdef inline void put_bytes(JsonBuffer* text, const uint8_t* start, int64_t size) noexcept nogil:
    memcpy(text.start + text.size, start, size)
    text.size += size
