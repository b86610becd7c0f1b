from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from kprod._core.send.send_path cimport SendPath
from kprod._core.send.partition_appender cimport TopicRoutes
from kprod._core.send.bulk_account cimport BulkAccount


# The call's own batch for one partition, as borrowed references; both NULL if there is none.
cdef struct Slot:
    PyObject* builder
    PyObject* share


cdef class ArrowBatches:
    cdef Slot* slots
    cdef Py_ssize_t slot_count
    # Slot of the partition to which rows without one go now.
    cdef Py_ssize_t sticky_slot
    cdef SendPath _path
    cdef TopicRoutes _topic_routes
    cdef BulkAccount _account
    # Owners of the references that the slots borrow.
    cdef list _batches
    cdef list _own_shares
    cdef int follow_topic(self) except -1
    cdef int grow(self) except -1
    cdef int open_slot(self, Py_ssize_t slot, list chunks) except -1
    cdef bint lengthen(
        self, Py_ssize_t slot, int64_t wanted_bytes, int64_t need_bytes
    ) except -1
    cdef int splice_all(self) except -1
    cdef int splice(self, Py_ssize_t slot) except -1
    cdef int _reject_batch(self, Py_ssize_t slot) except -1
    cdef int _vacate(self, Py_ssize_t slot) except -1
