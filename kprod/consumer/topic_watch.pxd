# The types of topic_watch.py, which is compiled as it stands.

from kprod.consumer.position cimport AssignedPartition


cdef class TopicWatch:
    cdef public object _metadata
    cdef public object _assignment
    cdef public object _mailbox
    cdef public object _on_partitions
    cdef public object _on_count
    cdef public dict _missing_since
    cdef public dict _problems

    cpdef works(self, AssignedPartition partition)
