from libc.stdint cimport int32_t, int64_t, uint8_t

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema
from kprod._core.arrow.arrow_columns cimport BytesColumn, ColumnPlan, NumberColumn, Window
from kprod._core.json.json_times cimport ZoneOffsets


cdef enum JsonKind:
    JSON_NULL = 0
    JSON_BOOLEAN = 1
    JSON_INTEGER = 2
    JSON_FLOAT = 3
    JSON_DOUBLE = 4
    JSON_DECIMAL = 5
    JSON_DATE = 6
    JSON_INSTANT = 7
    JSON_STRING = 8
    JSON_BASE64 = 9
    JSON_LIST = 10
    JSON_MAP = 11
    JSON_STRUCT = 12


# A column to read rows of, bound to an array. Of `children` a list has one, a map two (keys and
# values), a struct one for each field.
cdef struct JsonColumn:
    JsonKind kind
    # `,"name":` in front of each value, where the column is a struct's field.
    const uint8_t* label
    int64_t label_bytes
    const uint8_t* validity
    const void* values
    int64_t offset
    BytesColumn bytes
    NumberColumn number
    # A decimal's scale.
    int scale
    # To milliseconds, and the zone of an instant; NULL for none.
    int64_t multiplier
    int64_t divisor
    ZoneOffsets* zone
    # The child columns of a list or map.
    bint is_large
    int64_t item_count
    JsonColumn** children
    int64_t child_count


cdef class JsonPlan:
    cdef readonly str name
    cdef Py_ssize_t _position
    cdef JsonColumn column
    cdef ZoneOffsets* _zone_offsets
    cdef object _zone
    cdef bytes _label
    cdef list _children
    cdef ColumnPlan _bytes_plan
    cdef int bind(self, ArrowArray* array, Window* window) except -1
    cdef int _bind_items(self, ArrowArray* array, Window* window) except -1
    cdef int _bind_children(self, ArrowArray* array, Window* window) except -1


cdef JsonPlan plan_rows(ArrowSchema* schema, find_zone)


cdef inline int64_t item_offset(const JsonColumn* column, int64_t row) noexcept nogil:
    if column.is_large:
        return (<const int64_t*>column.values)[column.offset + row]
    return (<const int32_t*>column.values)[column.offset + row]
