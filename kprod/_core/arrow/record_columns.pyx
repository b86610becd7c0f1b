# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The columns of a table of records: measured, reserved, copied and exported without the GIL.

The bytes of a batch are untrusted and may change between the walks. So `copy` adds up the same
sizes as `measure` did, and stops where they would pass the reserved memory.

Thread-safety: pure functions of their structures.
Source: Arrow columnar format (Arrow 20 documents).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema
from kprod._core.arrow.arrow_buffers cimport (
    BytesBuilder,
    NumberBuilder,
    drop_array,
    drop_schema,
    give_buffer,
    give_bytes,
    give_numbers,
    make_array,
    make_schema,
    put_bit,
    put_bytes,
    put_int32,
    put_int64,
    release_buffer,
    release_bytes,
    release_numbers,
    reserve,
    reserve_bytes,
    reserve_numbers,
)
from kprod._core.arrow.arrow_rows cimport is_utf8
from kprod._core.layout cimport TIMESTAMP_TYPE_MASK
from kprod._core.record.consumer_record cimport NO_LEADER_EPOCH, NO_TIMESTAMP_TYPE
from kprod._core.record.record_fields cimport (
    FAULT_NONE,
    FAULT_OFFSET_DELTA,
    HeaderFields,
    RecordFields,
    read_header,
    read_record,
)

cdef enum:
    NO_TIMESTAMP_MS = -1
    # Columns that every table has; those on request follow.
    COLUMN_COUNT = 7
    HEADERS_PLACE = 6


cdef void measure(
    Walk* walk, const BatchFields* batch, int64_t rows_max, int64_t bytes_max, bint needs_row
) noexcept nogil:
    cdef RecordFields fields
    cdef RowSizes before
    cdef const uint8_t* at
    while walk.index < batch.record_count and walk.sizes.row_count < rows_max:
        at = walk.at
        walk.fault = read_record(&at, walk.limit, &fields)
        if walk.fault == FAULT_NONE and not 0 <= fields.offset_delta <= batch.last_offset_delta:
            walk.fault = FAULT_OFFSET_DELTA
        if walk.fault != FAULT_NONE:
            return
        if batch.base_offset + fields.offset_delta >= walk.next_offset:
            before = walk.sizes
            walk.fault = _add(&walk.sizes, &fields, True)
            if walk.fault != FAULT_NONE or not (needs_row and before.row_count == 0) and (
                    content_bytes_of(&walk.sizes) > bytes_max):
                walk.sizes = before
                return
            walk.next_offset = batch.base_offset + fields.offset_delta + 1
        walk.at = at
        walk.index += 1


cdef inline int _add(RowSizes* sizes, const RecordFields* fields, bint check_text) noexcept nogil:
    """Add the sizes of one row."""
    cdef HeaderFields header
    cdef const uint8_t* at = fields.headers
    cdef int32_t _index
    sizes.row_count += 1
    sizes.key_bytes += max(fields.key_length, 0)
    sizes.value_bytes += max(fields.value_length, 0)
    for _index in range(fields.header_count):
        if read_header(&at, fields.end, &header) != FAULT_NONE:
            return FAULT_CHANGED
        if check_text and not is_utf8(header.key, header.key_length):
            return FAULT_HEADER_TEXT
        sizes.header_count += 1
        sizes.header_key_bytes += header.key_length
        sizes.header_value_bytes += max(header.value_length, 0)
    return FAULT_NONE


cdef inline bint _fits(const RowSizes* sizes, const RowSizes* reserved) noexcept nogil:
    return (
        sizes.row_count <= reserved.row_count
        and sizes.key_bytes <= reserved.key_bytes
        and sizes.value_bytes <= reserved.value_bytes
        and sizes.header_count <= reserved.header_count
        and sizes.header_key_bytes <= reserved.header_key_bytes
        and sizes.header_value_bytes <= reserved.header_value_bytes)


cdef bint reserve_rows(RecordColumns* columns, const RowSizes* sizes) noexcept nogil:
    cdef int64_t rows = sizes.row_count
    if not (
        reserve_numbers(&columns.topic, rows, sizeof(int32_t))
        and reserve_numbers(&columns.partition, rows, sizeof(int32_t))
        and reserve_numbers(&columns.offset, rows, sizeof(int64_t))
        and reserve_numbers(&columns.timestamp, rows, sizeof(int64_t))
        and reserve_bytes(&columns.key, rows, sizes.key_bytes)
        and reserve_bytes(&columns.value, rows, sizes.value_bytes)
        and reserve(&columns.header_ends, (rows + 1) * <int64_t>sizeof(int32_t))
        and reserve_bytes(&columns.header_key, sizes.header_count, sizes.header_key_bytes)
        and reserve_bytes(&columns.header_value, sizes.header_count, sizes.header_value_bytes)
        and (not columns.has_leader_epoch
             or reserve_numbers(&columns.leader_epoch, rows, sizeof(int32_t)))
        and (not columns.has_timestamp_type or reserve_numbers(&columns.timestamp_type, rows, 1))
    ):
        return False
    if columns.header_ends.used == 0:
        put_int32(&columns.header_ends, 0)
    return True


