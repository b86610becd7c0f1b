# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Rows of a table as JSON objects, one after the other in one buffer.

The form is that of Spark's `to_json`: a field that is null is left out, also in nested objects; a
null in a list or map is written. The GIL is released for all rows of an array, and only taken to
look up a time zone's offset.

Limit: a column's rows are read as the array states them; no Python code runs meanwhile that could
change them.

Thread-safety: pure functions of their arrays.
Source: RFC 8259; Spark 4.1, JacksonGenerator.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.math cimport isfinite, isnan, signbit
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free

from kprod._core.arrow.arrow_abi cimport is_set
from kprod._core.arrow.arrow_columns cimport (
    CELL_FAULTY,
    CELL_FULL,
    CELL_NULL,
    Window,
    check_array,
    read_bytes,
    read_number,
)
from kprod._core.arrow.arrow_source cimport ArrowSource
from kprod._core.json.json_buffer cimport (
    JsonBuffer,
    put_base64,
    put_byte,
    put_bytes,
    put_string,
    reserve,
)
from kprod._core.json.json_columns cimport (
    JSON_BASE64,
    JSON_BOOLEAN,
    JSON_DATE,
    JSON_DECIMAL,
    JSON_DOUBLE,
    JSON_FLOAT,
    JSON_INTEGER,
    JSON_LIST,
    JSON_MAP,
    JSON_NULL,
    JSON_STRING,
    JSON_STRUCT,
    JsonColumn,
    JsonPlan,
    item_offset,
    plan_rows,
)
from kprod._core.json.json_numbers cimport put_decimal, put_floating, put_integer
from kprod._core.json.json_times cimport put_date, put_instant
from kprod._core.json.shortest_digits cimport Decimal, shortest_of_double, shortest_of_float


cdef class JsonText:
    """Bytes that were written, as a read-only buffer."""

    def __dealloc__(self):
        free(self._buffer.start)

    def __len__(self):
        return self._buffer.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        # An empty buffer has no memory, and not every reader accepts NULL.
        cdef void* start = self._buffer.start if self._buffer.start != NULL else <void*>b""
        PyBuffer_FillInfo(view, self, start, self._buffer.size, 1, flags)


def json_objects(table, find_zone):
    """Write each row as an object.

    Args:
        table: A record batch, or another object with `__arrow_c_array__`; its columns become the
            fields, in their order.
        find_zone: Called with a time zone's name; returns its seconds from UTC, or a `tzinfo`.

    Returns:
        Offsets of the rows as signed 64-bit numbers, one more than there are rows; and all texts.

    Raises:
        TypeError: A column's type has no form in JSON.
        ValueError: The table is broken.
        MemoryError: There is no memory for the text.
    """
    cdef ArrowSource source = ArrowSource(table)
    cdef JsonPlan plan = plan_rows(source.schema, find_zone)
    cdef JsonText text = JsonText.__new__(JsonText)
    cdef JsonText offsets = JsonText.__new__(JsonText)
    cdef JsonBuffer* places = &offsets._buffer
    cdef Window window
    if not source.advance():
        raise ValueError("JSON objects are made of one array, and there is none")
    window.base = window.start = 0
    window.end = source.array.length
    check_array(source.array, &window, 1, "the table")
    plan.bind(source.array, &window)
    reserve(places, (window.end + 1) * <int64_t>sizeof(int64_t))
    places.size = (window.end + 1) * <int64_t>sizeof(int64_t)
    with nogil:
        _put_rows(&plan.column, window.end, &text._buffer, <int64_t*>places.start)
    return offsets, text


cdef int _put_rows(
    JsonColumn* table, int64_t count, JsonBuffer* text, int64_t* offsets
) except -1 nogil:
    cdef int64_t row
    offsets[0] = 0
    for row in range(count):
        _put_object(table, row, text)
        offsets[row + 1] = text.size
    return 0


cdef int _put_object(JsonColumn* column, int64_t row, JsonBuffer* text) except -1 nogil:
    """Write an object of a struct's fields that are not null."""
    cdef int64_t index
    cdef int64_t mark
    cdef int64_t begin = text.size
    cdef JsonColumn* field
    for index in range(column.child_count):
        field = column.children[index]
        mark = text.size
        reserve(text, field.label_bytes)
        put_bytes(text, field.label, field.label_bytes)
        if _put_value(field, row, text) == CELL_NULL:
            text.size = mark
    return _enclose(text, begin, c"{", c"}")


cdef inline int _enclose(
    JsonBuffer* text, int64_t begin, uint8_t opening, uint8_t closing
) except -1 nogil:
    """Make the first comma the opening bracket; without a comma, write both brackets."""
    reserve(text, 2)
    if text.size == begin:
        put_byte(text, opening)
    else:
        text.start[begin] = opening
    put_byte(text, closing)
    return 0


