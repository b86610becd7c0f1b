# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Arrow columns as the keys, values, headers and numbers of records, checked before they are read.

A `ColumnPlan` is created once from the schema: the position of the column and its layout. A type
that cannot be sent is rejected there, before any row. Each array is then bound to the plan: its
length, its counts of buffers and children, every offset, view and index of a distinct value are
compared with the arrays' own statements. The readers (in the `.pxd`) check again while reading.

Many arrays may share one dictionary, but each delivers it again: no safe test can tell that it is
the same, since the previous one has been released. So if a dictionary has more values than the
array has rows, only the values that rows refer to are checked.

Limit of the checks: buffers come without their sizes, so a buffer that is shorter than its array's
length or last offset requires is not detected; that is a fault of the library that created it.

Thread-safety: pure functions of their arrays.
Source: Arrow columnar format and C data interface (Arrow 20 documents).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema

cdef enum:
    MS_PER_S = 1000
    US_PER_MS = 1000
    NS_PER_MS = 1000000

# More rows than any process has bytes.
cdef int64_t ROWS_MAX = <int64_t>1 << 47
cdef int64_t BYTES_MAX = <int64_t>1 << 62
cdef str INTEGERS = "cCsSiIlL"
# Common names of Arrow's formats.
cdef dict TYPE_NAMES = {
    "n": "null", "b": "bool", "e": "float16", "f": "float32", "g": "float64",
    "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "z": "binary", "Z": "large binary", "vz": "binary view",
    "u": "string", "U": "large string", "vu": "string view", "+s": "struct", "+l": "list",
    "+L": "large list", "+vl": "list view", "+vL": "large list view", "+m": "map",
    "+r": "run-end encoded", "tdD": "date32", "tdm": "date64",
}
cdef str REMEDY = (
    "encode it in the table first, as JSON text (to_json in DuckDB, struct.json_encode in polars),"
    " as Avro or Protobuf bytes, or by a cast to string"
)


