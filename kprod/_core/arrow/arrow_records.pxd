# Records of blocks as Arrow columns.

from libc.stdint cimport int32_t, int64_t

from kprod._core.arrow.arrow_buffers cimport BytesBuilder
from kprod._core.arrow.record_columns cimport RecordColumns, RowSizes
from kprod._core.record.consumer_record cimport ConsumerRecord
from kprod._core.record.record_block cimport RecordBlock


cdef class ArrowColumns:
    cdef RecordColumns _columns
    cdef BytesBuilder _topic_names
    # Indexes of topics in the dictionary.
    cdef dict _topics
    cdef bint _append_some(self, RecordBlock block, int64_t rows_max, int64_t bytes_max) except -1
    cdef bint _append_batch(self, RecordBlock block, int64_t rows_max, int64_t bytes_max) except -1
    cdef bint _append_one(self, RecordBlock block, int64_t bytes_max) except -1
    cdef bint _append_record(
        self, ConsumerRecord record, list headers, int64_t bytes_max) except -1
    cdef int _reserve(self, const RowSizes* sizes) except -1
    cdef int32_t _topic_index(self, str topic) except -1
