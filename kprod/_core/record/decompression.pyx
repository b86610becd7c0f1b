# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Calls the function that decompresses batches, which lies in a layer above.

Thread-safety: any thread; `register_decompressor` before everything else.
"""

cimport cython

from kprod._core.layout cimport MAGIC_V2

# Takes codec, payload, magic and the most bytes of output.
cdef object _decompressor = None


def register_decompressor(decompressor):
    """Register the function that decompresses batches.

    Args:
        decompressor: Takes codec number, compressed bytes, magic, and the maximum size of the
            result.
    """
    global _decompressor
    _decompressor = decompressor


@cython.final
cdef class Decompression:
    """Decompresses batches up to a size.

    Args:
        bytes_max: Maximum size of a decompressed batch.
    """

    def __init__(self, Py_ssize_t bytes_max):
        self._bytes_max = bytes_max

    def __call__(self, codec, payload, magic=MAGIC_V2):
        return _decompressor(codec, payload, magic, self._bytes_max)


usual_decompression = Decompression(DECOMPRESSED_BYTES_MAX)