cdef class ColumnPlan:
    """Position of a column and layout of its type."""

    cdef ArrowArray* _child(self, ArrowArray* parent, Window* window) except NULL:
        """Return the array of this column, which must cover the window."""
        cdef ArrowArray* array
        if parent.n_children <= self.position:
            raise ValueError(
                f"a broken Arrow array: {parent.n_children} columns, and the schema has"
                f" {self.position + 1} or more"
            )
        if parent.children == NULL:
            raise ValueError(
                f"a broken Arrow array: it declares {parent.n_children} columns, and has none"
            )
        array = parent.children[self.position]
        if array == NULL:
            raise ValueError(f"a broken Arrow array: no array for {self.name!r}")
        return array

    cdef int bind_bytes(self, ArrowArray* parent, Window* window, BytesColumn* column) except -1:
        """Check an array of byte strings, and fill in the column that reads it."""
        cdef ArrowArray* array = self._child(parent, window)
        cdef Window all_values
        cdef bint is_long
        column.is_encoded = self.is_encoded
        if not self.is_encoded:
            return self._bind_values(array, window, column, True)
        self._bind_numbers(array, window, &column.indexes)
        if array.dictionary == NULL:
            raise ValueError(f"a broken Arrow array: {self.name!r} has no dictionary")
        all_values.base = all_values.start = 0
        all_values.end = column.distinct_count = array.dictionary.length
        is_long = column.distinct_count > window.end - window.start
        self._bind_values(array.dictionary, &all_values, column, not is_long)
        if not _are_sound(column, window):
            raise ValueError(
                f"a broken Arrow array: {self.name!r} refers past the {column.distinct_count}"
                " entries of its dictionary, or to a broken one"
            )
        return 0

    cdef int _bind_values(
        self, ArrowArray* array, Window* window, BytesColumn* column, bint checks_each
    ) except -1:
        """Bind the byte strings themselves, which may be the distinct values of a dictionary."""
        cdef int64_t count = array.n_buffers
        if self.layout == VIEWS:
            count = max(count, <int64_t>3)
        elif self.layout != NULLS:
            count = 2 if self.layout == FIXED else 3
        check_array(array, window, count, self.name)
        column.layout = self.layout
        column.offset = array.offset + window.base
        column.validity = NULL
        if self.layout == NULLS:
            return 0
        column.validity = validity_of(array, self.name)
        column.places = array.buffers[1]
        if window.end == window.start:
            column.content_bytes = 0
            return 0
        if self.layout == FIXED:
            column.content = <const uint8_t*>array.buffers[1]
            column.width = self.width
            if self.width and column.offset + window.end > BYTES_MAX // self.width:
                raise ValueError(
                    f"a broken Arrow array: {self.name!r} has rows of {self.width} bytes to row"
                    f" {column.offset + window.end}, more than {BYTES_MAX} bytes in all"
                )
            if column.content == NULL and self.width:
                raise ValueError(f"a broken Arrow array: {self.name!r} has no buffer of values")
            return 0
        if column.places == NULL:
            raise ValueError(f"a broken Arrow array: {self.name!r} has no buffer of offsets")
        if self.layout == VIEWS:
            column.buffers = array.buffers + 2
            column.buffer_count = count - 3
            column.buffer_bytes = <const int64_t*>array.buffers[count - 1]
            if column.buffer_count and column.buffer_bytes == NULL:
                raise ValueError(
                    f"a broken Arrow array: nothing says how long the buffers of {self.name!r} are"
                )
            if checks_each and not _are_sound_values(column, window):
                raise ValueError(
                    f"a broken Arrow array: a view of {self.name!r} is not within its buffers"
                )
            return 0
        column.content = <const uint8_t*>array.buffers[2]
        if checks_each or column.content == NULL:
            column.content_bytes = _checked_end(
                column.places, self.layout == OFFSETS_64, column.offset, window
            )
        else:
            column.content_bytes = _own_end(array, self.layout == OFFSETS_64)
        if not 0 <= column.content_bytes <= _own_end(array, self.layout == OFFSETS_64):
            raise ValueError(
                f"a broken Arrow array: the offsets of {self.name!r} are negative, or decrease"
            )
        if column.content == NULL and _first_offset(column, window) != column.content_bytes:
            raise ValueError(f"a broken Arrow array: {self.name!r} has no buffer of bytes")
        return 0

    cdef int bind_number(self, ArrowArray* parent, Window* window, NumberColumn* column) except -1:
        """Check an array of numbers, and fill in the column that reads it."""
        return self._bind_numbers(self._child(parent, window), window, column)

    cdef int _bind_numbers(self, ArrowArray* array, Window* window, NumberColumn* column) except -1:
        check_array(array, window, 2, self.name)
        column.kind = self.kind
        column.offset = array.offset + window.base
        column.validity = validity_of(array, self.name)
        column.numbers = array.buffers[1]
        if column.numbers == NULL and window.end > window.start:
            raise ValueError(f"a broken Arrow array: {self.name!r} has no buffer of numbers")
        return 0

    cdef int bind_headers(
        self, ArrowArray* parent, Window* window, HeadersColumn* column
    ) except -1:
        """Check an array of lists of headers, and fill in the column that reads it."""
        cdef ArrowArray* array = self._child(parent, window)
        cdef ArrowArray* items
        cdef Window used
        check_array(array, window, 2, self.name)
        if array.n_children != 1 or array.children == NULL or array.children[0] == NULL:
            raise ValueError(
                f"a broken Arrow array: {self.name!r} does not have one array of items"
            )
        items = array.children[0]
        column.is_large = self.is_large
        column.offset = array.offset + window.base
        column.validity = validity_of(array, self.name)
        column.offsets = array.buffers[1]
        used.base = used.start = used.end = 0
        if window.end > window.start:
            if column.offsets == NULL:
                raise ValueError(f"a broken Arrow array: {self.name!r} has no buffer of offsets")
            used.end = _checked_end(column.offsets, self.is_large, column.offset, window)
            if not 0 <= used.end <= _own_end(array, self.is_large):
                raise ValueError(
                    f"a broken Arrow array: the offsets of {self.name!r} are negative, or decrease"
                )
            used.start = _offset_at(
                column.offsets, self.is_large, column.offset + window.start
            )
        check_array(items, &used, 1, self.name)
        column.item_count = used.end
        column.item_validity = validity_of(items, self.name)
        column.item_offset = items.offset
        used.base = items.offset
        self.names.bind_bytes(items, &used, &column.names)
        self.values.bind_bytes(items, &used, &column.values)
        return 0


