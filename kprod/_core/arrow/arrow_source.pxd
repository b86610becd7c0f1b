from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema


cdef class ArrowSource:
    # The capsules own their structures; those that the stream returns are released here.
    cdef tuple _capsules
    cdef ArrowArrayStream* _stream
    cdef ArrowSchema* schema
    cdef ArrowArray* array
    cdef ArrowSchema _own_schema
    cdef ArrowArray _own_array
    cdef bint _is_spent
    cdef bint advance(self) except -1
    cdef int _release_array(self) except -1
