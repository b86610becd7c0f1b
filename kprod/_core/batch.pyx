# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
"""The V2 record batch, written: records go straight into a chain of pooled chunks.

A builder is open, then sealed (no more records), then closed (header and checksum written). It
appends a record whole or not at all, and answers lack of room with a value: NEED_CHUNKS when the
chain is too short, BATCH_FULL when the limit on uncompressed bytes is reached. A first record is
taken whatever its size, since it could never fit otherwise. A record may straddle chunks.

Invariants.
    size_bytes is the exact encoded size without compression, header included.
    A batch is unchanged by an append that does not answer APPENDED.
    A closed batch's bytes change only through `rewrite_producer`, and only while nothing but the
    batch itself holds the chain.

Thread-safety: none of its own; appends run inside the partition's critical section.
Source: Kafka DefaultRecordBatch, DefaultRecord, MemoryRecordsBuilder (clients 4.3.1).
"""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GetSlice, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from kprod._core.arguments cimport expose
from kprod._core.chunk cimport Chunk, ChunkPart, part_of
from kprod._core.chunks cimport ChunkChain, Piece
from kprod._core.collector cimport untrack
from kprod._core.endian cimport store_int16, store_int32, store_int64
from kprod._core.layout cimport (
    ATTRIBUTES_OFFSET,
    BASE_OFFSET_OFFSET,
    BASE_SEQUENCE_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    BATCH_LENGTH_OFFSET,
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CRC_OFFSET,
    LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    MAX_TIMESTAMP_OFFSET,
    PARTITION_LEADER_EPOCH_OFFSET,
    PRODUCER_EPOCH_OFFSET,
    PRODUCER_ID_OFFSET,
    RECORD_COUNT_OFFSET,
    RECORD_OVERHEAD_BYTES_MAX,
)
from kprod._core.prefetch cimport prefetch_lines
from kprod._core.varint cimport (
    put_varint,
    put_varlong,
    varint_size,
    varlong_size,
)

from crc32c import crc32c

from kprod.errors import LocalProtocolError

cdef enum:
    INT32_MAX = 0x7FFFFFFF
    # The length field, which does not count itself and the base offset, is a signed int32.
    BATCH_BYTES_MAX = 0x7FFFFFFF
    # A batch's header and all of a record but key, value and headers take less than 128 bytes.
    RECORD_PARTS_BYTES_MAX = 0x7FFFFFFF - 128
    # Everything of a record before its key: length, attributes, deltas, key length.
    RECORD_HEAD_BYTES_MAX = 32
    # Records of a few lines are written faster than lines could be asked for; those of many pages
    # keep the hardware's own prefetching going.
    PREFETCHED_BYTES_MIN = 256
    PREFETCHED_BYTES_MAX = 2048

cdef const unsigned char* NO_HEADERS = b"\x00"
# The default of `headers`, told from others at once.
cdef tuple NONE_GIVEN = ()
cdef object _KEEP_LOCK = 0
cdef object _APPENDED = AppendResult.APPENDED
cdef object _NEED_CHUNKS = AppendResult.NEED_CHUNKS
cdef object _BATCH_FULL = AppendResult.BATCH_FULL


