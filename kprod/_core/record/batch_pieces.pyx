# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The bytes of a batch as a list of buffers, in the order in which they are sent.

The pieces are the chunks of the batch's chain, header included; or the header and the compressed
records, if compression has made them longer than the chain.

Thread-safety: none of its own; a closed batch belongs to the sender.
Source: Kafka DefaultRecordBatch (clients 4.3.1) for the bytes that the checksum covers.
"""

from cpython.list cimport PyList_GET_SIZE

from kprod._core.memory.chunk cimport Chunk, ChunkPart, part_of
from kprod._core.memory.chunk_pool cimport ChunkChain
from kprod._core.collector cimport untrack
from kprod._core.checksum cimport crc32c
from kprod._core.layout cimport ATTRIBUTES_OFFSET


cdef list chunk_parts(ChunkChain chain, Py_ssize_t piece_count, const unsigned char* end):
    """Return the first chunks as pieces; the records end at `end` in the last of them."""
    cdef list pieces = []
    cdef Chunk chunk
    cdef Py_ssize_t index
    # No reference cycle goes through these parts: the collector need not traverse their list.
    untrack(pieces)
    for index in range(piece_count):
        chunk = <Chunk>chain._chunks[index]
        pieces.append(part_of(chunk, 0, chunk.capacity_bytes))
    (<ChunkPart>pieces[PyList_GET_SIZE(pieces) - 1]).size_bytes = end - chunk.memory
    return pieces


cdef unsigned int checksum_of(list pieces) except? 0:
    """Return the CRC-32C of a closed batch, from its attributes to its end."""
    cdef ChunkPart part
    cdef object crc
    cdef Py_ssize_t index
    # The GIL is kept during the checksum: once released for microseconds, it can take milliseconds
    # to reacquire it while another thread is busy.
    if isinstance(pieces[0], ChunkPart):
        part = <ChunkPart>pieces[0]
        crc = crc32c(part_of(part.chunk, ATTRIBUTES_OFFSET, part.size_bytes), 0)
    else:
        crc = crc32c(pieces[0][<int>ATTRIBUTES_OFFSET:], 0)
    for index in range(1, PyList_GET_SIZE(pieces)):
        crc = crc32c(pieces[index], crc)
    return crc
