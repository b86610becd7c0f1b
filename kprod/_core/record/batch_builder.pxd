from libc.stdint cimport int16_t, int32_t, int64_t

from kprod._core.memory.chunk_pool cimport ChunkChain


cpdef enum AppendResult:
    APPENDED = 0
    NEED_CHUNKS = 1
    BATCH_FULL = 2


# A record to append: length -1 for null. `headers` is the encoded section, count included.
cdef struct RecordFields:
    int64_t timestamp_ms
    const unsigned char* key
    Py_ssize_t key_bytes
    const unsigned char* value
    Py_ssize_t value_bytes
    const unsigned char* headers
    Py_ssize_t headers_bytes


cdef class BatchBuilder:
    # The fields that each append uses come first: they fit in two cache lines.
    cdef readonly Py_ssize_t limit_bytes
    cdef readonly Py_ssize_t size_bytes
    cdef readonly int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms
    cdef unsigned char* _at
    cdef Py_ssize_t _room_bytes
    cdef Py_ssize_t _spare_bytes
    cdef readonly int32_t record_count
    cdef readonly bint sealed
    cdef Py_ssize_t _piece_index
    cdef readonly ChunkChain chain
    cdef readonly Py_ssize_t missing_bytes
    cdef readonly Py_ssize_t encoded_bytes
    cdef list _packed_pieces
    cdef list _wire_pieces
    cdef object _header

    cdef AppendResult append(self, const RecordFields* record) noexcept nogil
    cdef void expect(self, Py_ssize_t record_bytes) noexcept nogil
    cdef void _put(self, const unsigned char* source, Py_ssize_t size) noexcept nogil
    cdef int extend(self, object chunk) except -1
    cdef int _replace_records(self, const unsigned char* source, Py_ssize_t size) except -1
    cdef unsigned char* _header_memory(self) except NULL
    cdef int _write_producer(
        self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    ) except -1