cdef void copy(
    RecordColumns* columns, Walk* walk, const BatchFields* batch, const Walk* measured
) noexcept nogil:
    cdef RecordFields fields
    cdef const uint8_t* at
    cdef int64_t offset
    cdef int64_t timestamp_ms = batch.max_timestamp_ms
    cdef int time_type = 1 if batch.attributes & TIMESTAMP_TYPE_MASK else 0
    while walk.index < measured.index:
        at = walk.at
        if read_record(&at, walk.limit, &fields) != FAULT_NONE:
            walk.fault = FAULT_CHANGED
            return
        offset = batch.base_offset + fields.offset_delta
        if offset >= walk.next_offset:
            if _add(&walk.sizes, &fields, False) != FAULT_NONE or not _fits(
                    &walk.sizes, &measured.sizes):
                walk.sizes.row_count -= 1
                walk.fault = FAULT_CHANGED
                return
            if not time_type:
                timestamp_ms = <int64_t>(
                    <uint64_t>batch.base_timestamp_ms + <uint64_t>fields.timestamp_delta)
            put_bytes(&columns.key, fields.key, fields.key_length)
            put_bytes(&columns.value, fields.value, fields.value_length)
            _copy_headers(columns, &fields)
            put_numbers(columns, offset, timestamp_ms, time_type)
            walk.next_offset = offset + 1
        walk.at = at
        walk.index += 1


cdef inline void _copy_headers(RecordColumns* columns, const RecordFields* fields) noexcept nogil:
    cdef HeaderFields header
    cdef const uint8_t* at = fields.headers
    cdef int32_t _index
    for _index in range(fields.header_count):
        # Bytes may have changed; then nothing is written, and both columns stay equally long.
        if read_header(&at, fields.end, &header) != FAULT_NONE:
            break
        if not put_bytes(&columns.header_key, header.key, header.key_length):
            break
        if not put_bytes(&columns.header_value, header.value, header.value_length):
            put_bytes(&columns.header_value, NULL, -1)
    put_int32(&columns.header_ends, <int32_t>columns.header_key.length)


cdef void put_numbers(
    RecordColumns* columns, int64_t offset, int64_t timestamp_ms, int time_type
) noexcept nogil:
    cdef NumberBuilder* types = &columns.timestamp_type
    put_int64(&columns.offset.values, offset)
    put_int64(&columns.timestamp.values, timestamp_ms)
    _put_validity(&columns.timestamp, timestamp_ms != NO_TIMESTAMP_MS)
    if columns.has_timestamp_type:
        types.values.at[types.values.used] = <uint8_t>time_type
        types.values.used += 1
        _put_validity(types, time_type != NO_TIMESTAMP_TYPE)


cdef inline void _put_validity(NumberBuilder* column, bint is_valid) noexcept nogil:
    put_bit(&column.validity, column.length, is_valid)
    column.null_count += not is_valid
    column.length += 1


cdef void put_common(
    RecordColumns* columns, int64_t row_count, const BatchRows* rows
) noexcept nogil:
    cdef int64_t _row
    for _row in range(row_count):
        put_int32(&columns.topic.values, rows.topic)
    for _row in range(row_count):
        put_int32(&columns.partition.values, rows.partition)
    if columns.has_leader_epoch:
        for _row in range(row_count):
            put_int32(&columns.leader_epoch.values, rows.leader_epoch)
            _put_validity(&columns.leader_epoch, rows.leader_epoch != NO_LEADER_EPOCH)
    columns.row_count += row_count
    columns.topic.length = columns.partition.length = columns.offset.length = columns.row_count
    columns.content_bytes = (
        columns.key.content.used + columns.value.content.used
        + columns.header_key.content.used + columns.header_value.content.used)


cdef void release_columns(RecordColumns* columns) noexcept nogil:
    release_numbers(&columns.topic)
    release_numbers(&columns.partition)
    release_numbers(&columns.offset)
    release_numbers(&columns.timestamp)
    release_bytes(&columns.key)
    release_bytes(&columns.value)
    release_buffer(&columns.header_ends)
    release_bytes(&columns.header_key)
    release_bytes(&columns.header_value)
    release_numbers(&columns.leader_epoch)
    release_numbers(&columns.timestamp_type)
    columns.row_count = columns.content_bytes = 0


