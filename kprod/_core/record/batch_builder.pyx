# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
# Why: store forwarding, see "What decides it" in docs/performance.md.
"""The builder of V2 record batches: records are written straight into a chain of pooled chunks.

A builder is open, then sealed (no more records), with a codec packed (the records compressed), then
closed (header and checksum written). It
appends a record whole or not at all, and returns a lack of space as a value: NEED_CHUNKS if the
chain is too short, BATCH_FULL if the limit on uncompressed bytes is reached. The first record is
taken whatever its size, since it could never fit otherwise. A record may straddle chunks.

Invariants.
    size_bytes is the exact encoded size without compression, header included.
    A batch is unchanged by an append that does not return APPENDED.
    A closed batch's bytes change only through `rewrite_producer`, and only while the batch is the
    only holder of the chain.

Thread-safety: none of its own; appends run inside the partition's critical section.
Source: Kafka DefaultRecordBatch, DefaultRecord, MemoryRecordsBuilder (clients 4.3.1).
"""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from kprod._core.arguments cimport expose
from kprod._core.record.batch_header cimport BatchHeader, put_checksum, put_header, put_producer
from kprod._core.record.batch_pieces cimport checksum_of, chunk_parts
from kprod._core.record.compression_buffer cimport CompressionBuffer
from kprod._core.memory.chunk cimport Chunk
from kprod._core.memory.chunk_pool cimport ChunkChain, Piece
from kprod._core.record.header_section cimport encode_header_section
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES, CODEC_MASK
from kprod._core.prefetch cimport prefetch_lines
from kprod._core.varint cimport put_varint, put_varlong, varint_size, varlong_size

from kprod.errors import LocalProtocolError

cdef enum:
    INT32_MAX = 0x7FFFFFFF
    # The length field, which excludes itself and the base offset, is a signed int32.
    BATCH_BYTES_MAX = 0x7FFFFFFF
    # A batch's header and all of a record but key, value and headers take less than 128 bytes.
    RECORD_PARTS_BYTES_MAX = 0x7FFFFFFF - 128
    # All of a record before its key: length, attributes, deltas, key length.
    RECORD_HEAD_BYTES_MAX = 32
    # Records of a few cache lines are written faster than their lines could be prefetched; those
    # of many pages keep the hardware's own prefetcher running.
    PREFETCHED_BYTES_MIN = 256
    PREFETCHED_BYTES_MAX = 2048

cdef const unsigned char* NO_HEADERS = b"\x00"
# The default of `headers`, recognized by identity.
cdef tuple NONE_GIVEN = ()
cdef object _APPENDED = AppendResult.APPENDED
cdef object _NEED_CHUNKS = AppendResult.NEED_CHUNKS
cdef object _BATCH_FULL = AppendResult.BATCH_FULL


