"""The five codecs behind three functions, and the levels each takes.

Thread-safety: the functions from any thread; a callable from `compressor` belongs to one thread at
a time.
Source: KIP-390 and Kafka's CompressionType (clients 4.3.1) for codecs and levels.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from kprod.compression import gzip, lz4, snappy, zstd
from kprod.compression.limits import DECOMPRESSED_BYTES_MAX, Buffer
from kprod.errors import ConfigError, CorruptRecord, UnsupportedCodec
from kprod.model import Codec

_MAGIC_V0 = 0
_MAGIC_V2 = 2


def _copied(payload: Buffer, _limit_bytes: int) -> bytes:
    return bytes(payload)


class LevelRange(NamedTuple):
    """Which levels a codec takes.

    Attributes:
        minimum: Lowest level of the range.
        maximum: Highest level of the range.
        default: Used when none is given; it may lie outside the range (gzip's −1).
    """

    minimum: int
    maximum: int
    default: int

    def allows(self, level: int) -> bool:
        """Whether the codec takes `level`."""
        return level == self.default or self.minimum <= level <= self.maximum


LEVELS: Mapping[Codec, LevelRange] = MappingProxyType(
    {
        Codec.GZIP: LevelRange(1, 9, -1),
        Codec.LZ4: LevelRange(1, 17, lz4.FAST_LEVEL),
        Codec.ZSTD: LevelRange(-131_072, 22, 3),
    }
)
"""Levels per codec, Java's numbers; none and snappy have no level."""


_READERS: Sequence[Sequence[Callable[[Buffer, int], bytes]]] = (
    (
        _copied,
        gzip.decompress,
        snappy.decompress,
        partial(lz4.decompress, check_header=False),
    ),
    (_copied, gzip.decompress, snappy.decompress, lz4.decompress),
    (_copied, gzip.decompress, snappy.decompress, lz4.decompress, zstd.decompress),
)
"""What reads a block, by the batch's format, then by the codec's number."""


def compressor(
    codec: Codec, level: int | None = None, *, magic: int = _MAGIC_V2
) -> Callable[[Buffer], Buffer]:
    """Bind a codec once, for many batches.

    Args:
        codec: One of the five.
        level: As in `LEVELS`; None takes the codec's default.
        magic: Format of the batches, 0 to 2.

    Returns:
        A function from a batch's records to their compressed form. It returns its argument for
        `Codec.NONE`.

    Raises:
        ConfigError: The codec has no such level.
        UnsupportedCodec: The format has no such codec.

    Thread-safety: the function belongs to one thread at a time.
    """
    if codec is Codec.ZSTD and magic < _MAGIC_V2:
        msg = f"zstd needs record format V2 (brokers since 2.1), not V{magic}"
        raise UnsupportedCodec(msg)
    chosen = _checked_level(codec, level)
    if codec is Codec.NONE:
        return _unchanged
    if codec is Codec.GZIP:
        return partial(gzip.compress, level=chosen)
    if codec is Codec.SNAPPY:
        return snappy.compress
    if codec is Codec.LZ4:
        return partial(lz4.compress_v0 if magic == _MAGIC_V0 else lz4.compress, level=chosen)
    return zstd.Compressor(chosen)


def compress(
    codec: Codec, payload: Buffer, level: int | None = None, *, magic: int = _MAGIC_V2
) -> Buffer:
    """Compress one batch's records.

    Args:
        codec: One of the five.
        payload: The records, uncompressed.
        level: As in `LEVELS`; None takes the codec's default.
        magic: Format of the batch, 0 to 2.

    Returns:
        The compressed records; `payload` itself for `Codec.NONE`.

    Raises:
        ConfigError: The codec has no such level.
        UnsupportedCodec: The format has no such codec.
    """
    return compressor(codec, level, magic=magic)(payload)


def decompress(
    codec: int,
    payload: Buffer,
    *,
    magic: int = _MAGIC_V2,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """Decompress one batch's records, within bounds.

    Args:
        codec: The number in a batch's attributes, 0 to 7; 5 and above mean nothing.
        payload: The whole compressed block.
        magic: Format of the batch, 0 to 2.
        limit_bytes: Most bytes of output; ≥ 0. Past 4 MiB of output, it may also not be more than
            1,000 times the payload.

    Returns:
        The records, uncompressed.

    Raises:
        CorruptRecord: Truncated, malformed, followed by garbage, too large, or a codec that the
            format does not have.
    """
    readers = _READERS[magic]
    if 0 <= codec < len(readers):
        return readers[codec](payload, limit_bytes)
    msg = f"record format V{magic} has no codec {codec}"
    raise CorruptRecord(msg)


def _checked_level(codec: Codec, level: int | None) -> int:
    """The level to use, or the error that names the setting."""
    levels = LEVELS.get(codec)
    name = codec.name.lower()
    if levels is None:
        if level is None:
            return 0
        msg = f"compression {name} has no levels, got level {level}"
        raise ConfigError(msg)
    if level is None:
        return levels.default
    if not levels.allows(level):
        msg = (
            f"compression_{name}_level={level}: must be {levels.minimum} to {levels.maximum}, "
            f"or the default {levels.default}"
        )
        raise ConfigError(msg)
    return level


def _unchanged(payload: Buffer) -> Buffer:
    return payload
