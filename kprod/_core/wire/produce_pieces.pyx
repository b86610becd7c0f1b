# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The short byte runs between the record pieces of a Produce frame, written in one pass.

A record that is sent alone pays for its whole request, so the code that runs once per topic and
partition is compiled. `kprod.protocol.produce_frame` writes the other fields and checks the names.

Thread-safety: any thread; a function of its arguments.
Source: Kafka's ProduceRequest definition (kafka-clients 4.3.1), KIP-482.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from kprod._core.endian cimport store_int32
from kprod._core.varint cimport put_unsigned

from kprod.errors import LocalProtocolError

cdef enum:
    INT32_BYTES = 4
    UVARINT_BYTES_MAX = 10
    CORRELATION_ID_OFFSET = 8  # after the size prefix, API key and version
    FRAME_BYTES_MAX = 0x7FFFFFFF  # the size prefix is an int32


def produce_pieces(bytes opening not None, correlation_id, topics, bint flexible) -> list:
    """Write a Produce frame.

    Args:
        opening: All bytes before the topics, starting with four bytes for the size; the correlation
            id in it is overwritten.
        correlation_id: An int32, ≥ 0.
        topics: Pairs of the topic's encoded name or id, and its partitions, each of which begins
            with its index, its pieces and their total length.
        flexible: Whether lengths are compact and tags follow.

    Returns:
        The frame's pieces in order; the pieces of records are the same objects as in `topics`.

    Raises:
        LocalProtocolError: A number is out of range, pieces do not have their announced length, or
            the frame would be too long.
    """
    cdef list frame = []
    cdef bytearray first = bytearray(opening)
    cdef bytearray run = first
    cdef int64_t size_bytes = 0
    cdef Py_ssize_t records_bytes
    if PyBytes_GET_SIZE(opening) < CORRELATION_ID_OFFSET + INT32_BYTES:
        raise LocalProtocolError(f"an opening of {len(opening)} bytes has no correlation id")
    store_int32(
        <unsigned char*>PyByteArray_AS_STRING(run) + CORRELATION_ID_OFFSET,
        _checked_int32("correlation_id", correlation_id),
    )
    _add_length(run, len(topics), flexible)
    for name, partitions in topics:
        _add_bytes(run, name)
        _add_length(run, len(partitions), flexible)
        for index, pieces, announced_bytes in partitions:
            records_bytes = _checked_size(index, pieces, announced_bytes)
            _add_int32(run, _checked_int32("partition_index", index))
            _add_length(run, records_bytes, flexible)
            frame.append(run)
            frame.extend(pieces)
            size_bytes += PyByteArray_GET_SIZE(run) + records_bytes
            run = bytearray()
            _add_no_tags(run, flexible)
        _add_no_tags(run, flexible)
    _add_no_tags(run, flexible)
    if PyByteArray_GET_SIZE(run) > 0:
        frame.append(run)
        size_bytes += PyByteArray_GET_SIZE(run)
    size_bytes -= INT32_BYTES
    if size_bytes > FRAME_BYTES_MAX:
        raise LocalProtocolError(
            f"a Produce frame of {size_bytes} bytes exceeds {FRAME_BYTES_MAX}"
        )
    store_int32(<unsigned char*>PyByteArray_AS_STRING(first), <int32_t>size_bytes)
    return frame


cdef Py_ssize_t _checked_size(object index, object pieces, object announced_bytes) except -1:
    cdef Py_ssize_t size_bytes = 0
    for piece in pieces:
        size_bytes += len(piece)
    if size_bytes != announced_bytes:
        raise LocalProtocolError(
            f"the records for partition {index} are {size_bytes} bytes, but"
            f" {announced_bytes} were announced"
        )
    return size_bytes


cdef int32_t _checked_int32(str field, object number) except? -1:
    if not 0 <= number <= 0x7FFFFFFF:
        raise LocalProtocolError(f"Produce {field}: {number} does not fit 4 bytes")
    return <int32_t>number


cdef int _add_length(bytearray run, Py_ssize_t count, bint flexible) except -1:
    """Append a count or a size: plain, or compact, which starts from 1."""
    cdef unsigned char[UVARINT_BYTES_MAX] room
    if not flexible:
        return _add_int32(run, _checked_int32("length", count))
    return _add(run, room, put_unsigned(room, <uint64_t>count + 1) - room)


cdef int _add_int32(bytearray run, int32_t number) except -1:
    cdef unsigned char[INT32_BYTES] room
    store_int32(room, number)
    return _add(run, room, INT32_BYTES)


cdef int _add_bytes(bytearray run, bytes text) except -1:
    return _add(run, <const unsigned char*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef int _add_no_tags(bytearray run, bint flexible) except -1:
    return _add(run, b"\x00", 1) if flexible else 0


cdef int _add(bytearray run, const unsigned char* start, Py_ssize_t count_bytes) except -1:
    cdef Py_ssize_t offset = PyByteArray_GET_SIZE(run)
    PyByteArray_Resize(run, offset + count_bytes)
    memcpy(PyByteArray_AS_STRING(run) + offset, start, count_bytes)
    return 0