@cython.no_gc
cdef class BatchBuilder:
    """One batch under construction. No cycle goes through it.

    Args:
        chain: Its memory; the builder's owner is the chain's first holder.
        limit_bytes: Uncompressed size, header included, past which no second record is taken; at
            most 2,147,483,647, so that neither the length nor the count of records overflows.
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
        """Whether the limit is reached, so that no further record would be taken."""
        return self.size_bytes >= self.limit_bytes

    # The interpreter calls a plain method faster than one that knows its signature.
    @cython.binding(False)
    def try_append(self, int64_t timestamp_ms, key, value, headers=()):
        """Append one record, whole or not at all.

        Args:
            timestamp_ms: Milliseconds since 1970.
            key: Bytes-like or None.
            value: Bytes-like or None.
            headers: Pairs of a str and bytes-like or None, or a mapping of them.

        Returns:
            APPENDED; NEED_CHUNKS when the chain is `missing_bytes` too short; BATCH_FULL when the
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
            # Only now: what runs above, such as an iterator of headers, might seal the batch.
            if self.sealed:
                raise ValueError("the batch is sealed; open another")
            _check_size(&record)
            outcome = self.append(&record)
        finally:
            if value_is_viewed:
                PyBuffer_Release(&value_view)
            if key_is_viewed:
                PyBuffer_Release(&key_view)
        # Members made beforehand: turning a number into one costs as much as a small record.
        if outcome == APPENDED:
            return _APPENDED
        return _NEED_CHUNKS if outcome == NEED_CHUNKS else _BATCH_FULL

    @cython.nonecheck(False)
    cdef AppendResult append(self, const RecordFields* record) noexcept nogil:
        """Append one record whose fields the caller has checked; nothing here runs Python code."""
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
        """Ask for the memory of a next record of this size, which mostly is in no near cache."""
        prefetch_lines(
            self._at, min(record_bytes, self._room_bytes, <Py_ssize_t>PREFETCHED_BYTES_MAX)
        )

    @cython.nonecheck(False)
    cdef void _put(self, const unsigned char* source, Py_ssize_t size) noexcept nogil:
        """Copy into the chain across chunk borders; the caller has made sure of the room."""
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
        """Lengthen the chain by a chunk lent by its pool."""
        self.extend(chunk)

    cdef int extend(self, object chunk) except -1:
        self.chain.add(<Chunk>chunk)
        self._spare_bytes += (<Chunk>chunk).capacity_bytes
        return 0

    def seal(self) -> None:
        """Take no more records, and give back the chunks that none has reached."""
        with cython.critical_section(self):
            if not self.sealed:
                self.sealed = True
                self._spare_bytes = 0
                self.chain.trim(self._piece_index + 1)

    def records(self) -> bytes:
        """A copy of the records, uncompressed, without the batch's header."""
        cdef Py_ssize_t size = self.size_bytes - BATCH_OVERHEAD_BYTES
        cdef bytes scratch = PyBytes_FromStringAndSize(NULL, size)
        cdef unsigned char* at = <unsigned char*>PyBytes_AS_STRING(scratch)
        cdef unsigned char* start
        cdef Py_ssize_t index
        cdef Py_ssize_t part
        for index in range(self._piece_index + 1):
            start = self.chain.pieces[index].memory
            part = self.chain.pieces[index].capacity_bytes
            if index == self._piece_index:
                part = self._at - start
            if index == 0:
                start += BATCH_OVERHEAD_BYTES
                part -= BATCH_OVERHEAD_BYTES
            memcpy(at, start, part)
            at += part
        return scratch

    def close(
        self, *, int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=-1,
        int attributes=0,
        compress=None,
    ):
        """Seal the batch and write its header and checksum.

        Args:
            producer_id: −1 without idempotence.
            producer_epoch: −1 without idempotence.
            base_sequence: Sequence of the first record; −1 without idempotence.
            attributes: Codec, transactional and control bits of the header.
            compress: Called once with all records as bytes, when the codec bits are not 0.

        Returns:
            The batch's pieces in order, buffers to be written one after the other, in a list that
            must not be changed. They refer to the chain unless the batch is compressed.

        Raises:
            LocalProtocolError: Closed already, or empty, or codec and `compress` do not agree.
        """
        if self._wire_pieces is not None:
            raise LocalProtocolError("a batch was closed twice")
        if self.record_count == 0:
            raise LocalProtocolError("a batch without records was closed")
        if bool(attributes & CODEC_MASK) != (compress is not None):
            raise LocalProtocolError(f"attributes {attributes:#x} and the compressor do not agree")
        self.seal()
        if compress is None:
            self._close_plain()
        else:
            self._header = bytearray(BATCH_OVERHEAD_BYTES)
            packed = compress(self.records())
            self._wire_pieces = [memoryview(self._header).toreadonly(), packed]
            self.encoded_bytes = BATCH_OVERHEAD_BYTES + len(packed)
        self._write_header(attributes)
        self._write_producer(producer_id, producer_epoch, base_sequence)
        return self._wire_pieces

    cdef int _close_plain(self) except -1:
        """The chunks themselves are the pieces, the last one as far as it is filled."""
        cdef list pieces = []
        cdef Chunk chunk
        # No cycle goes through a part of a chunk: the collector need not walk a list of them.
        untrack(pieces)
        for chunk in self.chain._chunks:
            pieces.append(part_of(chunk, 0, chunk.capacity_bytes))
        (<ChunkPart>pieces[self._piece_index]).size_bytes = self._at - chunk.memory
        self._wire_pieces = pieces
        self.encoded_bytes = self.size_bytes
        return 0

    cdef unsigned char* _header_memory(self) except NULL:
        if self._header is None:
            return self.chain.pieces[0].memory
        return self._header

    cdef int _write_header(self, int attributes) except -1:
        cdef unsigned char* header = self._header_memory()
        store_int64(header + <int>BASE_OFFSET_OFFSET, 0)
        store_int32(
            header + <int>BATCH_LENGTH_OFFSET, <int32_t>(self.encoded_bytes - LOG_OVERHEAD_BYTES)
        )
        store_int32(header + <int>PARTITION_LEADER_EPOCH_OFFSET, -1)
        header[<int>MAGIC_OFFSET] = MAGIC_V2
        store_int16(header + <int>ATTRIBUTES_OFFSET, <int16_t>attributes)
        store_int32(header + <int>LAST_OFFSET_DELTA_OFFSET, self.record_count - 1)
        store_int64(header + <int>BASE_TIMESTAMP_OFFSET, self.base_timestamp_ms)
        store_int64(header + <int>MAX_TIMESTAMP_OFFSET, self.max_timestamp_ms)
        store_int32(header + <int>RECORD_COUNT_OFFSET, self.record_count)
        return 0

    cdef int _write_producer(
        self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    ) except -1:
        cdef unsigned char* header = self._header_memory()
        store_int64(header + <int>PRODUCER_ID_OFFSET, producer_id)
        store_int16(header + <int>PRODUCER_EPOCH_OFFSET, producer_epoch)
        store_int32(header + <int>BASE_SEQUENCE_OFFSET, base_sequence)
        store_int32(header + <int>CRC_OFFSET, <int32_t>self._checksum())
        return 0

    cdef unsigned int _checksum(self) except? 0:
        """Of everything behind it."""
        cdef ChunkPart first
        cdef list pieces = self._wire_pieces
        cdef object crc
        cdef Py_ssize_t index
        # The checksum is computed under the interpreter lock: giving that up for microseconds can
        # cost milliseconds to get it back behind a busy caller.
        if self._header is None:
            first = <ChunkPart>pieces[0]
            crc = crc32c(part_of(first.chunk, ATTRIBUTES_OFFSET, first.size_bytes), 0, _KEEP_LOCK)
        else:
            crc = crc32c(pieces[0][<int>ATTRIBUTES_OFFSET:], 0, _KEEP_LOCK)
        for index in range(1, PyList_GET_SIZE(pieces)):
            crc = crc32c(pieces[index], crc, _KEEP_LOCK)
        return crc

    def pieces(self) -> list:
        """The closed batch's pieces, in order.

        Raises:
            LocalProtocolError: The batch is not closed.
        """
        if self._wire_pieces is None:
            raise LocalProtocolError("a batch's pieces were asked for before it was closed")
        return list(self._wire_pieces)

    def rewrite_producer(
        self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    ) -> None:
        """Give a closed batch another producer id, epoch and sequence, and its checksum anew.

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
    """Refuse a record that no batch could hold: the batch's own length is a signed int32."""
    # No part reaches 2^62, so that the sum is exact.
    cdef Py_ssize_t size = (
        max(record.key_bytes, 0) + max(record.value_bytes, 0) + record.headers_bytes
    )
    if size > RECORD_PARTS_BYTES_MAX:
        raise ValueError(
            f"a record of {size} bytes is larger than any batch, {BATCH_BYTES_MAX} bytes"
        )
    return 0