@cython.no_gc
cdef class BatchBuilder:
    """One batch under construction. No reference cycle goes through it.

    Args:
        chain: Memory of the batch; the builder's owner is the chain's first holder.
        limit_bytes: Largest uncompressed size, header included, with more than one record; at most
            2,147,483,647, so that neither the length nor the count of records overflows.
    """

    def __cinit__(self, ChunkChain chain not None, Py_ssize_t limit_bytes):
        cdef Py_ssize_t index
        if chain.pieces[0].capacity_bytes < BATCH_OVERHEAD_BYTES:
            raise ValueError(
                f"a batch's first chunk must hold its header of {BATCH_OVERHEAD_BYTES} bytes"
            )
        if limit_bytes > BATCH_BYTES_MAX:
            raise ValueError(
                f"a batch has at most {BATCH_BYTES_MAX} bytes, got a limit of {limit_bytes}"
            )
        self.chain = chain
        self.limit_bytes = limit_bytes
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.max_timestamp_ms = -1
        self.base_timestamp_ms = -1
        self._at = chain.pieces[0].memory + BATCH_OVERHEAD_BYTES
        self._room_bytes = chain.pieces[0].capacity_bytes - BATCH_OVERHEAD_BYTES
        for index in range(1, chain.piece_count):
            self._spare_bytes += chain.pieces[index].capacity_bytes

    @property
    def is_full(self):
        """Whether the limit is reached, so that no further record fits."""
        return self.size_bytes >= self.limit_bytes

    # Without binding the interpreter calls the method faster, as a plain built-in one.
    @cython.binding(False)
    def try_append(self, int64_t timestamp_ms, key, value, headers=()):
        """Append one record, whole or not at all.

        Args:
            timestamp_ms: Milliseconds since 1970.
            key: Bytes-like or None.
            value: Bytes-like or None.
            headers: Pairs of a str and bytes-like or None, or a mapping of them.

        Returns:
            APPENDED; NEED_CHUNKS if the chain is `missing_bytes` too short; BATCH_FULL if the
            record does not fit the limit.

        Raises:
            TypeError: An argument is not of these types.
            ValueError: A header's key is not valid UTF-8 text, the batch is sealed, or the record
                is larger than any batch can be.
        """
        cdef RecordFields record
        cdef Py_buffer key_view
        cdef Py_buffer value_view
        cdef bint key_is_viewed = False
        cdef bint value_is_viewed = False
        cdef bytes section
        cdef AppendResult outcome
        record.timestamp_ms = timestamp_ms
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        if headers is not NONE_GIVEN and headers:
            section = encode_header_section(headers, INT32_MAX)
            if section is None:
                raise ValueError(f"the headers of one record exceed {INT32_MAX} bytes")
            record.headers = <const unsigned char*>PyBytes_AS_STRING(section)
            record.headers_bytes = PyBytes_GET_SIZE(section)
        try:
            value_is_viewed = expose(
                value, &value_view, &record.value, &record.value_bytes, "value"
            )
            key_is_viewed = expose(key, &key_view, &record.key, &record.key_bytes, "key")
            # Checked only here: code run above, such as an iterator of headers, might seal it.
            if self.sealed:
                raise ValueError("the batch is sealed; open another")
            _check_size(&record)
            outcome = self.append(&record)
        finally:
            if value_is_viewed:
                PyBuffer_Release(&value_view)
            if key_is_viewed:
                PyBuffer_Release(&key_view)
        # Enum members made in advance: converting a number to one costs as much as a small record.
        if outcome == APPENDED:
            return _APPENDED
        return _NEED_CHUNKS if outcome == NEED_CHUNKS else _BATCH_FULL

    @cython.nonecheck(False)
    cdef AppendResult append(self, const RecordFields* record) noexcept nogil:
        """Append one record whose fields the caller has checked; this runs no Python code."""
        cdef int64_t timestamp_delta = 0
        cdef Py_ssize_t body_bytes
        cdef Py_ssize_t record_bytes
        cdef unsigned char head[RECORD_HEAD_BYTES_MAX]
        cdef unsigned char* at
        cdef bint contiguous
        if self.record_count > 0:
            # Modulo 2^64, as every reader adds it back.
            timestamp_delta = <int64_t>(
                <uint64_t>record.timestamp_ms - <uint64_t>self.base_timestamp_ms
            )
        body_bytes = (
            1 + varlong_size(timestamp_delta) + varint_size(self.record_count)
            + varint_size(<int32_t>record.key_bytes) + max(record.key_bytes, 0)
            + varint_size(<int32_t>record.value_bytes) + max(record.value_bytes, 0)
            + record.headers_bytes
        )
        record_bytes = varint_size(<int32_t>body_bytes) + body_bytes
        if self.record_count > 0 and self.size_bytes + record_bytes > self.limit_bytes:
            return AppendResult.BATCH_FULL
        if record_bytes > self._room_bytes + self._spare_bytes:
            self.missing_bytes = record_bytes - self._room_bytes - self._spare_bytes
            return AppendResult.NEED_CHUNKS

        contiguous = record_bytes <= self._room_bytes
        at = self._at if contiguous else head
        at = put_varint(at, <int32_t>body_bytes)
        at[0] = 0
        at = put_varlong(at + 1, timestamp_delta)
        at = put_varint(at, self.record_count)
        at = put_varint(at, <int32_t>record.key_bytes)
        if contiguous:
            if record.key_bytes > 0:
                memcpy(at, record.key, record.key_bytes)
                at += record.key_bytes
            at = put_varint(at, <int32_t>record.value_bytes)
            if record.value_bytes > 0:
                memcpy(at, record.value, record.value_bytes)
                at += record.value_bytes
            # Most records have no headers: one byte, which needs no call.
            at[0] = record.headers[0]
            if record.headers_bytes > 1:
                memcpy(at, record.headers, record.headers_bytes)
            self._at += record_bytes
            self._room_bytes -= record_bytes
            if record_bytes >= PREFETCHED_BYTES_MIN:
                self.expect(record_bytes)
        else:
            self._put(head, at - head)
            self._put(record.key, record.key_bytes)
            self._put(head, put_varint(head, <int32_t>record.value_bytes) - head)
            self._put(record.value, record.value_bytes)
            self._put(record.headers, record.headers_bytes)

        if self.record_count == 0:
            self.base_timestamp_ms = record.timestamp_ms
            self.max_timestamp_ms = record.timestamp_ms
        elif record.timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = record.timestamp_ms
        self.record_count += 1
        self.size_bytes += record_bytes
        return AppendResult.APPENDED

    @cython.final
    @cython.nonecheck(False)
    cdef void expect(self, Py_ssize_t record_bytes) noexcept nogil:
        """Prefetch the memory of a next record of this size, which is rarely in a near cache."""
        prefetch_lines(
            self._at, min(record_bytes, self._room_bytes, <Py_ssize_t>PREFETCHED_BYTES_MAX)
        )

    @cython.nonecheck(False)
    cdef void _put(self, const unsigned char* source, Py_ssize_t size) noexcept nogil:
        """Copy into the chain across chunk borders; the caller has checked that it fits."""
        cdef Piece* piece
        while size > self._room_bytes:
            memcpy(self._at, source, self._room_bytes)
            source += self._room_bytes
            size -= self._room_bytes
            self._piece_index += 1
            piece = &self.chain.pieces[self._piece_index]
            self._at = piece.memory
            self._room_bytes = piece.capacity_bytes
            self._spare_bytes -= piece.capacity_bytes
        if size > 0:
            memcpy(self._at, source, size)
            self._at += size
            self._room_bytes -= size

    def add_chunk(self, Chunk chunk not None) -> None:
        """Append a chunk, lent by the chain's pool, to the chain."""
        self.extend(chunk)

    cdef int extend(self, object chunk) except -1:
        self.chain.add(<Chunk>chunk)
        self._spare_bytes += (<Chunk>chunk).capacity_bytes
        return 0

    def seal(self) -> None:
        """Accept no more records, and return the unused chunks to the pool."""
        with cython.critical_section(self):
            if not self.sealed:
                self.sealed = True
                self._spare_bytes = 0
                self.chain.trim(self._piece_index + 1)

    def records(self, CompressionBuffer buffer not None) -> memoryview:
        """Return a copy of the records, uncompressed, without the batch's header.

        Args:
            buffer: Holds the copy.

        Returns:
            A view of the buffer, which its next use overwrites.
        """
        return buffer.filled(self.chain, self._piece_index + 1, self._at)

    def pack(self, packed) -> None:
        """Seal the batch, and replace its records by their compressed form.

        They are copied into the chain if they fit, and the rest of its memory returns to the pool:
        a caller that waits for memory fills it while the next batch is compressed. Those that
        compression has made longer than the chain keep their own memory.

        Args:
            packed: All `records`, compressed, bytes-like.

        Raises:
            LocalProtocolError: The batch is closed or packed already, or has no records.
        """
        cdef Py_buffer view
        cdef const unsigned char* source
        cdef Py_ssize_t size
        cdef bint is_viewed
        if self._wire_pieces is not None or self._packed_pieces is not None:
            raise LocalProtocolError("a batch was packed after it was packed or closed")
        if self.record_count == 0:
            raise LocalProtocolError("a batch without records was packed")
        self.seal()
        is_viewed = expose(packed, &view, &source, &size, "compressed records")
        try:
            if BATCH_OVERHEAD_BYTES + size > self.chain.lent_bytes:
                self._header = bytearray(BATCH_OVERHEAD_BYTES)
                self._packed_pieces = [memoryview(self._header).toreadonly(), packed]
            else:
                self._replace_records(source, size)
            self.encoded_bytes = BATCH_OVERHEAD_BYTES + size
        finally:
            if is_viewed:
                PyBuffer_Release(&view)

    cdef int _replace_records(self, const unsigned char* source, Py_ssize_t size) except -1:
        """Write the compressed records over the uncompressed ones, and shorten the chain."""
        self._piece_index = 0
        self._at = self.chain.pieces[0].memory + BATCH_OVERHEAD_BYTES
        self._room_bytes = self.chain.pieces[0].capacity_bytes - BATCH_OVERHEAD_BYTES
        # An error from here on must not let the compressed records be compressed again.
        self._packed_pieces = []
        self._put(source, size)
        self._packed_pieces = chunk_parts(self.chain, self._piece_index + 1, self._at)
        self.encoded_bytes = BATCH_OVERHEAD_BYTES + size
        self.chain.trim(self._piece_index + 1)  # wakes event loops, by code that may raise
        return 0

    @property
    def is_packed(self):
        """Whether the records are compressed; a closed batch may be."""
        return self._packed_pieces is not None

    def close(
        self, *, int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=-1,
        int attributes=0,
    ):
        """Seal the batch and write its header and checksum.

        Args:
            producer_id: −1 without idempotence.
            producer_epoch: −1 without idempotence.
            base_sequence: Sequence of the first record; −1 without idempotence.
            attributes: Codec, transactional and control bits of the header.

        Returns:
            The batch's pieces in order, buffers to be written one after the other, in a list that
            must not be changed. They refer to the chain unless compression has made them longer.

        Raises:
            LocalProtocolError: The batch is closed already or has no records, or it is packed
                without codec bits, or the other way round.
        """
        cdef BatchHeader header
        if self._wire_pieces is not None:
            raise LocalProtocolError("a batch was closed twice")
        if self.record_count == 0:
            raise LocalProtocolError("a batch without records was closed")
        if bool(attributes & CODEC_MASK) != (self._packed_pieces is not None):
            state = "not compressed" if self._packed_pieces is None else "compressed"
            raise LocalProtocolError(
                f"a batch was closed with attributes {attributes:#x}, but its records are {state}"
            )
        if self._packed_pieces is not None and not self._packed_pieces:
            raise LocalProtocolError("a batch was closed whose compression had failed midway")
        self.seal()
        self._wire_pieces = self._packed_pieces
        if self._wire_pieces is None:
            self._wire_pieces = chunk_parts(self.chain, self._piece_index + 1, self._at)
            self.encoded_bytes = self.size_bytes
        header.size_bytes = self.encoded_bytes
        header.attributes = <int16_t>attributes
        header.record_count = self.record_count
        header.base_timestamp_ms = self.base_timestamp_ms
        header.max_timestamp_ms = self.max_timestamp_ms
        put_header(self._header_memory(), &header)
        self._write_producer(producer_id, producer_epoch, base_sequence)
        return self._wire_pieces

    cdef unsigned char* _header_memory(self) except NULL:
        if self._header is None:
            return self.chain.pieces[0].memory
        return self._header

    cdef int _write_producer(
        self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    ) except -1:
        cdef unsigned char* header = self._header_memory()
        put_producer(header, producer_id, producer_epoch, base_sequence)
        put_checksum(header, checksum_of(self._wire_pieces))
        return 0

    def pieces(self) -> list:
        """Return the closed batch's pieces, in order.

        Raises:
            LocalProtocolError: The batch is not closed.
        """
        if self._wire_pieces is None:
            raise LocalProtocolError("a batch's pieces were asked for before it was closed")
        return list(self._wire_pieces)

    def rewrite_producer(
        self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    ) -> None:
        """Replace a closed batch's producer id, epoch and sequence, and recompute its checksum.

        Raises:
            LocalProtocolError: The batch is not closed, or a request still holds its chain: bytes
                that a socket may be reading never change.
        """
        if self._wire_pieces is None:
            raise LocalProtocolError("only a closed batch's producer can be rewritten")
        if self.chain.holder_count != 1:
            raise LocalProtocolError(
                f"a batch held {self.chain.holder_count} times cannot be rewritten; its only"
                " holder may"
            )
        self._write_producer(producer_id, producer_epoch, base_sequence)


cdef inline int _check_size(const RecordFields* record) except -1:
    """Reject a record that no batch could hold: the batch's own length is a signed int32."""
    # No part reaches 2^62, so the sum is exact.
    cdef Py_ssize_t size = (
        max(record.key_bytes, 0) + max(record.value_bytes, 0) + record.headers_bytes
    )
    if size > RECORD_PARTS_BYTES_MAX:
        raise ValueError(
            f"a record of {size} bytes is larger than any batch, {BATCH_BYTES_MAX} bytes"
        )
    return 0
