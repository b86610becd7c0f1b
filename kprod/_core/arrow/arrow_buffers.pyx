# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Columns that are filled row by row, and then given away by Arrow's C data interface.

The importer of an array releases it, perhaps in a thread that Python does not know. So memory comes
from the raw allocator, and releasing needs no GIL. Each array and each field of a schema owns its
own memory, since an importer may keep one child and release the rest.

Invariants.
    A buffer belongs either to a builder or to an array.
    Offsets of byte strings begin with 0, so a column of no rows has one offset.

Thread-safety: a builder belongs to one thread at a time.
Source: Arrow columnar format, C data interface and PyCapsule interface (Arrow 20 documents).
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema

cdef enum:
    # Importers may read whole words, and do not accept missing buffers.
    PADDING_BYTES = 8
    NULLABLE_FLAG = 2

cdef struct OwnedArray:
    const void* buffers[BUFFERS_MAX]
    ArrowArray* children[CHILDREN_MAX]

cdef struct OwnedSchema:
    ArrowSchema* children[CHILDREN_MAX]


cdef bint reserve(GrowingBuffer* buffer, int64_t more) noexcept nogil:
    cdef int64_t capacity = buffer.used + more
    cdef uint8_t* grown
    if capacity <= buffer.capacity and buffer.at != NULL:
        return True
    # Half as much again, so that many small batches are not copied many times.
    capacity = max(capacity, buffer.capacity + (buffer.capacity >> 1))
    grown = <uint8_t*>PyMem_RawRealloc(buffer.at, capacity + PADDING_BYTES)
    if grown == NULL:
        return False
    buffer.at = grown
    buffer.capacity = capacity
    return True


cdef bint reserve_bytes(BytesBuilder* column, int64_t rows, int64_t content_bytes) noexcept nogil:
    if not reserve(&column.ends, (rows + 1) * <int64_t>sizeof(int32_t)):
        return False
    if column.ends.used == 0:
        put_int32(&column.ends, 0)
    return (
        reserve(&column.content, content_bytes)
        and _reserve_bits(&column.validity, column.length, rows))


cdef bint reserve_numbers(NumberBuilder* column, int64_t rows, int width) noexcept nogil:
    return reserve(&column.values, rows * width) and _reserve_bits(
        &column.validity, column.length, rows)


cdef bint _reserve_bits(GrowingBuffer* bitmap, int64_t length, int64_t rows) noexcept nogil:
    return reserve(bitmap, ((length + rows + 7) >> 3) - bitmap.used)


cdef void release_buffer(GrowingBuffer* buffer) noexcept nogil:
    PyMem_RawFree(buffer.at)
    memset(buffer, 0, sizeof(GrowingBuffer))


cdef void release_bytes(BytesBuilder* column) noexcept nogil:
    release_buffer(&column.ends)
    release_buffer(&column.content)
    release_buffer(&column.validity)
    column.length = column.null_count = 0


cdef void release_numbers(NumberBuilder* column) noexcept nogil:
    release_buffer(&column.values)
    release_buffer(&column.validity)
    column.length = column.null_count = 0


cdef ArrowArray* make_array(int child_count) noexcept nogil:
    cdef ArrowArray* array = <ArrowArray*>PyMem_RawCalloc(1, sizeof(ArrowArray))
    cdef OwnedArray* owned = <OwnedArray*>PyMem_RawCalloc(1, sizeof(OwnedArray))
    if array == NULL or owned == NULL:
        PyMem_RawFree(array)
        PyMem_RawFree(owned)
        return NULL
    array.n_buffers = 1  # the validity, which may be missing
    array.n_children = child_count
    array.buffers = owned.buffers
    array.children = owned.children
    array.release = _release_array
    array.private_data = owned
    return array


cdef void give_buffer(ArrowArray* array, int place, GrowingBuffer* buffer) noexcept nogil:
    """Move a buffer; memory that was reserved and not used goes back."""
    cdef void* at = NULL
    if buffer.at != NULL:
        at = PyMem_RawRealloc(buffer.at, buffer.used + PADDING_BYTES)
    array.buffers[place] = at if at != NULL else buffer.at
    array.n_buffers = max(array.n_buffers, place + 1)
    memset(buffer, 0, sizeof(GrowingBuffer))


cdef void give_bytes(ArrowArray* array, BytesBuilder* column) noexcept nogil:
    array.length = column.length
    array.null_count = column.null_count
    if column.null_count:
        give_buffer(array, 0, &column.validity)
    give_buffer(array, 1, &column.ends)
    give_buffer(array, 2, &column.content)
    release_bytes(column)


cdef void give_numbers(ArrowArray* array, NumberBuilder* column) noexcept nogil:
    array.length = column.length
    array.null_count = column.null_count
    if column.null_count:
        give_buffer(array, 0, &column.validity)
    give_buffer(array, 1, &column.values)
    release_numbers(column)


cdef void _release_array(ArrowArray* array) noexcept nogil:
    cdef OwnedArray* owned = <OwnedArray*>array.private_data
    cdef int place
    for place in range(BUFFERS_MAX):
        PyMem_RawFree(<void*>owned.buffers[place])
    for place in range(CHILDREN_MAX):
        drop_array(owned.children[place])
    drop_array(array.dictionary)
    PyMem_RawFree(owned)
    array.release = NULL


cdef void drop_array(ArrowArray* array) noexcept nogil:
    """Release and free an array that nobody has imported; NULL is none."""
    if array != NULL:
        if array.release != NULL:
            # It is one of ours; an importer that took it has set this to NULL.
            _release_array(array)
        PyMem_RawFree(array)


cdef ArrowSchema* make_schema(
    const char* format, const char* name, bint is_nullable, int child_count
) noexcept nogil:
    cdef ArrowSchema* schema = <ArrowSchema*>PyMem_RawCalloc(1, sizeof(ArrowSchema))
    cdef OwnedSchema* owned = <OwnedSchema*>PyMem_RawCalloc(1, sizeof(OwnedSchema))
    if schema == NULL or owned == NULL:
        PyMem_RawFree(schema)
        PyMem_RawFree(owned)
        return NULL
    schema.format = format
    schema.name = name
    schema.flags = NULLABLE_FLAG if is_nullable else 0
    schema.n_children = child_count
    schema.children = owned.children
    schema.release = _release_schema
    schema.private_data = owned
    return schema


cdef void _release_schema(ArrowSchema* schema) noexcept nogil:
    cdef OwnedSchema* owned = <OwnedSchema*>schema.private_data
    cdef int place
    for place in range(CHILDREN_MAX):
        drop_schema(owned.children[place])
    drop_schema(schema.dictionary)
    PyMem_RawFree(owned)
    schema.release = NULL


cdef void drop_schema(ArrowSchema* schema) noexcept nogil:
    """Release and free a schema that nobody has imported; NULL is none."""
    if schema != NULL:
        if schema.release != NULL:
            _release_schema(schema)
        PyMem_RawFree(schema)


cdef object schema_capsule(ArrowSchema* schema):
    return PyCapsule_New(schema, b"arrow_schema", _drop_schema_capsule)


cdef object array_capsule(ArrowArray* array):
    return PyCapsule_New(array, b"arrow_array", _drop_array_capsule)


cdef void _drop_schema_capsule(object capsule) noexcept:
    drop_schema(<ArrowSchema*>PyCapsule_GetPointer(capsule, b"arrow_schema"))


cdef void _drop_array_capsule(object capsule) noexcept:
    drop_array(<ArrowArray*>PyCapsule_GetPointer(capsule, b"arrow_array"))