cdef bytes encode_header_section(object headers, Py_ssize_t bytes_max):
    """The header section of a record, count included; the caller's bytes are copied.

    None if it would be longer than `bytes_max`; of an iterator no more is read than shows that.
    """
    cdef list pairs
    cdef Py_ssize_t count
    cdef Py_ssize_t size
    cdef Py_ssize_t index
    cdef Py_ssize_t name_bytes
    cdef const char* name
    cdef bytes section
    cdef unsigned char* at
    # A copy, in either case: another thread may change the caller's list.
    if PyList_CheckExact(headers):
        pairs = PyList_GetSlice(headers, 0, PyList_GET_SIZE(headers))
    else:
        pairs = _pairs_of(headers, bytes_max)
    count = PyList_GET_SIZE(pairs)
    size = varint_size(<int32_t>count)
    # Sizes first, so that the section is allocated once. The texts keep their UTF-8 themselves.
    for index in range(count):
        if not _is_plain(<object>PyList_GET_ITEM(pairs, index)):
            pairs[index] = _checked_header(pairs[index])
        pair = <tuple>PyList_GET_ITEM(pairs, index)
        PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_bytes)
        size += varint_size(<int32_t>name_bytes) + name_bytes
        size += _value_size(<object>PyTuple_GET_ITEM(pair, 1))
        if size > bytes_max:
            return None
    section = PyBytes_FromStringAndSize(NULL, size)
    at = put_varint(<unsigned char*>PyBytes_AS_STRING(section), <int32_t>count)
    for index in range(count):
        pair = <tuple>PyList_GET_ITEM(pairs, index)
        name = PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_bytes)
        at = put_varint(at, <int32_t>name_bytes)
        memcpy(at, name, name_bytes)
        at = _put_value(at + name_bytes, <object>PyTuple_GET_ITEM(pair, 1))
    return section


