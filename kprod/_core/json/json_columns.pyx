# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Arrow columns of every type that has a form in JSON, checked before they are read.

A tree of `JsonPlan` is made once from a schema, and bound to an array: lengths, counts of buffers
and children, and every offset of a list are compared with the arrays' own statements, as
`arrow_columns` does for byte strings.

Thread-safety: a plan belongs to one thread.
Source: Arrow columnar format and C data interface (Arrow 20 documents).
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema
from kprod._core.arrow.arrow_columns cimport (
    Window,
    check_array,
    check_schema,
    plan_bytes,
    validity_of,
)
from kprod._core.json.json_buffer cimport JsonBuffer, put_string
from kprod._core.json.json_times cimport ZoneOffsets, set_zone

cdef enum:
    DEPTH_MAX = 100
    MS_PER_S = 1000
    US_PER_MS = 1000
    NS_PER_MS = 1000000
    DECIMAL_BITS = 128

cdef dict KINDS = {
    "n": JSON_NULL, "b": JSON_BOOLEAN, "f": JSON_FLOAT, "g": JSON_DOUBLE, "tdD": JSON_DATE,
    "+s": JSON_STRUCT, "+l": JSON_LIST, "+L": JSON_LIST, "+m": JSON_MAP,
    "u": JSON_STRING, "U": JSON_STRING, "vu": JSON_STRING,
    "z": JSON_BASE64, "Z": JSON_BASE64, "vz": JSON_BASE64,
}
cdef str INTEGERS = "cCsSiIl"


cdef class JsonPlan:
    """A column's place and type, and those of its fields or items."""

    def __dealloc__(self):
        free(self.column.children)
        free(self._zone_offsets)

    cdef int bind(self, ArrowArray* array, Window* window) except -1:
        """Check an array's rows of a window, and fill in the column that reads them."""
        cdef JsonColumn* column = &self.column
        cdef Window all_rows = window[0]
        column.offset = array.offset + window.base
        if column.kind == JSON_NULL:
            return 0
        if column.kind == JSON_STRUCT:
            check_array(array, window, 1, self.name)
            column.validity = validity_of(array, self.name)
            all_rows.base = column.offset
            return self._bind_children(array, &all_rows)
        check_array(array, window, 2, self.name)
        column.validity = validity_of(array, self.name)
        column.values = array.buffers[1]
        if column.values == NULL and window.end > window.start:
            raise ValueError(f"a broken Arrow array: {self.name!r} has no buffer of values")
        column.number.validity = column.validity
        column.number.offset = column.offset
        column.number.numbers = column.values
        if column.kind == JSON_LIST or column.kind == JSON_MAP:
            return self._bind_items(array, window)
        return 0

    cdef int _bind_items(self, ArrowArray* array, Window* window) except -1:
        """Bind the items of a list, or the keys and values of a map."""
        cdef JsonColumn* column = &self.column
        cdef Window used
        cdef Window all_items
        cdef int64_t row
        cdef int64_t before = 0
        cdef int64_t here
        used.base = used.start = used.end = 0
        if window.end > window.start:
            used.start = item_offset(column, window.start)
            for row in range(window.start, window.end + 1):
                here = item_offset(column, row)
                if here < before:
                    raise ValueError(
                        f"a broken Arrow array: the offsets of {self.name!r} are negative, or"
                        " decrease"
                    )
                before = here
            used.end = before
        column.item_count = used.end
        if array.n_children != 1 or array.children == NULL or array.children[0] == NULL:
            raise ValueError(
                f"a broken Arrow array: {self.name!r} does not have one array of items"
            )
        if column.kind == JSON_LIST:
            return self._bind_children(array, &used)
        check_array(array.children[0], &used, 1, self.name)
        all_items = used
        all_items.base = array.children[0].offset
        return self._bind_children(array.children[0], &all_items)

    cdef int _bind_children(self, ArrowArray* array, Window* window) except -1:
        cdef JsonPlan child
        if array.n_children < len(self._children):
            raise ValueError(
                f"a broken Arrow array: {self.name!r} has {len(self._children)} fields, and arrays"
                f" for {array.n_children} of them"
            )
        if self._children and array.children == NULL:
            raise ValueError(
                f"a broken Arrow array: {self.name!r} declares {array.n_children} arrays, and has"
                " none"
            )
        for child in self._children:
            if array.children[child._position] == NULL:
                raise ValueError(f"a broken Arrow array: no array for {child.name!r}")
            if child._bytes_plan is not None:
                child._bytes_plan.bind_bytes(array, window, &child.column.bytes)
            else:
                child.bind(array.children[child._position], window)
        return 0


cdef JsonPlan plan_rows(ArrowSchema* schema, find_zone):
    """Plan a table's rows as objects.

    `find_zone` returns a zone's seconds from UTC, or a `tzinfo`, by its name.
    """
    cdef JsonPlan plan = JsonPlan.__new__(JsonPlan)
    plan.name = "the table"
    if schema.format == NULL:
        raise ValueError("a broken Arrow schema: it has no format")
    if <bytes>schema.format != b"+s":
        raise TypeError(
            "JSON objects are made of a table or a record batch, not of an array in Arrow's format"
            f" {(<bytes>schema.format).decode('utf-8', 'replace')!r}"
        )
    plan.column.kind = JSON_STRUCT
    _plan_fields(plan, schema, find_zone, 0)
    return plan


