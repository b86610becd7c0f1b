# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The rows of Arrow arrays as records: fields to append, or the reason why a row is not a record.

`ArrowRows` binds one array of a table after the other, each checked as a whole (`arrow_columns`).
It can then read any row of the array any number of times, with the GIL released.

Thread-safety: an `ArrowRows` belongs to one thread.
Source: Arrow columnar format (Arrow 20 documents).
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kprod._core.arrow.arrow_abi cimport ArrowSchema, is_set
from kprod._core.arrow.arrow_columns cimport (
    CELL_FAULTY,
    CELL_FULL,
    CELL_NULL,
    NULLS,
    BytesColumn,
    ColumnPlan,
    Window,
    check_array,
    check_schema,
    find_child,
    plan_bytes,
    plan_headers,
    plan_number,
    read_bytes,
    read_items,
    read_number,
    validity_of,
)
from kprod._core.arrow.arrow_source cimport ArrowSource
from kprod._core.record.batch_builder cimport RecordFields
from kprod._core.varint cimport put_varint, varint_size

cdef enum:
    HEADERS_BYTES_MAX = 0x7FFFFFFF
    # A varint of 32 bits.
    LENGTH_BYTES_MAX = 5

cdef int64_t INT64_MAX = <int64_t>0x7FFFFFFFFFFFFFFF


