# cython: language_level=3
"""The fields of plans, for the reader and the writer that run them."""


cdef enum FieldKind:
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


cdef enum:
    UUID_BYTES = 16
    STRING_BYTES_MAX = 0x7FFF  # Largest two-byte length; Java has this limit for compact ones too.
    # Sizes of CPython's objects on a 64-bit machine, rounded up as its allocator does.
    GC_BYTES = 32
    LIST_BYTES = 80
    POINTER_BYTES = 8


cdef class FieldPlan:
    cdef readonly str name
    cdef readonly str path
    cdef readonly object default
    cdef readonly Py_ssize_t size_min
    cdef int kind
    cdef bint nullable
    cdef bint compact
    cdef bint ignorable
    cdef FieldPlan element
    cdef StructPlan struct
    cdef int tag
    cdef bytes default_wire

    cdef object fresh_default(self)


cdef class StructPlan:
    cdef readonly str where
    cdef readonly Py_ssize_t size_min
    cdef readonly Py_ssize_t dict_bytes
    cdef readonly bint flexible
    cdef tuple fields
    cdef tuple tagged
    cdef dict absent
    cdef dict template
    cdef tuple fresh
    cdef FieldPlan tags

    cdef dict fresh_dict(self)
