"""Message sets (record formats V0 and V1), with codecs filled in.

`kprod._core` knows no codec; this module hands it those of `kprod.compression`, which
bound what a wrapper may decompress to.

Thread-safety: a reader belongs to one thread at a time; the functions are pure.
Source: Kafka LegacyRecord and AbstractLegacyRecordBatch (clients 3.9.1).
"""

from collections.abc import Iterable
from typing import TypeAlias

from kprod._core.record.message_set_builder import encode_message_set
from kprod._core.record.message_set_reader import MessageSetReader
from kprod.compression import Buffer, compress, decompress
from kprod.model import Codec

LegacyRow: TypeAlias = tuple[int, int, bytes | None, bytes | None, *tuple[object, ...]]
"""Offset, timestamp in ms, key, value; what follows is not looked at, so a `Record` is one."""


def read_message_set(buffer: Buffer, *, check_crc: bool = True) -> MessageSetReader:
    """Iterate the entries of a message set; each gives its records.

    Args:
        buffer: Any number of messages after one another, the last perhaps cut off.
        check_crc: False skips checksums; `MessageEntry.is_intact` computes them one by one.

    Returns:
        The iterator of `MessageEntry`. When it is over, its `trailing_bytes` says how many bytes of
        a message cut off are left.
    """
    return MessageSetReader(buffer, decompress=_decompress, check_crc=check_crc)


def write_message_set(
    records: Iterable[LegacyRow],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Write records as a message set; headers are dropped, in V0 timestamps too.

    Args:
        records: Offset, timestamp (ms), key, value each; offsets ascend, gaps stay.
        magic: 0 or 1.
        codec: With one, all records go into a single wrapper message.
        log_append_time_ms: With V1, the timestamp that the broker sets on the records.

    Returns:
        The message set; empty for no records.

    Raises:
        UnsupportedCodec: zstd, which these formats lack.
        RecordTooLarge: A message or the wrapper would not fit a 32-bit size.
        LocalProtocolError: The magic is not 0 or 1, or offsets do not ascend.
    """
    return encode_message_set(
        records,
        magic=magic,
        codec=codec,
        compress=_compress,
        log_append_time_ms=log_append_time_ms,
    )


def _decompress(codec: int, payload: memoryview, magic: int) -> bytes:
    return decompress(codec, payload, magic=magic)


def _compress(codec: int, payload: bytes, magic: int) -> Buffer:
    return compress(Codec(codec), payload, magic=magic)