cdef class ArrowRows:
    """The rows of a table.

    Args:
        source: The table.
        names: Column names by role: value, key, headers, partition, timestamp; None for no column.

    Raises:
        ValueError: The table has no such column.
        TypeError: A column's type cannot be sent.
    """

    def __dealloc__(self):
        PyMem_Free(self._section)

    def __init__(self, ArrowSource source not None, names):
        cdef ArrowSchema* schema = source.schema
        cdef ColumnPlan plan
        if schema.format == NULL or <bytes>schema.format != b"+s" or schema.dictionary != NULL:
            raise TypeError(
                "send_arrow takes a table or a record batch, whose columns have names; put a single"
                " array into one, as in pyarrow.table({'value': array})"
            )
        check_schema(schema)
        self.source = source
        for role, name in names.items():
            if name is None:
                continue
            position = find_child(schema, name, role)
            if role == "headers":
                plan = plan_headers(schema, position)
            elif role in {"partition", "timestamp"}:
                plan = plan_number(schema, position, role)
            else:
                plan = plan_bytes(schema, position, role)
            self._take_plan(role, plan)

    cdef int _take_plan(self, str role, ColumnPlan plan) except -1:
        if role == "value":
            self._value = plan
        elif role == "key":
            self._key = plan
        elif role == "headers":
            self._headers = plan
        elif role == "partition":
            self._partition = plan
        else:
            self._timestamp = plan
        return 0

    cdef int64_t bind(self) except -1:
        """Check the current array and locate its columns; return the number of rows."""
        cdef Columns* columns = &self.columns
        cdef Window window
        window.base = window.start = 0
        window.end = self.source.array.length
        check_array(self.source.array, &window, 1, "the table")
        columns.validity = validity_of(self.source.array, "the table")
        columns.offset = window.base = self.source.array.offset
        columns.has_key = self._key is not None
        columns.has_headers = self._headers is not None
        columns.has_partition = self._partition is not None
        columns.has_timestamp = self._timestamp is not None
        if self._value is not None:
            self._value.bind_bytes(self.source.array, &window, &columns.value)
        else:
            # As a column of nulls: each row is a tombstone.
            columns.value.layout = NULLS
        if columns.has_key:
            self._key.bind_bytes(self.source.array, &window, &columns.key)
        if columns.has_headers:
            self._headers.bind_headers(self.source.array, &window, &columns.headers)
        if columns.has_partition:
            self._partition.bind_number(self.source.array, &window, &columns.partition)
        if columns.has_timestamp:
            self._timestamp.bind_number(self.source.array, &window, &columns.timestamp)
            self._multiplier = self._timestamp.multiplier
            self._divisor = self._timestamp.divisor
        return window.end

    @cython.nonecheck(False)
    cdef int64_t look(self, int64_t row, RowLook* look) noexcept nogil:
        """Find where a row goes and its size; return 0, or the negative reason to reject it."""
        cdef Columns* columns = &self.columns
        cdef const uint8_t* value = NULL
        cdef int64_t value_bytes = -1
        cdef int64_t headers_bytes = 1
        cdef int64_t time_ms
        look.key_bytes = -1
        look.has_partition = False
        if columns.validity != NULL and not is_set(columns.validity, columns.offset + row):
            return ROW_IS_NULL
        if read_bytes(&columns.value, row, &value, &value_bytes) == CELL_FAULTY:
            return ROW_CHANGED
        if columns.has_key:
            if read_bytes(&columns.key, row, &look.key, &look.key_bytes) == CELL_FAULTY:
                return ROW_CHANGED
        if columns.has_headers:
            headers_bytes = self.headers_bytes(row)
            if headers_bytes < 0:
                return headers_bytes
        if columns.has_timestamp and self.time_of(row, &time_ms) == CELL_FAULTY:
            return TIME_UNSOUND
        if max(look.key_bytes, value_bytes, headers_bytes) > self.row_bytes_max:
            return ROW_TOO_LARGE
        look.size_bytes = max(look.key_bytes, 0) + max(value_bytes, 0) + headers_bytes
        if look.size_bytes > self.row_bytes_max:
            return ROW_TOO_LARGE
        self._headers_bytes_max = max(self._headers_bytes_max, headers_bytes)
        if columns.has_partition:
            look.has_partition = (
                read_number(&columns.partition, row, &look.partition) == CELL_FULL
            )
        return 0

    @cython.nonecheck(False)
    cdef int time_of(self, int64_t row, int64_t* time_ms) noexcept nogil:
        """Read a row's timestamp in milliseconds; faulty before 1970 and beyond 63 bits."""
        cdef int cell = read_number(&self.columns.timestamp, row, time_ms)
        if cell != CELL_FULL:
            return cell
        if time_ms[0] < 0 or time_ms[0] > INT64_MAX // self._multiplier:
            return CELL_FAULTY
        # `read_number` returns INT64_MAX for unsigned values above it.
        if time_ms[0] == INT64_MAX and self.columns.timestamp.kind == c"L":
            return CELL_FAULTY
        time_ms[0] = time_ms[0] * self._multiplier // self._divisor
        return CELL_FULL

    @cython.nonecheck(False)
    cdef int64_t headers_bytes(self, int64_t row) noexcept nogil:
        """Return the size of a row's header section, or the reason why it has none."""
        cdef Columns* columns = &self.columns
        cdef int64_t item
        cdef int64_t end
        cdef int64_t total_bytes
        cdef int64_t size = 0
        cdef const uint8_t* start = NULL
        cdef int cell = read_items(&columns.headers, row, &item, &end)
        if cell == CELL_FAULTY:
            return ROW_CHANGED
        if end - item > HEADERS_BYTES_MAX:
            return ROW_TOO_LARGE
        total_bytes = varint_size(<int32_t>(end - item))
        for item in range(item, end):
            if columns.headers.item_validity != NULL and not is_set(
                columns.headers.item_validity, columns.headers.item_offset + item
            ):
                return HEADERS_UNSOUND
            cell = read_bytes(&columns.headers.names, item, &start, &size)
            if cell != CELL_FULL:
                return ROW_CHANGED if cell == CELL_FAULTY else HEADERS_UNSOUND
            if not is_utf8(start, size):
                return HEADERS_UNSOUND
            total_bytes += LENGTH_BYTES_MAX + size
            cell = read_bytes(&columns.headers.values, item, &start, &size)
            if cell == CELL_FAULTY:
                return ROW_CHANGED
            total_bytes += LENGTH_BYTES_MAX + (size if cell == CELL_FULL else 0)
            if total_bytes > HEADERS_BYTES_MAX:
                return ROW_TOO_LARGE
        return total_bytes

    cdef int make_room(self) except -1:
        """Allocate scratch memory for the longest header section of the rows looked at so far."""
        cdef uint8_t* section
        cdef int64_t wanted_bytes = self._headers_bytes_max + LENGTH_BYTES_MAX
        if self.columns.has_headers and self._section_room_bytes < wanted_bytes:
            section = <uint8_t*>PyMem_Realloc(self._section, wanted_bytes)
            if section == NULL:
                raise MemoryError("no memory for the headers of a record")
            self._section = section
            self._section_room_bytes = wanted_bytes
        return 0

    @cython.nonecheck(False)
    cdef bint read(self, int64_t row, RecordFields* record) noexcept nogil:
        """Read the fields that a row has; return False if it has changed since `look`.

        The caller has set the defaults for missing columns: timestamp, no key, no headers.
        """
        cdef Columns* columns = &self.columns
        cdef int64_t size = -1
        cdef int cell = read_bytes(&columns.value, row, &record.value, &size)
        record.value_bytes = size if cell == CELL_FULL else -1
        if cell == CELL_FAULTY or record.value_bytes > self.row_bytes_max:
            return False
        if columns.has_key:
            cell = read_bytes(&columns.key, row, &record.key, &size)
            record.key_bytes = size if cell == CELL_FULL else -1
            if cell == CELL_FAULTY or record.key_bytes > self.row_bytes_max:
                return False
        if columns.has_timestamp:
            cell = self.time_of(row, &size)
            if cell == CELL_FAULTY:
                return False
            if cell == CELL_FULL:
                record.timestamp_ms = size
        return not columns.has_headers or self._write_headers(row, record)

    @cython.nonecheck(False)
    cdef bint _write_headers(self, int64_t row, RecordFields* record) noexcept nogil:
        """Encode a row's headers into the call's scratch memory."""
        cdef Columns* columns = &self.columns
        cdef uint8_t* at = self._section
        cdef uint8_t* limit = at + self._section_room_bytes
        cdef const uint8_t* start = NULL
        cdef int64_t size = 0
        cdef int64_t item
        cdef int64_t end
        cdef int part
        cdef int cell = read_items(&columns.headers, row, &item, &end)
        if cell == CELL_FAULTY or limit - at < LENGTH_BYTES_MAX or end - item > HEADERS_BYTES_MAX:
            return False
        at = put_varint(at, <int32_t>(end - item))
        for item in range(item, end):
            for part in range(2):
                cell = read_bytes(
                    &columns.headers.names if part == 0 else &columns.headers.values,
                    item, &start, &size
                )
                if cell == CELL_FAULTY or (part == 0 and cell == CELL_NULL):
                    return False
                if cell == CELL_NULL:
                    size = -1
                if max(size, 0) > limit - at - LENGTH_BYTES_MAX:
                    return False
                at = put_varint(at, <int32_t>size)
                if size > 0:
                    memcpy(at, start, size)
                    at += size
        record.headers = self._section
        record.headers_bytes = at - self._section
        return True

    cdef object fault_of(self, int64_t row, int64_t fault):
        """Return the error that `send` would raise for this row, unless it is too large."""
        cdef int64_t number = 0
        if fault == ROW_IS_NULL:
            return ValueError("the row itself is null, which is not a record; leave such rows out")
        if fault == TIME_UNSOUND:
            read_number(&self.columns.timestamp, row, &number)
            return ValueError(
                f"timestamp {number} of column {self._timestamp.name!r} is before 1970, or past 64"
                " bits in milliseconds"
            )
        if fault == HEADERS_UNSOUND:
            return ValueError(
                f"a header in column {self._headers.name!r} is null, or has a key that is null or"
                " not valid UTF-8"
            )
        return ValueError("the row was changed while it was sent")

    cdef int64_t size_of(self, int64_t row) noexcept:
        """Return the bytes of a row's key, value and headers, also of a row that is too large."""
        cdef const uint8_t* start = NULL
        cdef int64_t size = 0
        cdef int64_t total_bytes = 0
        if read_bytes(&self.columns.value, row, &start, &size) == CELL_FULL:
            total_bytes += size
        if self.columns.has_key:
            if read_bytes(&self.columns.key, row, &start, &size) == CELL_FULL:
                total_bytes += size
        if self.columns.has_headers:
            total_bytes += max(self.headers_bytes(row), <int64_t>0)
        return total_bytes

    cdef tuple row_at(self, int64_t row):
        """Return a row as arguments of `send`: value, key, headers, partition, timestamp_ms."""
        cdef Columns* columns = &self.columns
        cdef int64_t number = 0
        cdef int64_t item
        cdef int64_t end
        cdef RowLook look
        cdef int64_t fault = self.look(row, &look)
        key = headers = partition = timestamp_ms = None
        if fault < 0 and fault != ROW_TOO_LARGE:
            raise self.fault_of(row, fault)
        if columns.has_key:
            key = bytes_at(&columns.key, row)
        if columns.has_headers:
            read_items(&columns.headers, row, &item, &end)
            names, values = &columns.headers.names, &columns.headers.values
            headers = [
                (bytes_at(names, at).decode(), bytes_at(values, at)) for at in range(item, end)
            ]
        if columns.has_partition and look.has_partition:
            partition = look.partition
        if columns.has_timestamp and self.time_of(row, &number) == CELL_FULL:
            timestamp_ms = number
        return bytes_at(&columns.value, row), key, headers, partition, timestamp_ms


