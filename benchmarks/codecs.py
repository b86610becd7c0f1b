"""Compares the codecs with the libraries that they use, on the same blocks.

Each library is called as its documentation shows, with the same level, on the same bytes: for
snappy the 256 KiB blocks of a batch without any framing, for zstd with one context that is used
again. CPU time of the calling thread is measured. The payload is what batches hold: small JSON
documents with some repetition.
"""

import random
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import lz4.frame
import snappy
import zstandard
from report import Contestant, Report, main
from report_values import Metric

from kprod.compression import compressor, decompress
from kprod.model import Codec

BATCH_BYTES = 1_000_000
SNAPPY_BLOCK_BYTES = 256 * 1024
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
Pack = Callable[[bytes], object]


def payload(size_bytes: int) -> bytes:
    """Make documents as applications send them."""
    rng = random.Random(20)
    words = [rng.randbytes(6).hex() for _ in range(400)]
    documents = []
    total = 0
    while total < size_bytes:
        number, word = rng.randrange(10**9), rng.choice(words)
        documents.append(b'{"id":%d,"name":"%s","ok":true}' % (number, word.encode()))
        total += len(documents[-1])
    return b"".join(documents)[:size_bytes]


def library_packers() -> dict[Codec, Pack]:
    """Each library alone, compressing."""
    context = zstandard.ZstdCompressor(level=3)
    return {
        Codec.GZIP: _gzip,
        Codec.SNAPPY: _snappy_pieces,
        Codec.LZ4: _lz4_frame,
        Codec.ZSTD: context.compress,
    }


def library_unpackers(block: bytes) -> dict[Codec, Callable[[], object]]:
    """Each library alone, decompressing what it made of `block`."""
    gzip, pieces, frame = _gzip(block), _snappy_pieces(block), _lz4_frame(block)
    zstd = zstandard.ZstdCompressor(level=3).compress(block)
    return {
        Codec.GZIP: lambda: zlib.decompress(gzip, wbits=31),
        Codec.SNAPPY: lambda: b"".join([snappy.uncompress(piece) for piece in pieces]),
        Codec.LZ4: lambda: lz4.frame.decompress(frame),
        Codec.ZSTD: lambda: zstandard.ZstdDecompressor().decompress(zstd),
    }


def benchmark(report: Report) -> None:
    """Compress and decompress with every codec, kprod beside the library."""
    repeats = report.pick(40, 4)
    for size_bytes in (16_384, BATCH_BYTES):
        block = payload(size_bytes)
        count = repeats * BATCH_BYTES // size_bytes
        packers, unpackers = library_packers(), library_unpackers(block)
        for codec in CODECS:
            pack = compressor(codec)
            packed = pack(block)
            compare = [
                ("compress", _bound(pack, block), _bound(packers[codec], block)),
                ("decompress", _bound(partial(decompress, codec), packed), unpackers[codec]),
            ]
            for name, ours, theirs in compare:
                report.compare(
                    [
                        Contestant("kprod", _cpu_rate(ours, count, size_bytes)),
                        Contestant("library", _cpu_rate(theirs, count, size_bytes)),
                    ],
                    metric=Metric(
                        f"{codec.name.lower()} {name} {size_bytes // 1000} kB", "B/CPU s"
                    ),
                    baseline="library",
                )


def _gzip(block: bytes) -> bytes:
    return zlib.compress(block, -1, wbits=31)


def _snappy_pieces(block: bytes) -> list[bytes]:
    view = memoryview(block)
    starts = range(0, len(view), SNAPPY_BLOCK_BYTES)
    return [snappy.compress(view[at : at + SNAPPY_BLOCK_BYTES]) for at in starts]


def _lz4_frame(block: bytes) -> bytes:
    frame: bytes = lz4.frame.compress(
        block, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return frame


def _bound(call: Callable[[Any], object], argument: object) -> Callable[[], object]:
    return lambda: call(argument)


def _cpu_rate(once: Callable[[], object], count: int, size_bytes: int) -> Callable[[], float]:
    """Bytes per second of this thread's CPU time, which busy neighbours do not stretch."""

    def measure() -> float:
        started_s = time.thread_time()
        for _ in range(count):
            once()
        return count * size_bytes / (time.thread_time() - started_s)

    return measure


if __name__ == "__main__":
    main("Codecs beside their libraries", benchmark)
