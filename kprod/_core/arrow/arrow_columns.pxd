from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema, ArrowView, is_set


cdef enum:
    # Content of a cell. A faulty cell is invalid, or has changed since it was checked.
    CELL_FAULTY = -1
    CELL_NULL = 0
    CELL_FULL = 1
    # Byte strings of a view that are longer than this are in a buffer.
    VIEW_INLINE_BYTES_MAX = 12


cdef enum Layout:
    NO_LAYOUT = 0
    NULLS = 1
    OFFSETS_32 = 2
    OFFSETS_64 = 3
    VIEWS = 4
    FIXED = 5


cdef struct NumberColumn:
    char kind
    const uint8_t* validity
    const void* numbers
    int64_t offset


cdef struct BytesColumn:
    Layout layout
    const uint8_t* validity
    int64_t offset
    # Offsets or views; then the bytes that they point into, with the size that the arrays state.
    const void* places
    const uint8_t* content
    int64_t content_bytes
    int64_t width
    const void** buffers
    const int64_t* buffer_bytes
    int64_t buffer_count
    # Whether the column is dictionary-encoded: its rows are then indexes of distinct values.
    bint is_encoded
    NumberColumn indexes
    int64_t distinct_count


cdef struct HeadersColumn:
    bint is_large
    const uint8_t* validity
    const void* offsets
    int64_t offset
    int64_t item_count
    const uint8_t* item_validity
    int64_t item_offset
    BytesColumn names
    BytesColumn values


# The rows of an array to read: `start` to `end`, counted from `base` behind the array's offset.
cdef struct Window:
    int64_t base
    int64_t start
    int64_t end


cdef class ColumnPlan:
    cdef readonly str role
    cdef readonly str name
    cdef readonly Py_ssize_t position
    cdef Layout layout
    cdef int64_t width
    cdef bint is_encoded
    # Format of a number, or of a distinct value's index.
    cdef char kind
    # Factors that convert a number's unit to milliseconds.
    cdef readonly int64_t multiplier
    cdef readonly int64_t divisor
    # For a list of headers.
    cdef bint is_large
    cdef ColumnPlan names
    cdef ColumnPlan values
    cdef int bind_bytes(self, ArrowArray* parent, Window* window, BytesColumn* column) except -1
    cdef int bind_number(self, ArrowArray* parent, Window* window, NumberColumn* column) except -1
    cdef int _bind_numbers(
        self, ArrowArray* array, Window* window, NumberColumn* column
    ) except -1
    cdef int bind_headers(self, ArrowArray* parent, Window* window, HeadersColumn* column) except -1
    cdef int _bind_values(
        self, ArrowArray* array, Window* window, BytesColumn* column, bint checks_each
    ) except -1
    cdef ArrowArray* _child(self, ArrowArray* parent, Window* window) except NULL


cdef int check_schema(ArrowSchema* schema) except -1
cdef Py_ssize_t find_child(ArrowSchema* schema, str name, str role) except -1
cdef ColumnPlan plan_bytes(ArrowSchema* schema, Py_ssize_t position, str role)
cdef ColumnPlan plan_number(ArrowSchema* schema, Py_ssize_t position, str role)
cdef ColumnPlan plan_headers(ArrowSchema* schema, Py_ssize_t position)
cdef int check_array(ArrowArray* array, Window* window, int64_t buffer_count, str what) except -1
cdef const uint8_t* validity_of(ArrowArray* array, str what) except? NULL


# The readers check again: if another thread changes the bytes meanwhile, no read leaves the range
# that was checked.
cdef inline int read_number(
    const NumberColumn* column, int64_t row, int64_t* number
) noexcept nogil:
    cdef int64_t at = column.offset + row
    cdef uint64_t unsigned
    if column.validity != NULL and not is_set(column.validity, at):
        return CELL_NULL
    if column.kind == c'i':
        number[0] = (<const int32_t*>column.numbers)[at]
    elif column.kind == c'l':
        number[0] = (<const int64_t*>column.numbers)[at]
    elif column.kind == c'I':
        number[0] = (<const uint32_t*>column.numbers)[at]
    elif column.kind == c's':
        number[0] = (<const short*>column.numbers)[at]
    elif column.kind == c'S':
        number[0] = (<const uint16_t*>column.numbers)[at]
    elif column.kind == c'c':
        number[0] = (<const signed char*>column.numbers)[at]
    elif column.kind == c'C':
        number[0] = (<const uint8_t*>column.numbers)[at]
    else:
        unsigned = (<const uint64_t*>column.numbers)[at]
        # INT64_MAX is out of range for every use of a number here, as the true value is.
        number[0] = <int64_t>min(unsigned, <uint64_t>0x7FFFFFFFFFFFFFFF)
    return CELL_FULL


