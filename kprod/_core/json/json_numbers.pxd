from libc.stdint cimport int64_t, uint8_t, uint64_t

from kprod._core.json.json_buffer cimport JsonBuffer
from kprod._core.json.shortest_digits cimport Decimal


cdef int put_integer(JsonBuffer* text, int64_t number) except -1 nogil
cdef int put_floating(
    JsonBuffer* text, Decimal digits, bint is_negative, bint is_finite, bint is_nan
) except -1 nogil
cdef int put_decimal(JsonBuffer* text, const uint64_t* words, int scale) except -1 nogil
cdef void put_padded(JsonBuffer* text, uint64_t number, int width) noexcept nogil
