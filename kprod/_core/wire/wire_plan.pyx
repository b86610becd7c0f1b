# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -Os
"""Plans: the wire layout of one message of the protocol in one version.

A `StructPlan` lists the fields of one version of one structure, in order, and how each is written;
the codec makes plans from the tables, once per message and version. `wire_reader` and `wire_writer`
run them, without Python code per field.

Thread-safety: plans are immutable after construction.
Source: KIP-482 and the protocol guide of Apache Kafka 4.3.1.
"""

import enum
import sys

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy
from libc.stdint cimport uint64_t

from kprod._core.varint cimport put_unsigned


class Kind(enum.IntEnum):
    """Wire type of a field; the numbers of `FieldKind` in `wire_plan.pxd`."""

    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT16 = 5
    FLOAT64 = 6
    STRING = 7
    BYTES = 8
    RECORDS = 9
    UUID = 10
    STRUCT = 11
    ARRAY = 12


class Flag(enum.IntFlag):
    """Properties of a field's wire form."""

    NULLABLE = 1
    COMPACT = 2
    IGNORABLE = 4


cdef Py_ssize_t[7] FIXED_BYTES
FIXED_BYTES[:] = [1, 1, 2, 4, 8, 2, 8]

cdef class FieldPlan:
    """Wire layout of one field of one version.

    Args:
        name: Key of the field in the dict.
        where: Message, version and enclosing fields, for error texts.
        kind: A `Kind`.
        flags: A combination of `Flag` values.
        default: Value of an absent field; for an array or a struct only null matters, since their
            plans define all else.
        shape: The element's plan for an array, the structure's for a struct, else None.
    """

    def __init__(self, name, where, int kind, int flags, default, shape):
        self.name = name
        self.path = f"{where} {name}" if where.endswith(":") else f"{where}.{name}"
        self.kind = kind
        self.nullable = flags & 1 != 0
        self.compact = flags & 2 != 0
        self.ignorable = flags & 4 != 0
        self.default = default
        self.tag = -1
        if kind == ARRAY:
            self.element = shape
        elif kind == STRUCT:
            self.struct = shape
        self.size_min = self._least_bytes()

    def _least_bytes(self):
        if self.kind <= FLOAT64:
            return FIXED_BYTES[self.kind]
        if self.kind == UUID:
            return UUID_BYTES
        if self.kind == STRUCT:
            return 1 if self.nullable else self.struct.size_min
        if self.compact:
            return 1
        return 2 if self.kind == STRING else 4

    cdef object fresh_default(self):
        """Return a default that the caller may change."""
        if self.default is None or self.kind < STRUCT:
            return self.default
        return [] if self.kind == ARRAY else self.struct.fresh_dict()


cdef class StructPlan:
    """Wire layout of one structure of one version.

    Args:
        where: Message, version and enclosing fields, for error texts.
        fields: Plans of the fields of this version, in wire order, without the tagged ones.
        tagged: Triples of a tag, its plan, and the bytes of its default, which are never sent.
        absent: Plans of the fields that only other versions have.
        flexible: Whether a section of tagged fields ends the structure.
    """

    def __init__(self, where, fields, tagged, absent, bint flexible):
        cdef FieldPlan field
        self.where = where.rstrip(":")
        self.fields = tuple(fields)
        self.absent = {plan.name: plan for plan in absent}
        self.flexible = flexible
        self.size_min = sum(plan.size_min for plan in fields) + flexible
        self.tags = FieldPlan("(tagged fields)", where, INT8, 0, 0, None)
        self.template = {}
        # Unpacked first: compiled code does not check an index.
        triples = [(tag, field, default_wire) for tag, field, default_wire in tagged]
        ordered = sorted(triples, key=lambda each: each[0])
        if len(ordered) >= 0x80:
            raise ValueError(f"{where} {len(ordered)} tagged fields, their count is one byte")
        for tag, field, default_wire in ordered:
            field.tag = tag
            field.default_wire = default_wire
        self.tagged = tuple(field for _, field, _ in ordered)
        for field in (*self.fields, *self.tagged):
            if field.kind == ARRAY and field.element.size_min < 1:  # readers divide by it
                raise ValueError(f"{field.path}: elements of no bytes can be any number")
        fresh = []
        for field in (*self.fields, *self.tagged, *absent):
            self.template[field.name] = None if field.kind >= STRUCT else field.default
            if field.kind >= STRUCT and field.default is not None and field not in self.fields:
                fresh.append(field)
        self.fresh = tuple(fresh)
        self.dict_bytes = sys.getsizeof(self.template) + GC_BYTES  # the allocator rounds up
        for field in fresh:
            self.dict_bytes += LIST_BYTES if field.kind == ARRAY else field.struct.dict_bytes

    cdef dict fresh_dict(self):
        """Return a dict of all defaults, which the caller may change."""
        cdef FieldPlan field
        cdef dict result = PyDict_Copy(self.template)
        for field in self.fields:
            result[field.name] = field.fresh_default()
        for field in self.fresh:
            result[field.name] = field.fresh_default()
        return result


def encode_uvarint(uint64_t value):
    """Write an unsigned varint of at most ten bytes."""
    cdef unsigned char[10] room
    cdef unsigned char *end = put_unsigned(room, value)
    return PyBytes_FromStringAndSize(<char *>room, end - room)