cdef inline int read_bytes(
    const BytesColumn* column, int64_t row, const uint8_t** start, int64_t* size
) noexcept nogil:
    cdef int64_t at = column.offset + row
    cdef int64_t first
    cdef int64_t end
    cdef int cell
    cdef ArrowView view
    if column.is_encoded:
        cell = read_number(&column.indexes, row, &first)
        if cell != CELL_FULL:
            return cell
        if first < 0 or first >= column.distinct_count:
            return CELL_FAULTY
        at = column.offset + first
    if column.validity != NULL and not is_set(column.validity, at):
        return CELL_NULL
    if column.layout == OFFSETS_32:
        first = (<const int32_t*>column.places)[at]
        end = (<const int32_t*>column.places)[at + 1]
    elif column.layout == OFFSETS_64:
        first = (<const int64_t*>column.places)[at]
        end = (<const int64_t*>column.places)[at + 1]
    elif column.layout == FIXED:
        start[0] = column.content + at * column.width
        size[0] = column.width
        return CELL_FULL
    elif column.layout == VIEWS:
        view = (<const ArrowView*>column.places)[at]
        size[0] = view.size
        if view.size < 0:
            return CELL_FAULTY
        if view.size <= VIEW_INLINE_BYTES_MAX:
            start[0] = (
                <const uint8_t*>column.places + at * <int64_t>sizeof(ArrowView) + sizeof(int)
            )
            return CELL_FULL
        if view.buffer_index < 0 or view.buffer_index >= column.buffer_count or view.offset < 0:
            return CELL_FAULTY
        if <int64_t>view.offset + view.size > column.buffer_bytes[view.buffer_index]:
            return CELL_FAULTY
        if column.buffers[view.buffer_index] == NULL:
            return CELL_FAULTY
        start[0] = <const uint8_t*>column.buffers[view.buffer_index] + view.offset
        return CELL_FULL
    else:
        return CELL_NULL
    if first < 0 or end < first or end > column.content_bytes:
        return CELL_FAULTY
    start[0] = column.content + first
    size[0] = end - first
    return CELL_FULL


# Find the items of a row's list; none for a null.
cdef inline int read_items(
    const HeadersColumn* column, int64_t row, int64_t* first, int64_t* end
) noexcept nogil:
    cdef int64_t at = column.offset + row
    first[0] = end[0] = 0
    if column.validity != NULL and not is_set(column.validity, at):
        return CELL_NULL
    if column.is_large:
        first[0] = (<const int64_t*>column.offsets)[at]
        end[0] = (<const int64_t*>column.offsets)[at + 1]
    else:
        first[0] = (<const int32_t*>column.offsets)[at]
        end[0] = (<const int32_t*>column.offsets)[at + 1]
    if first[0] < 0 or end[0] < first[0] or end[0] > column.item_count:
        return CELL_FAULTY
    return CELL_FULL


# Return the bytes of consecutive rows, from their offsets; 0 if these have become invalid.
cdef inline int64_t bytes_between(
    const BytesColumn* column, int64_t first, int64_t end
) noexcept nogil:
    cdef int64_t begin
    cdef int64_t size
    if column.layout == OFFSETS_32:
        begin = (<const int32_t*>column.places)[column.offset + first]
        size = (<const int32_t*>column.places)[column.offset + end] - begin
    else:
        begin = (<const int64_t*>column.places)[column.offset + first]
        size = (<const int64_t*>column.places)[column.offset + end]
        size = size - begin if begin >= 0 else 0
    return size if 0 <= size <= column.content_bytes else 0
