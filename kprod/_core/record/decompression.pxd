# How the records of a batch are decompressed.

cdef enum:
    DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024


cdef class Decompression:
    cdef Py_ssize_t _bytes_max


# Up to DECOMPRESSED_BYTES_MAX.
cdef Decompression usual_decompression
