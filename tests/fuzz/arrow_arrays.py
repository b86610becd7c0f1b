"""Arrow arrays out of bytes, right or wrong, behind the PyCapsule interface.

An input is a table's number in `TABLES`, then its arrays depth first: a head of whole numbers as
they are in the C structure, and the content of each buffer. Buffers are given exactly the bytes
that the array claims for its rows, not one more, so that a sanitizer sees what is read past them.
An input that claims more than `CLAIM_BYTES_MAX` is not built: the interface has no sizes, so nobody
could tell that those bytes are not there.
"""

import ctypes
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

CLAIM_BYTES_MAX = 1 << 14
POINTERS_MAX = 16
ROWS_MAX = 1 << 47  # more rows than any process has bytes
HEAD = struct.Struct("<qqqqqB")
# Bits of the head's last field.
NO_BUFFERS, NO_CHILDREN, NO_DICTIONARY, NO_VALIDITY, NO_SECOND, NO_THIRD = (
    1 << bit for bit in range(6)
)


class Field(NamedTuple):
    """A type: its format, and those below it."""

    name: str
    format: str
    children: tuple["Field", ...] = ()
    dictionary: "Field | None" = None


def _headers(form: str, key: str, value: str) -> Field:
    item = Field("entries", "+s", (Field("key", key), Field("value", value)))
    return Field("h", form, (item,))


def _encoded(name: str, index: str, form: str) -> Field:
    return Field(name, index, (), Field("", form))


COLUMNS = {"v": "value", "k": "key", "h": "headers", "p": "partition", "t": "timestamp"}
TABLES: tuple[tuple[Field, ...], ...] = (
    (Field("v", "z"),),
    (Field("v", "U"), Field("k", "vu")),
    (Field("v", "vz"), Field("p", "i")),
    (_encoded("v", "c", "z"), Field("t", "tsn:")),
    (Field("v", "w:3"), _encoded("k", "I", "vz")),
    (Field("v", "Z"), _headers("+l", "u", "vz")),
    (Field("v", "n"), Field("k", "u"), _headers("+m", "vu", "z")),
    (Field("v", "u"), _headers("+L", "U", "n"), Field("p", "L"), Field("t", "l")),
    (_encoded("v", "l", "U"), _encoded("k", "s", "w:5")),
)


class NotBuiltError(Exception):
    """The arrays claim more than is given to them."""


class _Schema(ctypes.Structure):
    """`ArrowSchema`."""


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_release = _Release(lambda _: None)
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.c_void_p)),
    ("dictionary", ctypes.c_void_p),
    ("release", _Release),
    ("private", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    """`ArrowArray`."""

    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.POINTER(ctypes.c_void_p)),
        ("dictionary", ctypes.c_void_p),
        ("release", _Release),
        ("private", ctypes.c_void_p),
    )


_make_capsule = ctypes.pythonapi.PyCapsule_New
_make_capsule.restype = ctypes.py_object
_make_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Table:
    """A table built from an input, as `send_arrow` takes it.

    Raises:
        NotBuiltError: An array claims more bytes than are given.
    """

    def __init__(self, content: bytes) -> None:
        self._kept: list[Any] = []
        self._content = content
        self._at = 1
        self.columns = TABLES[content[0] % len(TABLES) if content else 0]
        root = Field("", "+s", self.columns)
        self._schema = self._make_schema(root)
        self.array = self._make_array(root)

    def __arrow_c_array__(  # noqa: PLW3201 - Arrow's
        self, requested_schema: object = None
    ) -> tuple[object, object]:
        """Both capsules; the structures live as long as this table."""
        assert requested_schema is None
        return (
            _make_capsule(ctypes.addressof(self._schema), b"arrow_schema", None),
            _make_capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )

    def _make_schema(self, field: Field) -> _Schema:
        schema = _Schema(field.format.encode(), field.name.encode(), None, 2)
        schema.n_children = len(field.children)
        schema.children = self._pointers([self._make_schema(child) for child in field.children])
        if field.dictionary is not None:
            schema.dictionary = ctypes.addressof(self._make_schema(field.dictionary))
        schema.release = _release
        self._kept.append(schema)
        return schema

    def _make_array(self, field: Field) -> _Array:
        head = HEAD.unpack(self._take(HEAD.size))
        array = _Array(*head[:5])
        flags = head[5]
        self._kept.append(array)
        buffers = list(self._buffers(field, array))
        for bit, place in ((NO_VALIDITY, 0), (NO_SECOND, 1), (NO_THIRD, 2)):
            if flags & bit and place < len(buffers):
                buffers[place] = None
        array.buffers = None if flags & NO_BUFFERS else self._pointers(buffers)
        children = [self._make_array(child) for child in field.children]
        array.children = None if flags & NO_CHILDREN else self._pointers(children)
        if field.dictionary is not None:
            below = self._make_array(field.dictionary)
            array.dictionary = None if flags & NO_DICTIONARY else ctypes.addressof(below)
        array.release = _release
        return array

    def _buffers(self, field: Field, array: _Array) -> Iterator[Any]:
        """Each buffer with the bytes that the array claims for it."""
        rows = array.length + array.offset
        if not (0 <= array.length <= ROWS_MAX and 0 <= array.offset <= ROWS_MAX):
            rows = 0  # must be rejected before anything is read
        form = field.format
        if form == "n":
            return
        if array.n_buffers > POINTERS_MAX and form in {"vz", "vu"}:
            raise NotBuiltError  # views alone have as many as they say
        yield self._buffer((rows + 7) // 8)
        if form == "+s":
            return
        if form in {"z", "u", "Z", "U"}:
            width, layout = (4, "<i") if form.islower() else (8, "<q")
            offsets = self._buffer((rows + 1) * width)
            yield offsets
            (end,) = struct.unpack_from(layout, offsets, rows * width)
            yield self._buffer(max(end, 0))
        elif form in {"vz", "vu"}:
            yield self._buffer(16 * rows)
            sizes = [self._take_number() for _ in range(max(min(array.n_buffers, 8) - 3, 0))]
            for size in sizes:
                yield self._buffer(max(size, 0))
            yield self._exactly(struct.pack(f"<{len(sizes)}q", *sizes))
        else:
            yield self._buffer(_row_bytes(form) * (rows + form.startswith(("+l", "+L", "+m"))))

    def _buffer(self, size: int) -> Any:
        """Return that number of bytes, the input's first."""
        if size > CLAIM_BYTES_MAX:
            raise NotBuiltError
        (given,) = struct.unpack("<H", self._take(2))
        return self._exactly(self._take(given)[:size].ljust(size, b"\0"))

    def _exactly(self, content: bytes) -> Any:
        block = (ctypes.c_ubyte * len(content)).from_buffer_copy(content)
        self._kept.append(block)
        return block

    def _pointers(self, targets: list[Any]) -> Any:
        """A table of pointers; more than there are targets are null."""
        table = (ctypes.c_void_p * POINTERS_MAX)()
        for place, block in enumerate(targets[:POINTERS_MAX]):
            table[place] = None if block is None else ctypes.addressof(block)
        self._kept.append(table)
        return ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        self._at += size
        return taken.ljust(size, b"\0")

    def _take_number(self) -> int:
        return int(struct.unpack("<q", self._take(8))[0])


def _row_bytes(form: str) -> int:
    if form.startswith("w:"):
        return int(form[2:])
    if form in {"+l", "+m", "i", "I"}:
        return 4
    return {"c": 1, "C": 1, "s": 2, "S": 2}.get(form, 8)