cdef object bytes_at(const BytesColumn* column, int64_t row):
    """Return a copy of a byte string, or None for a null."""
    cdef const uint8_t* start = NULL
    cdef int64_t size = 0
    cdef int cell = read_bytes(column, row, &start, &size)
    if cell == CELL_FAULTY:
        raise ValueError("the row was changed while it was sent")
    if cell == CELL_NULL:
        return None
    return PyBytes_FromStringAndSize(<const char*>start, size)


cdef bint is_utf8(const uint8_t* at, int64_t size) noexcept nogil:
    """Return whether this is valid UTF-8: shortest forms, no surrogates, at most U+10FFFF."""
    cdef const uint8_t* end = at + size
    cdef int more
    cdef uint8_t low
    cdef uint8_t high
    while at < end:
        if at[0] < 0x80:
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= at[0] <= 0xDF:
            more = 1
        elif 0xE0 <= at[0] <= 0xEF:
            more = 2
            low = 0xA0 if at[0] == 0xE0 else 0x80
            high = 0x9F if at[0] == 0xED else 0xBF
        elif 0xF0 <= at[0] <= 0xF4:
            more = 3
            low = 0x90 if at[0] == 0xF0 else 0x80
            high = 0x8F if at[0] == 0xF4 else 0xBF
        else:
            return False
        if end - at <= more or not low <= at[1] <= high:
            return False
        at += 2
        more -= 1
        while more > 0:
            if at[0] & 0xC0 != 0x80:
                return False
            at += 1
            more -= 1
    return True
