# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Tables of any library, read as one array after the other by the Arrow PyCapsule interface.

The GIL is released while a stream produces its next array, since the code that fills it may need
the GIL in another thread. Each array is released before the next one is requested.

Thread-safety: a source belongs to one thread.
Source: Arrow C stream interface and PyCapsule interface (Arrow 20 documents).
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.string cimport memset, strerror

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema

from kprod.errors import SerializationError


cdef class ArrowSource:
    """The arrays of a table.

    Args:
        table: Has `__arrow_c_array__` or `__arrow_c_stream__`.

    Raises:
        TypeError: It has neither, or they return something other than such capsules.
        SerializationError: The stream has no schema.
    """

    def __cinit__(self, table):
        memset(&self._own_schema, 0, sizeof(ArrowSchema))
        memset(&self._own_array, 0, sizeof(ArrowArray))
        if hasattr(table, "__arrow_c_array__"):
            self._capsules = tuple(table.__arrow_c_array__())
            if len(self._capsules) != 2:
                raise TypeError("__arrow_c_array__ must return a schema and an array")
            self.schema = <ArrowSchema*>_pointer_in(self._capsules[0], b"arrow_schema")
            self.array = <ArrowArray*>_pointer_in(self._capsules[1], b"arrow_array")
            if self.schema.release == NULL or self.array.release == NULL:
                raise ValueError("the Arrow array was released before it was sent")
        elif hasattr(table, "__arrow_c_stream__"):
            self._capsules = (table.__arrow_c_stream__(),)
            self._stream = <ArrowArrayStream*>_pointer_in(
                self._capsules[0], b"arrow_array_stream"
            )
            if self._stream.release == NULL:
                raise ValueError("the Arrow stream was read before it was sent")
            _check(self._stream, self._stream.get_schema(self._stream, &self._own_schema))
            self.schema = &self._own_schema
        else:
            raise TypeError(
                "a table must have __arrow_c_stream__ or __arrow_c_array__, as those of pyarrow,"
                f" polars, DuckDB and pandas do; got {type(table).__name__}"
            )

    def __dealloc__(self):
        if self._own_array.release != NULL:
            self._own_array.release(&self._own_array)
        if self._own_schema.release != NULL:
            self._own_schema.release(&self._own_schema)

    cdef bint advance(self) except -1:
        """Make the next array the current one; return False if there is none."""
        cdef int code
        if self._stream == NULL:
            if self._is_spent:
                return False
            self._is_spent = True
            return True
        self._release_array()
        with nogil:
            code = self._stream.get_next(self._stream, &self._own_array)
        _check(self._stream, code)
        self.array = &self._own_array
        return self._own_array.release != NULL

    cdef int _release_array(self) except -1:
        if self._own_array.release != NULL:
            self._own_array.release(&self._own_array)
        memset(&self._own_array, 0, sizeof(ArrowArray))
        return 0


cdef void* _pointer_in(object capsule, const char* name) except NULL:
    if not PyCapsule_IsValid(capsule, name):
        raise TypeError(
            f"expected a capsule {name.decode()!r}, got {type(capsule).__name__}"
        )
    return PyCapsule_GetPointer(capsule, name)


cdef int _check(ArrowArrayStream* stream, int code) except -1:
    """Raise the stream's error text for a code that is not 0."""
    cdef const char* told
    if code == 0:
        return 0
    told = stream.get_last_error(stream) if stream.get_last_error != NULL else NULL
    reason = (<bytes>strerror(code)).decode("utf-8", "replace")
    if told != NULL:
        reason = (<bytes>told).decode("utf-8", "replace")
    raise SerializationError(f"the Arrow stream failed: {reason:.1000}")