cdef JsonPlan _plan(ArrowSchema* parent, Py_ssize_t position, find_zone, int depth):
    cdef JsonPlan plan = JsonPlan.__new__(JsonPlan)
    cdef ArrowSchema* schema = parent.children[position]
    cdef JsonColumn* column = &plan.column
    text = "" if schema.format == NULL else (<bytes>schema.format).decode("utf-8", "replace")
    name = b"" if schema.name == NULL else <bytes>schema.name
    plan.name = name.decode("utf-8", "replace")[:80]
    plan._label = b"," + _as_string(name) + b":"
    plan._position = position
    column.label = plan._label
    column.label_bytes = len(plan._label)
    column.multiplier = column.divisor = 1
    if depth >= DEPTH_MAX:
        raise TypeError(f"column {plan.name!r} is nested more than {DEPTH_MAX} levels deep")
    if schema.dictionary != NULL:
        text = (<bytes>schema.dictionary.format).decode("utf-8", "replace")
    kind = KINDS.get(text)
    if kind in {JSON_STRING, JSON_BASE64}:
        column.kind = kind
        plan._bytes_plan = plan_bytes(parent, position, "JSON string")
    elif schema.dictionary != NULL:
        _reject(plan, text)
    elif len(text) == 1 and text in INTEGERS:
        column.kind = JSON_INTEGER
        column.number.kind = ord(text)
    elif text.startswith("d:"):
        column.kind = JSON_DECIMAL
        column.scale = _decimal_scale(plan, text)
    elif text.startswith("ts"):
        _plan_instant(plan, text, find_zone)
    elif kind is None:
        _reject(plan, text)
    else:
        column.kind = kind
        column.is_large = text == "+L"
        if kind == JSON_DATE:
            column.number.kind = c"i"
        elif kind in {JSON_STRUCT, JSON_LIST, JSON_MAP}:
            check_schema(schema)
            if kind == JSON_MAP:
                _plan_entries(plan, schema, find_zone, depth)
            else:
                _plan_fields(plan, schema, find_zone, depth)
    return plan


cdef int _plan_fields(JsonPlan plan, ArrowSchema* schema, find_zone, int depth) except -1:
    """Plan every field of a struct, or the one item of a list."""
    cdef JsonPlan child
    cdef Py_ssize_t count = schema.n_children
    check_schema(schema)
    if plan.column.kind == JSON_LIST and count != 1:
        raise ValueError(f"a broken Arrow schema: {plan.name!r} has {count} items instead of 1")
    plan._children = [_plan(schema, index, find_zone, depth + 1) for index in range(count)]
    plan.column.children = <JsonColumn**>calloc(max(count, 1), sizeof(void*))
    if plan.column.children == NULL:
        raise MemoryError(f"no memory for the columns of {plan.name!r}")
    for index, child in enumerate(plan._children):
        plan.column.children[<Py_ssize_t>index] = &child.column
    plan.column.child_count = count
    return 0


cdef int _plan_entries(JsonPlan plan, ArrowSchema* schema, find_zone, int depth) except -1:
    """Plan keys and values of a map, which are the fields of its one item."""
    if schema.n_children != 1 or schema.children[0].n_children != 2:
        raise ValueError(
            f"a broken Arrow schema: {plan.name!r} does not have one item of a key and a value"
        )
    _plan_fields(plan, schema.children[0], find_zone, depth)
    if plan.column.children[0].kind != JSON_STRING:
        raise TypeError(f"the keys of {plan.name!r} are not strings: cast them")
    return 0


cdef int _plan_instant(JsonPlan plan, str text, find_zone) except -1:
    """Plan a timestamp: `tsu:` and a zone, which may be empty."""
    unit, colon, zone = text[2:3], text[3:4], text[4:]
    if unit not in {"s", "m", "u", "n"} or colon != ":":
        _reject(plan, text)
    plan.column.kind = JSON_INSTANT
    plan.column.number.kind = c"l"
    plan.column.multiplier = MS_PER_S if unit == "s" else 1
    plan.column.divisor = {"u": US_PER_MS, "n": NS_PER_MS}.get(unit, 1)
    if not zone:
        return 0
    plan._zone = find_zone(zone)
    plan._zone_offsets = <ZoneOffsets*>calloc(1, sizeof(ZoneOffsets))
    if plan._zone_offsets == NULL:
        raise MemoryError("no memory for the offsets of a time zone")
    set_zone(plan._zone_offsets, plan._zone)
    plan.column.zone = plan._zone_offsets
    return 0


cdef int _decimal_scale(JsonPlan plan, str text) except? -1:
    """Return the scale of `d:precision,scale`, which may name its bits."""
    parts = text[2:].split(",")
    if len(parts) not in {2, 3} or (len(parts) == 3 and parts[2] != str(DECIMAL_BITS)):
        _reject(plan, text)
    scale = int(parts[1])
    if not -DECIMAL_BITS <= scale <= DECIMAL_BITS:
        _reject(plan, text)
    return scale


cdef int _reject(JsonPlan plan, str text) except -1:
    raise TypeError(
        f"column {plan.name!r} has the Arrow type {text!r:.80}, which has no form in JSON: cast it"
    )


cdef bytes _as_string(bytes name):
    """Return a name as a JSON string."""
    cdef JsonBuffer text
    text.start = NULL
    text.size = text.capacity = 0
    try:
        put_string(&text, name, len(name))
        return text.start[:text.size]
    finally:
        free(text.start)