cdef int _put_value(JsonColumn* column, int64_t row, JsonBuffer* text) except -1 nogil:
    """Write a value and return CELL_FULL; write nothing of a null, and return CELL_NULL."""
    cdef int64_t at = column.offset + row
    cdef int64_t number = 0
    cdef int64_t size = 0
    cdef const uint8_t* start
    cdef int cell
    if column.kind == JSON_STRING or column.kind == JSON_BASE64:
        cell = read_bytes(&column.bytes, row, &start, &size)
        if cell == CELL_FAULTY:
            return _raise_faulty()
        if cell == CELL_FULL and column.kind == JSON_STRING:
            put_string(text, start, size)
        elif cell == CELL_FULL:
            put_base64(text, start, size)
        return cell
    if column.kind == JSON_NULL:
        return CELL_NULL
    if column.validity != NULL and not is_set(column.validity, at):
        return CELL_NULL
    if column.kind == JSON_STRUCT:
        _put_object(column, row, text)
    elif column.kind == JSON_LIST:
        _put_list(column, row, text)
    elif column.kind == JSON_MAP:
        _put_map(column, row, text)
    elif column.kind == JSON_DOUBLE:
        _put_double(text, (<const double*>column.values)[at])
    elif column.kind == JSON_FLOAT:
        _put_float(text, (<const float*>column.values)[at])
    elif column.kind == JSON_DECIMAL:
        put_decimal(text, <const uint64_t*>column.values + 2 * at, column.scale)
    elif column.kind == JSON_BOOLEAN:
        _put_boolean(text, is_set(<const uint8_t*>column.values, at))
    else:
        read_number(&column.number, row, &number)
        if column.kind == JSON_INTEGER:
            put_integer(text, number)
        elif column.kind == JSON_DATE:
            put_date(text, number)
        else:
            put_instant(text, _milliseconds(column, number), column.zone)
    return CELL_FULL


cdef int _raise_faulty() except -1 nogil:
    with gil:
        raise ValueError("a broken Arrow array: a string has changed while it was read")


cdef int _put_boolean(JsonBuffer* text, bint is_true) except -1 nogil:
    reserve(text, 5)
    if is_true:
        put_bytes(text, b"true", 4)
    else:
        put_bytes(text, b"false", 5)
    return 0


cdef int _put_double(JsonBuffer* text, double number) except -1 nogil:
    cdef Decimal digits
    digits.digits = digits.exponent = 0
    if isfinite(number):
        digits = shortest_of_double(number)
    return put_floating(text, digits, signbit(number) != 0, isfinite(number), isnan(number))


cdef int _put_float(JsonBuffer* text, float number) except -1 nogil:
    cdef Decimal digits
    digits.digits = digits.exponent = 0
    if isfinite(number):
        digits = shortest_of_float(number)
    return put_floating(text, digits, signbit(number) != 0, isfinite(number), isnan(number))


cdef int64_t _milliseconds(const JsonColumn* column, int64_t number) noexcept nogil:
    """Convert a timestamp; seconds too far for milliseconds are cut off at the last one."""
    cdef int64_t farthest = <int64_t>0x7FFFFFFFFFFFFFFF // column.multiplier
    cdef int64_t quotient
    if column.divisor == 1:
        return min(max(number, -farthest), farthest) * column.multiplier
    quotient = number // column.divisor
    return quotient - (number % column.divisor < 0)


cdef int _put_or_null(JsonColumn* column, int64_t row, JsonBuffer* text) except -1 nogil:
    if _put_value(column, row, text) == CELL_NULL:
        reserve(text, 4)
        put_bytes(text, b"null", 4)
    return 0


cdef int _put_list(JsonColumn* column, int64_t row, JsonBuffer* text) except -1 nogil:
    cdef int64_t item
    cdef int64_t begin = text.size
    cdef int64_t first
    cdef int64_t end
    _find_items(column, row, &first, &end)
    for item in range(first, end):
        reserve(text, 5)
        put_byte(text, c",")
        _put_or_null(column.children[0], item, text)
    return _enclose(text, begin, c"[", c"]")


cdef int _put_map(JsonColumn* column, int64_t row, JsonBuffer* text) except -1 nogil:
    cdef int64_t item
    cdef int64_t begin = text.size
    cdef int64_t first
    cdef int64_t end
    _find_items(column, row, &first, &end)
    for item in range(first, end):
        reserve(text, 1)
        put_byte(text, c",")
        if _put_value(column.children[0], item, text) == CELL_NULL:
            reserve(text, 2)
            put_bytes(text, b'""', 2)  # Arrow has no null keys; never half an object
        reserve(text, 5)
        put_byte(text, c":")
        _put_or_null(column.children[1], item, text)
    return _enclose(text, begin, c"{", c"}")


cdef int _find_items(
    JsonColumn* column, int64_t row, int64_t* first, int64_t* end
) except -1 nogil:
    """Find a row's items; offsets are checked again, since other code may own the memory."""
    first[0] = item_offset(column, row)
    end[0] = item_offset(column, row + 1)
    if first[0] < 0 or end[0] < first[0] or end[0] > column.item_count:
        return _raise_faulty()
    return 0
