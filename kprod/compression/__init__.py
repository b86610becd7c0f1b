"""Compression of batches: the five codecs, their levels, and bounds on decompression.

Only this package imports codec libraries. A whole batch is compressed in one call, which releases
the GIL (snappy once for each block of 1 MiB). Reading never trusts a declared length; see
`kprod.compression.limits`.

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
