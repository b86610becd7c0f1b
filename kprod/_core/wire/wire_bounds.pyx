# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Limits on the contents of a response, which follow from its request.

Python objects take up to a hundred times the memory of the bytes that they are read from, so a
response is read under such limits (`wire_reader`).

Thread-safety: bounds are immutable after construction.
"""

from libc.stdint cimport int64_t


cdef class Bounds:
    """Limits on the contents of a response, which follow from its request.

    Args:
        memory_bytes: Maximum memory for the decoded fields, in addition to the size of the input.
        totals: Maximum number of an array's elements in the whole message, by the array's name.
        chosen: By the name of an array of structures: the name of one of their fields, and its
            wanted values. Elements with other values are skipped.
        element_bytes: Memory that each element of an array adds, by the array's name.
        unread: Names of fields that are skipped; they decode to their default, arrays to None.
    """

    def __cinit__(
        self, *, int64_t memory_bytes=0, totals=None, chosen=None, element_bytes=None, unread=()
    ):
        self.memory_bytes = memory_bytes
        self.totals = dict(totals or {})
        self.chosen = dict(chosen or {})
        self.element_bytes = dict(element_bytes or {})
        self.unread = frozenset(unread)
