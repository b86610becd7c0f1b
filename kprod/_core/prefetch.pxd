# Prefetching memory that is about to be written: a hint to the processor. Inline only, so there is
# no .pyx.

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define kprod_prefetch_write(at) __builtin_prefetch((at), 1)
    #else
    #define kprod_prefetch_write(at) ((void)(at))
    #endif
    """
    void prefetch_line "kprod_prefetch_write"(const void* at) noexcept nogil


cdef enum:
    CACHE_LINE_BYTES = 64


# Any address is allowed: the prefetch of an unmapped one has no effect.
cdef inline void prefetch_lines(const void* at, Py_ssize_t size_bytes) noexcept nogil:
    cdef Py_ssize_t offset = 0
    while offset < size_bytes:
        prefetch_line(<const char*>at + offset)
        offset += <int>CACHE_LINE_BYTES
