# The structures of Arrow's C data and stream interfaces, whose layout is the same in every library;
# inline only, so there is no .pyx.
#
# Buffers come without their sizes: only the arrays' own statements about them can be checked.
# Source: Arrow C data interface, C stream interface and PyCapsule interface (Arrow 20 documents).

from libc.stdint cimport int64_t, uint8_t


cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept
    void* private_data


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept
    void* private_data


cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
    const char* (*get_last_error)(ArrowArrayStream*) noexcept
    void (*release)(ArrowArrayStream*) noexcept
    void* private_data


# A view of a byte string. Short strings lie inside it; for others it has a prefix and the place.
cdef struct ArrowView:
    int size
    uint8_t prefix[4]
    int buffer_index
    int offset


# Whether a row's bit is set in a bitmap, least significant bit first.
cdef inline bint is_set(const uint8_t* bitmap, int64_t index) noexcept nogil:
    return (bitmap[index >> 3] >> (index & 7)) & 1