cdef int check_array(ArrowArray* array, Window* window, int64_t buffer_count, str what) except -1:
    """Reject an array that does not cover the window, or lacks buffers."""
    if (
        not 0 <= array.length <= ROWS_MAX or not 0 <= array.offset <= ROWS_MAX
        or not 0 <= window.base <= ROWS_MAX
    ):
        raise ValueError(
            f"a broken Arrow array: {what!r} has length {array.length} and offset {array.offset},"
            f" and is read from row {window.base} on; each is 0 to {ROWS_MAX}"
        )
    if array.length - window.base < window.end:
        raise ValueError(
            f"a broken Arrow array: {what!r} has length {array.length}, and {window.end} from row"
            f" {window.base} on are needed"
        )
    if array.n_buffers != buffer_count:
        raise ValueError(
            f"a broken Arrow array: {what!r} has {array.n_buffers} buffers instead of"
            f" {buffer_count}"
        )
    if buffer_count and array.buffers == NULL:
        raise ValueError(
            f"a broken Arrow array: {what!r} declares {buffer_count} buffers, and has none"
        )
    return 0


cdef const uint8_t* validity_of(ArrowArray* array, str what) except? NULL:
    """Return the bitmap of rows that are not null; NULL if no row is null."""
    if array.null_count == 0:
        return NULL
    if array.buffers[0] == NULL and array.null_count > 0:
        raise ValueError(
            f"a broken Arrow array: {what!r} has {array.null_count} nulls, and nothing says which"
        )
    return <const uint8_t*>array.buffers[0]


cdef inline int64_t _offset_at(const void* offsets, bint is_large, int64_t at) noexcept nogil:
    if is_large:
        return (<const int64_t*>offsets)[at]
    return (<const int32_t*>offsets)[at]


cdef int64_t _own_end(ArrowArray* array, bint is_large) noexcept nogil:
    """Return an array's last offset, which is its content's size; the window may end before."""
    return _offset_at(array.buffers[1], is_large, array.offset + array.length)


cdef int64_t _first_offset(BytesColumn* column, Window* window) noexcept:
    return _offset_at(column.places, column.layout == OFFSETS_64, column.offset + window.start)


cdef int64_t _checked_end(
    const void* offsets, bint is_large, int64_t offset, Window* window
) noexcept nogil:
    """Return the last offset of a window; −1 if one is negative or below the one before it."""
    cdef int64_t row
    cdef int64_t before = 0
    cdef int64_t here = 0
    for row in range(offset + window.start, offset + window.end + 1):
        here = _offset_at(offsets, is_large, row)
        if here < before:
            return -1
        before = here
    return here


cdef bint _are_sound(const BytesColumn* column, Window* window) noexcept nogil:
    """Return whether every row's bytes can be read."""
    cdef int64_t row
    cdef int64_t size = 0
    cdef const uint8_t* start = NULL
    for row in range(window.start, window.end):
        if read_bytes(column, row, &start, &size) == CELL_FAULTY:
            return False
    return True


cdef bint _are_sound_values(BytesColumn* column, Window* window) noexcept nogil:
    """Check distinct values as `_are_sound` checks rows, whatever rows refer to them."""
    cdef BytesColumn plain = column[0]
    plain.is_encoded = False
    return _are_sound(&plain, window)


cdef str _text(const char* given):
    return "" if given == NULL else (<bytes>given).decode("utf-8", "replace")


cdef str type_name(ArrowSchema* schema):
    """Return the type's common name, followed by Arrow's own format."""
    text = _text(schema.format)
    name = TYPE_NAMES.get(text)
    if name is None:
        name = "timestamp" if text.startswith("ts") else "decimal" if text[:1] == "d" else "type"
    return f"{name} ({text!r:.80})"


cdef int check_schema(ArrowSchema* schema) except -1:
    """Reject a schema that lacks some of the columns or items that it counts."""
    cdef int64_t index
    for index in range(schema.n_children):
        if schema.children == NULL or schema.children[index] == NULL:
            raise ValueError(f"a broken Arrow schema: column or item {index} is not there")
    return 0


cdef Py_ssize_t find_child(ArrowSchema* schema, str name, str role) except -1:
    """Return the position of the column with this name."""
    names = [_text(schema.children[index].name) for index in range(schema.n_children)]
    count = names.count(name)
    if count != 1:
        problem = "no column" if count == 0 else f"{count} columns"
        raise ValueError(
            f"{role}={name!r:.80}, and there is {problem} of that name among"
            f" {', '.join(map(repr, names[:50])) or 'none':.1000}"
        )
    return names.index(name)


