# cython: language_level=3
"""CRC-32C by the package crc32c, which is imported when it is first needed.

That package reads its own version when it is imported, which costs more than all other imports of a
producer together: a program that imports kprod and sends nothing should not pay for it.

Thread-safety: any thread.
Source: RFC 3720, appendix B.4, for the polynomial.
"""

cdef object _function = None
# Releasing the GIL for microseconds can cost milliseconds to get it back behind a busy caller.
cdef object _KEEP_GIL = 0


def load():
    """Import the package; a producer does it when it is made, not when the first batch is sent."""
    global _function
    if _function is None:
        from crc32c import crc32c
        _function = crc32c


cdef object crc32c(object data, object start):
    """The checksum of a buffer; `start` is the checksum of the bytes before it, or 0."""
    if _function is None:
        load()
    return _function(data, start, _KEEP_GIL)
