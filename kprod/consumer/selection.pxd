# The types of selection.py, which is compiled as it stands.


from kprod.consumer.parts cimport ConsumerParts
from kprod.consumer.position cimport AssignedPartition


cdef class Selection:
    cdef public ConsumerParts _parts
    cdef public frozenset _added

    cpdef on_freed(self, AssignedPartition partition)
