"""Compression of batches: the five codecs, their levels, and bounds on decompression.

Only this package imports codec libraries. A whole batch is compressed in one call, which gives up
the GIL (snappy once per block of 256 KiB). Reading never trusts a declared length;
see `kprod.compression.limits`.

Thread-safety: see `kprod.compression.codecs`.
"""

from kprod.compression.codecs import compress, compressor, decompress
from kprod.compression.limits import DECOMPRESSED_BYTES_MAX, Buffer

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "Buffer",
    "compress",
    "compressor",
    "decompress",
]
