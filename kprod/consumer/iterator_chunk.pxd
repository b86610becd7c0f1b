# The types of iterator_chunk.py, which is compiled as it stands.


cdef class IteratorChunk:
    cdef public object block
    cdef public list taken
    cdef public list records
    cdef public object ident
    cdef public object in_hand
    cdef public bint is_interrupted
