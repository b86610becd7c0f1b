# Buffers that grow while columns are filled, and their export by Arrow's C data interface.

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema

cdef enum:
    BUFFERS_MAX = 3
    CHILDREN_MAX = 9


cdef struct GrowingBuffer:
    uint8_t* at
    int64_t used
    int64_t capacity


# A column of byte strings: their end positions, their bytes, and which of them are not null.
cdef struct BytesBuilder:
    GrowingBuffer ends
    GrowingBuffer content
    GrowingBuffer validity
    int64_t length
    int64_t null_count


# A column of numbers; the validity stays empty where no number can be missing.
cdef struct NumberBuilder:
    GrowingBuffer values
    GrowingBuffer validity
    int64_t length
    int64_t null_count


# Make room for this many further bytes; False without memory.
cdef bint reserve(GrowingBuffer* buffer, int64_t more) noexcept nogil
cdef bint reserve_bytes(BytesBuilder* column, int64_t rows, int64_t content_bytes) noexcept nogil
cdef bint reserve_numbers(NumberBuilder* column, int64_t rows, int width) noexcept nogil
cdef void release_buffer(GrowingBuffer* buffer) noexcept nogil
cdef void release_bytes(BytesBuilder* column) noexcept nogil
cdef void release_numbers(NumberBuilder* column) noexcept nogil

# An array without buffers yet, and its release and the memory for it; NULL without memory.
cdef ArrowArray* make_array(int child_count) noexcept nogil
# Move a built column to an array. Bytes need `reserve_bytes` before, even for no rows.
cdef void give_buffer(ArrowArray* array, int place, GrowingBuffer* buffer) noexcept nogil
cdef void give_bytes(ArrowArray* array, BytesBuilder* column) noexcept nogil
cdef void give_numbers(ArrowArray* array, NumberBuilder* column) noexcept nogil
cdef void drop_array(ArrowArray* array) noexcept nogil
# A field of a schema; format and name must be literals.
cdef ArrowSchema* make_schema(
    const char* format, const char* name, bint is_nullable, int child_count) noexcept nogil
cdef void drop_schema(ArrowSchema* schema) noexcept nogil
# Capsules that own what they point to.
cdef object schema_capsule(ArrowSchema* schema)
cdef object array_capsule(ArrowArray* array)


# The writers need room that was reserved. A bit begins its byte, so bitmaps need no zeros.
cdef inline void put_bit(GrowingBuffer* bitmap, int64_t index, bint is_set) noexcept nogil:
    cdef int64_t place = index >> 3
    if index & 7 == 0:
        bitmap.at[place] = 0
        bitmap.used = place + 1
    bitmap.at[place] |= <uint8_t>(is_set << (index & 7))


cdef inline void put_int32(GrowingBuffer* buffer, int32_t number) noexcept nogil:
    (<int32_t*>(buffer.at + buffer.used))[0] = number
    buffer.used += sizeof(int32_t)


cdef inline void put_int64(GrowingBuffer* buffer, int64_t number) noexcept nogil:
    (<int64_t*>(buffer.at + buffer.used))[0] = number
    buffer.used += sizeof(int64_t)


# Append a byte string, null if its length is negative; False if the reserved room does not suffice.
cdef inline bint put_bytes(
    BytesBuilder* column, const uint8_t* start, int64_t length
) noexcept nogil:
    cdef GrowingBuffer* content = &column.content
    if length > content.capacity - content.used:
        return False
    if length > 0:
        memcpy(content.at + content.used, start, length)
        content.used += length
    put_bit(&column.validity, column.length, length >= 0)
    column.null_count += length < 0
    column.length += 1
    put_int32(&column.ends, <int32_t>content.used)
    return True
