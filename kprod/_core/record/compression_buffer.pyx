# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The memory that a batch's records are copied into, in one piece, to be compressed.

Codecs take their input in one piece, and a batch lies in many chunks. The memory is kept: fresh
memory of a megabyte costs a page fault for each 4 KiB, for some batches more than compression.

Thread-safety: one thread at a time.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.string cimport memcpy

from kprod._core.layout cimport BATCH_OVERHEAD_BYTES
from kprod._core.memory.chunk_pool cimport ChunkChain

cdef enum:
    # Larger batches are rare, and their memory is not kept.
    KEPT_BYTES_MAX = 4 << 20


@cython.final
cdef class CompressionBuffer:
    """Copies the records of batches, one batch after the other."""

    def __cinit__(self):
        self._memory = bytearray()

    cdef object filled(self, ChunkChain chain, Py_ssize_t piece_count, const unsigned char* end):
        """Copy the records in the first chunks, without the batch's header, and return a view.

        The records end at `end` in the last of these chunks. The next call overwrites the view.
        """
        cdef Py_ssize_t size = end - chain.pieces[piece_count - 1].memory - BATCH_OVERHEAD_BYTES
        cdef bytearray memory = self._memory
        cdef unsigned char* target
        cdef unsigned char* start
        cdef Py_ssize_t part
        cdef Py_ssize_t index
        for index in range(piece_count - 1):
            size += chain.pieces[index].capacity_bytes
        if size > PyByteArray_GET_SIZE(memory):
            # A new one, since one that an error's traceback still views cannot be made longer.
            memory = bytearray(size)
            if size <= KEPT_BYTES_MAX:
                self._memory = memory
        target = <unsigned char*>PyByteArray_AS_STRING(memory)
        for index in range(piece_count):
            start = chain.pieces[index].memory
            part = chain.pieces[index].capacity_bytes
            if index == piece_count - 1:
                part = end - start
            if index == 0:
                start += BATCH_OVERHEAD_BYTES
                part -= BATCH_OVERHEAD_BYTES
            memcpy(target, start, part)
            target += part
        return memoryview(memory)[:size]
