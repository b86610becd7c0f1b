# cython: language_level=3
"""Java's hash code of a text, by which Kafka divides groups among partitions.

It is compiled because a client chooses the text: one request of 100 MiB may name thousands of
groups of 32 KiB, which interpreted code would hash for seconds, while no other client is served.

Thread-safety: any thread.
Source: java.lang.String.hashCode, which takes a text's UTF-16 units.
"""

from libc.stdint cimport int32_t, uint32_t


cpdef object java_hash(str text):
    """Return the hash code of a text.

    Args:
        text: Any text; O(its length).

    Returns:
        From −2³¹ to 2³¹ − 1.
    """
    cdef uint32_t value = 0
    cdef uint32_t point
    cdef Py_UCS4 character
    for character in text:
        point = <uint32_t>character
        if point > 0xFFFF:
            value = 31 * value + 0xD800 + ((point - 0x10000) >> 10)
            value = 31 * value + 0xDC00 + ((point - 0x10000) & 0x3FF)
        else:
            value = 31 * value + point
    return <int32_t>value