cdef list _pairs_of(object headers, Py_ssize_t bytes_max):
    """The headers of a mapping, a tuple or any iterable, up to the first that passes the limit."""
    cdef list pairs = []
    cdef Py_ssize_t size = 0
    try:
        given = iter(headers.items() if hasattr(headers, "items") else headers)
    except TypeError:
        raise TypeError(
            f"headers must be pairs of str and bytes-like, or a mapping of them,"
            f" got {type(headers).__name__}"
        ) from None
    # One by one, without a look at `__len__`: an iterator may never end, and a length may lie.
    for pair in given:
        pair = pair if _is_plain(pair) else _checked_header(pair)
        pairs.append(pair)
        # Two lengths, each of at least a byte.
        size += 2 + len((<tuple>pair)[0]) + len((<tuple>pair)[1] or b"")
        if size > bytes_max:
            break
    return pairs


cdef inline bint _is_plain(object pair) noexcept:
    """Whether it is a tuple of a str and bytes or None, which cannot change any more."""
    if not PyTuple_CheckExact(pair) or PyTuple_GET_SIZE(pair) != 2:
        return False
    value = <object>PyTuple_GET_ITEM(pair, 1)
    if not PyUnicode_CheckExact(<object>PyTuple_GET_ITEM(pair, 0)):
        return False
    return value is None or PyBytes_CheckExact(value)


cdef inline Py_ssize_t _value_size(object value) noexcept:
    """Encoded size of a header's value, its length included."""
    if value is None:
        return varint_size(-1)
    return varint_size(<int32_t>PyBytes_GET_SIZE(value)) + PyBytes_GET_SIZE(value)


cdef inline unsigned char* _put_value(unsigned char* at, object value) noexcept:
    if value is None:
        return put_varint(at, -1)
    at = put_varint(at, <int32_t>PyBytes_GET_SIZE(value))
    memcpy(at, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return at + PyBytes_GET_SIZE(value)


cdef tuple _checked_header(object pair):
    """A header as a pair of str and bytes or None, or the error that says what is wrong."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            f"a header must be a pair (str, bytes-like or None), got {type(pair).__name__}"
        )
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"a header's key must be str, got {type(name).__name__}")
    if value is not None and not isinstance(value, bytes):
        if isinstance(value, str):
            raise TypeError(
                f"the value of header {name!r:.80} must be bytes-like or None, got str:"
                " encode it first"
            )
        try:
            value = bytes(memoryview(value))
        except TypeError:
            raise TypeError(
                f"the value of header {name!r:.80} must be bytes-like or None, got"
                f" {type(value).__name__}"
            ) from None
    return name, value


cpdef Py_ssize_t record_size_bound(
    Py_ssize_t key_bytes, Py_ssize_t value_bytes, Py_ssize_t headers_bytes
) noexcept:
    """Upper bound of the size of a batch with this record alone.

    Args:
        key_bytes: −1 for null.
        value_bytes: −1 for null.
        headers_bytes: Of the encoded header section, its count included; 1 without headers.

    Source: Kafka AbstractRecords.estimateSizeInBytesUpperBound (clients 4.3.1).
    """
    return (
        <Py_ssize_t>BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES_MAX
        + varint_size(<int32_t>key_bytes) + max(key_bytes, 0)
        + varint_size(<int32_t>value_bytes) + max(value_bytes, 0) + headers_bytes
    )
