"""The five codecs behind three functions, and the levels each takes.

Thread-safety: the functions from any thread; a callable from `compressor` belongs to one thread at
a time.
A codec's library is imported when the codec is first used: a program pays for those that it uses.

Source: KIP-390 and Kafka's CompressionType (clients 4.3.1) for codecs and levels.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from kprod.compression.limits import DECOMPRESSED_BYTES_MAX, Buffer
from kprod.errors import ConfigError, CorruptRecord, UnsupportedCodec
from kprod.model import CODECS, Codec, CodecFacts

_MAGIC_V0 = 0
_MAGIC_V2 = 2


def _copied(payload: Buffer, _limit_bytes: int) -> bytes:
    return bytes(payload)


class _Coder(NamedTuple):
    """The functions of one codec.

    Attributes:
        bind: Returns a compression function for a level and a record format.
        decompress: Takes a block and the maximum size of the output.
        decompress_v0: The same for format V0.
    """

    bind: Callable[[int, int], Callable[[Buffer], Buffer]]
    decompress: Callable[[Buffer, int], bytes]
    decompress_v0: Callable[[Buffer, int], bytes]


@cache
def _coder(codec: Codec) -> _Coder:
    """Import a codec's library when the codec is first used, and return its functions."""
    match codec:
        case Codec.GZIP:
            from kprod.compression import gzip

            return _Coder(
                lambda level, _magic: partial(gzip.compress, level=level),
                gzip.decompress,
                gzip.decompress,
            )
        case Codec.SNAPPY:
            from kprod.compression import snappy

            return _Coder(
                lambda _level, _magic: snappy.compress, snappy.decompress, snappy.decompress
            )
        case Codec.LZ4:
            from kprod.compression import lz4

            return _Coder(
                lambda level, magic: partial(
                    lz4.compress_v0 if magic == _MAGIC_V0 else lz4.compress, level=level
                ),
                lz4.decompress,
                partial(lz4.decompress, check_header=False),
            )
        case Codec.ZSTD:
            from kprod.compression import zstd

            return _Coder(
                lambda level, _magic: zstd.Compressor(level), zstd.decompress, zstd.decompress
            )
        case Codec.NONE:
            return _Coder(lambda _level, _magic: _unchanged, _copied, _copied)


@cache
def _reader(codec: int, magic: int) -> Callable[[Buffer, int], bytes]:
    """Return what reads a block, by the codec's number and the batch's format."""
    if codec not in CODECS or CODECS[Codec(codec)].first_magic > magic:
        raise CorruptRecord(f"record format V{magic} has no codec {codec}")
    coder = _coder(Codec(codec))
    return coder.decompress if magic else coder.decompress_v0


def compressor(
    codec: Codec, level: int | None = None, *, magic: int = _MAGIC_V2
) -> Callable[[Buffer], Buffer]:
    """Bind a codec once, for many batches.

    Args:
        codec: One of the five.
        level: One that `CodecFacts.levels` allows; None takes the codec's default.
        magic: Format of the batches, 0 to 2.

    Returns:
        A function from a batch's records to their compressed form. It returns its argument for
        `Codec.NONE`.

    Raises:
        ConfigError: The codec has no such level.
        UnsupportedCodec: The format has no such codec.

    Thread-safety: the function belongs to one thread at a time.
    """
    facts = CODECS[codec]
    if magic < facts.first_magic:
        raise UnsupportedCodec(
            f"{facts.name} needs record format V{facts.first_magic} or newer, not V{magic}"
        )
    return _coder(codec).bind(_checked_level(facts, level), magic)


def compress(
    codec: Codec, payload: Buffer, level: int | None = None, *, magic: int = _MAGIC_V2
) -> Buffer:
    """Compress one batch's records.

    Args:
        codec: One of the five.
        payload: The records, uncompressed.
        level: One that `CodecFacts.levels` allows; None takes the codec's default.
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
        limit_bytes: Maximum size of the output; ≥ 0. Above 4 MiB the output may also not exceed
            1,000 times the payload.

    Returns:
        The records, uncompressed.

    Raises:
        CorruptRecord: Truncated, malformed, followed by garbage, too large, or a codec that the
            format does not have.
    """
    return _reader(codec, magic)(payload, limit_bytes)


def _checked_level(facts: CodecFacts, level: int | None) -> int:
    """The level to use, or the error that names the setting."""
    levels = facts.levels
    if level is None:
        return levels.default
    if not levels:
        raise ConfigError(f"compression {facts.name} has no levels, got level {level}")
    if not levels.allows(level):
        raise ConfigError(
            f"{facts.level_setting}={level}: must be {levels.minimum} to {levels.maximum}, "
            f"or the default {levels.default}"
        )
    return level


def _unchanged(payload: Buffer) -> Buffer:
    return payload
