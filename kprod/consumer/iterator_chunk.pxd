# The types of iterator_chunk.py, which is compiled as it stands.


from kprod.consumer.open_block cimport OpenBlock


cdef class IteratorChunk:
    cdef public OpenBlock block
    cdef public list taken
    cdef public list records
    cdef public object ident
    cdef public object in_hand
    cdef public bint is_interrupted