cdef int _column_count(const RecordColumns* columns) noexcept nogil:
    return COLUMN_COUNT + columns.has_leader_epoch + columns.has_timestamp_type


cdef ArrowSchema* schema_of(const RecordColumns* columns) noexcept nogil:
    cdef int count = _column_count(columns)
    cdef ArrowSchema* schema = make_schema(b"+s", b"", False, count)
    cdef ArrowSchema* headers
    cdef bint is_whole
    if schema == NULL:
        return NULL
    schema.children[0] = make_schema(b"i", b"topic", False, 0)
    schema.children[1] = make_schema(b"i", b"partition", False, 0)
    schema.children[2] = make_schema(b"l", b"offset", False, 0)
    schema.children[3] = make_schema(b"tsm:UTC", b"timestamp", True, 0)
    schema.children[4] = make_schema(b"z", b"key", True, 0)
    schema.children[5] = make_schema(b"z", b"value", True, 0)
    headers = schema.children[HEADERS_PLACE] = make_schema(b"+l", b"headers", False, 1)
    if columns.has_leader_epoch:
        schema.children[COLUMN_COUNT] = make_schema(b"i", b"leader_epoch", True, 0)
    if columns.has_timestamp_type:
        schema.children[count - 1] = make_schema(b"c", b"timestamp_type", True, 0)
    if schema.children[0] != NULL:
        schema.children[0].dictionary = make_schema(b"u", b"", False, 0)
    if headers != NULL:
        headers.children[0] = make_schema(b"+s", b"item", False, 2)
        if headers.children[0] != NULL:
            headers.children[0].children[0] = make_schema(b"u", b"key", False, 0)
            headers.children[0].children[1] = make_schema(b"z", b"value", True, 0)
    is_whole = _is_whole(schema) and schema.children[0].dictionary != NULL
    if not is_whole:
        drop_schema(schema)
        return NULL
    return schema


cdef bint _is_whole(const ArrowSchema* schema) noexcept nogil:
    """Return whether memory sufficed for all fields below."""
    cdef int64_t place
    for place in range(schema.n_children):
        if schema.children[place] == NULL or not _is_whole(schema.children[place]):
            return False
    return True


cdef ArrowArray* array_of(RecordColumns* columns, BytesBuilder* topics) noexcept nogil:
    cdef ArrowArray* array = _empty_array(_column_count(columns))
    cdef ArrowArray* headers
    if array == NULL:
        return NULL
    headers = array.children[HEADERS_PLACE]
    array.length = headers.length = columns.row_count
    headers.children[0].length = columns.header_key.length
    give_bytes(array.children[0].dictionary, topics)
    give_numbers(array.children[0], &columns.topic)
    give_numbers(array.children[1], &columns.partition)
    give_numbers(array.children[2], &columns.offset)
    give_numbers(array.children[3], &columns.timestamp)
    give_bytes(array.children[4], &columns.key)
    give_bytes(array.children[5], &columns.value)
    give_buffer(headers, 1, &columns.header_ends)
    give_bytes(headers.children[0].children[0], &columns.header_key)
    give_bytes(headers.children[0].children[1], &columns.header_value)
    if columns.has_leader_epoch:
        give_numbers(array.children[COLUMN_COUNT], &columns.leader_epoch)
    if columns.has_timestamp_type:
        give_numbers(array.children[array.n_children - 1], &columns.timestamp_type)
    columns.row_count = columns.content_bytes = 0
    return array


cdef ArrowArray* _empty_array(int column_count) noexcept nogil:
    """Allocate all structures of a table before any column is given away."""
    cdef ArrowArray* array = make_array(column_count)
    cdef ArrowArray* headers
    cdef ArrowArray* item
    cdef int place
    if array == NULL:
        return NULL
    for place in range(column_count):
        array.children[place] = make_array(1 if place == HEADERS_PLACE else 0)
        if array.children[place] == NULL:
            drop_array(array)
            return NULL
    array.children[0].dictionary = make_array(0)
    headers = array.children[HEADERS_PLACE]
    item = headers.children[0] = make_array(2)
    if item != NULL:
        item.children[0] = make_array(0)
        item.children[1] = make_array(0)
    if item == NULL or item.children[0] == NULL or item.children[1] == NULL or (
            array.children[0].dictionary == NULL):
        drop_array(array)
        return NULL
    return array
