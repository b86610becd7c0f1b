from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema


cdef class ArrowSource:
    # The capsules keep what they hold; what the stream hands out is ours to release.
    cdef tuple _capsules
    cdef ArrowArrayStream* _stream
    cdef ArrowSchema* schema
    cdef ArrowArray* array
    cdef ArrowSchema _own_schema
    cdef ArrowArray _own_array
    cdef bint _is_spent
    cdef bint advance(self) except -1
    cdef int _release_array(self) except -1
