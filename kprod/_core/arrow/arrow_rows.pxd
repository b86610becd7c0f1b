from libc.stdint cimport int64_t, uint8_t

from kprod._core.arrow.arrow_columns cimport BytesColumn, ColumnPlan, HeadersColumn, NumberColumn
from kprod._core.arrow.arrow_source cimport ArrowSource
from kprod._core.record.batch_builder cimport RecordFields


cdef enum:
    # Reasons why a row is not a record.
    ROW_CHANGED = -1
    ROW_IS_NULL = -2
    PARTITION_UNKNOWN = -3
    TIME_UNSOUND = -4
    HEADERS_UNSOUND = -5
    ROW_TOO_LARGE = -6


# The columns of one array.
cdef struct Columns:
    BytesColumn value
    BytesColumn key
    HeadersColumn headers
    NumberColumn partition
    NumberColumn timestamp
    const uint8_t* validity
    int64_t offset
    bint has_key
    bint has_headers
    bint has_partition
    bint has_timestamp


# The fields that decide where a row goes, and the bytes of its key, value and headers.
cdef struct RowLook:
    const uint8_t* key
    int64_t key_bytes
    int64_t size_bytes
    bint has_partition
    int64_t partition


cdef class ArrowRows:
    cdef ArrowSource source
    cdef Columns columns
    # The most that a row's key, value and headers may take together.
    cdef int64_t row_bytes_max
    cdef ColumnPlan _value
    cdef ColumnPlan _key
    cdef ColumnPlan _headers
    cdef ColumnPlan _partition
    cdef ColumnPlan _timestamp
    cdef int64_t _multiplier
    cdef int64_t _divisor
    # Scratch memory for one row's header section, and the size of the longest section so far.
    cdef uint8_t* _section
    cdef int64_t _section_room_bytes
    cdef int64_t _headers_bytes_max
    cdef int _take_plan(self, str role, ColumnPlan plan) except -1
    cdef int64_t bind(self) except -1
    cdef int64_t look(self, int64_t row, RowLook* look) noexcept nogil
    cdef int time_of(self, int64_t row, int64_t* time_ms) noexcept nogil
    cdef int64_t headers_bytes(self, int64_t row) noexcept nogil
    cdef int make_room(self) except -1
    cdef bint read(self, int64_t row, RecordFields* record) noexcept nogil
    cdef bint _write_headers(self, int64_t row, RecordFields* record) noexcept nogil
    cdef object fault_of(self, int64_t row, int64_t fault)
    cdef int64_t size_of(self, int64_t row) noexcept
    cdef tuple row_at(self, int64_t row)


cdef object bytes_at(const BytesColumn* column, int64_t row)
cdef bint is_utf8(const uint8_t* at, int64_t size) noexcept nogil
