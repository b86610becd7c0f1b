# The columns of a table of records, and the walks over a batch that fill them.

from libc.stdint cimport int32_t, int64_t, uint8_t

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema
from kprod._core.arrow.arrow_buffers cimport BytesBuilder, GrowingBuffer, NumberBuilder
from kprod._core.record.record_iterator cimport BatchFields

cdef enum:
    # Beside the faults of records: a header key is not UTF-8; bytes changed between the walks.
    FAULT_HEADER_TEXT = 100
    FAULT_CHANGED = 101


cdef struct RecordColumns:
    NumberBuilder topic
    NumberBuilder partition
    NumberBuilder offset
    NumberBuilder timestamp
    BytesBuilder key
    BytesBuilder value
    GrowingBuffer header_ends
    BytesBuilder header_key
    BytesBuilder header_value
    NumberBuilder leader_epoch
    NumberBuilder timestamp_type
    bint has_leader_epoch
    bint has_timestamp_type
    int64_t row_count
    # Bytes of keys, values and headers.
    int64_t content_bytes


# How much some rows need.
cdef struct RowSizes:
    int64_t row_count
    int64_t key_bytes
    int64_t value_bytes
    int64_t header_count
    int64_t header_key_bytes
    int64_t header_value_bytes


# A walk over a batch: the next record, the sizes so far, and the fault that ended it.
cdef struct Walk:
    const uint8_t* at
    const uint8_t* limit
    int32_t index
    int64_t next_offset
    RowSizes sizes
    int fault


# The values that all rows of one batch share.
cdef struct BatchRows:
    int32_t topic
    int32_t partition
    int32_t leader_epoch


cdef inline int64_t content_bytes_of(const RowSizes* sizes) noexcept nogil:
    return (
        sizes.key_bytes + sizes.value_bytes + sizes.header_key_bytes + sizes.header_value_bytes)


# Check records and add up their sizes, up to a limit or to the first fault. `needs_row` takes the
# first row whatever its size.
cdef void measure(
    Walk* walk, const BatchFields* batch, int64_t rows_max, int64_t bytes_max, bint needs_row
) noexcept nogil
# Make room for rows; False without memory.
cdef bint reserve_rows(RecordColumns* columns, const RowSizes* sizes) noexcept nogil
# Copy the records that `measured` walked over, from the same place on.
cdef void copy(
    RecordColumns* columns, Walk* walk, const BatchFields* batch, const Walk* measured
) noexcept nogil
# Append the numbers of one row, and what the rows of one batch have in common.
cdef void put_numbers(
    RecordColumns* columns, int64_t offset, int64_t timestamp_ms, int time_type) noexcept nogil
cdef void put_common(
    RecordColumns* columns, int64_t row_count, const BatchRows* rows) noexcept nogil
cdef void release_columns(RecordColumns* columns) noexcept nogil

# The structures of a table; NULL without memory. The array takes the columns.
cdef ArrowSchema* schema_of(const RecordColumns* columns) noexcept nogil
cdef ArrowArray* array_of(RecordColumns* columns, BytesBuilder* topics) noexcept nogil