cdef ColumnPlan _plan(ArrowSchema* schema, Py_ssize_t position, str role):
    cdef ColumnPlan plan = ColumnPlan.__new__(ColumnPlan)
    plan.role, plan.position = role, position
    plan.name = _text(schema.children[position].name)[:80]  # error texts quote no more
    plan.multiplier = plan.divisor = 1
    return plan


cdef ColumnPlan plan_bytes(ArrowSchema* schema, Py_ssize_t position, str role):
    """Plan a column of byte strings or texts; raise if its type is another."""
    cdef ColumnPlan plan = _plan(schema, position, role)
    cdef ArrowSchema* child = schema.children[position]
    if child.dictionary != NULL:
        plan.is_encoded = True
        plan.kind = _integer_kind(child)
        child = child.dictionary
    text = _text(child.format)
    if child.dictionary != NULL:
        plan.layout = NO_LAYOUT
    elif text == "n":
        plan.layout = NULLS
    elif text in {"z", "u"}:
        plan.layout = OFFSETS_32
    elif text in {"Z", "U"}:
        plan.layout = OFFSETS_64
    elif text in {"vz", "vu"}:
        plan.layout = VIEWS
    elif text.startswith("w:") and text[2:].isascii() and text[2:].isdigit():
        plan.layout = FIXED
        plan.width = min(int(text[2:]), 2**31 - 1)
    if plan.layout == NO_LAYOUT or (plan.is_encoded and plan.kind == 0):
        raise TypeError(
            f"column {plan.name!r} has type {type_name(child)}, and a {role} is binary or string:"
            f" {REMEDY}"
        )
    return plan


cdef char _integer_kind(ArrowSchema* schema):
    text = _text(schema.format)
    return <char>ord(text) if len(text) == 1 and text in INTEGERS else 0


cdef ColumnPlan plan_number(ArrowSchema* schema, Py_ssize_t position, str role):
    """Plan a column of integers, or for timestamps one of times in any unit."""
    cdef ColumnPlan plan = _plan(schema, position, role)
    cdef ArrowSchema* child = schema.children[position]
    text = _text(child.format)
    plan.kind = _integer_kind(child)
    if role == "timestamp":
        if text.startswith("ts") and text[2:3] in {"s", "m", "u", "n"} and text[3:4] == ":":
            plan.kind = c"l"
            plan.multiplier = MS_PER_S if text[2] == "s" else 1
            plan.divisor = {"u": US_PER_MS, "n": NS_PER_MS}.get(text[2], 1)
        elif text == "tdm":
            plan.kind = c"l"
    if plan.kind == 0 or child.dictionary != NULL:
        wanted = "a timestamp or an integer (milliseconds)" if role == "timestamp" else "an integer"
        raise TypeError(
            f"column {plan.name!r} has type {type_name(child)}, and a {role} is {wanted}"
        )
    return plan


cdef ColumnPlan plan_headers(ArrowSchema* schema, Py_ssize_t position):
    """Plan a column of lists of structs of key and value, or of maps."""
    cdef ColumnPlan plan = _plan(schema, position, "headers")
    cdef ArrowSchema* child = schema.children[position]
    cdef ArrowSchema* item
    cdef bint is_map
    text = _text(child.format)
    check_schema(child)
    is_map = text == "+m"
    plan.is_large = text == "+L"
    if (
        text in {"+l", "+L", "+m"} and child.dictionary == NULL and child.n_children == 1
        and _text(child.children[0].format) == "+s"
    ):
        item = child.children[0]
        check_schema(item)
        names = [_text(item.children[index].name) for index in range(item.n_children)]
        if is_map and len(names) == 2:
            names = ["key", "value"]
        if names.count("key") == 1 and names.count("value") == 1:
            plan.names = plan_bytes(item, names.index("key"), "header's key")
            plan.values = plan_bytes(item, names.index("value"), "header's value")
            return plan
    raise TypeError(
        f"column {plan.name!r} has type {type_name(child)}, and headers are a list of structs of"
        " 'key' and 'value', or a map of string to binary"
    )
