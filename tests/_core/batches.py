"""Batches of format V2 that are written by hand: golden bytes, and other records under them."""

import struct

from kprod._core.record.batch_reader import BatchReader, RecordBatch
from kprod.compression import decompress
from tests.oracle import record_v2
from tests.oracle.crc32c import crc32c

# Decoded and CRC-checked by kafka-python.
GOLDEN_PLAIN = bytes.fromhex(
    "00000000000000000000004cffffffff029871a8500000000000010000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff0000000214000000046b30047630001e000a02010476310402680278026e01"
)
GOLDEN_IDEMPOTENT = bytes.fromhex(
    "00000000000000000000004cffffffff0225179f8c0000000000010000018bcfe568000000018bcfe56805"
    "00000000000010920007000000640000000214000000046b30047630001e000a02010476310402680278026e01"
)
BASE_MS = 1_700_000_000_000
GOLDEN_RECORDS = [
    (0, BASE_MS, b"k0", b"v0", ()),
    (1, BASE_MS + 5, None, b"v1", (("h", b"x"), ("n", None))),
]


def batches(buffer: bytes | bytearray | memoryview, *, check_crc: bool = True) -> BatchReader:
    """A reader that knows every codec."""
    return BatchReader(buffer, check_crc=check_crc, decompress=decompress)


def only_batch(buffer: bytes | bytearray, *, check_crc: bool = True) -> RecordBatch:
    """The only batch of a buffer."""
    (batch,) = batches(buffer, check_crc=check_crc)
    return batch


def sealed(head: bytes, records: bytes, *, count: int, last_delta: int | None = None) -> bytes:
    """Golden header fields over other records, with a right length and checksum."""
    fields = struct.pack(">hi", 0, count - 1 if last_delta is None else last_delta)
    covered = fields + head[27:57] + struct.pack(">i", count) + records
    return (
        head[:8]
        + struct.pack(">i", 9 + len(covered))
        + head[12:17]
        + struct.pack(">I", crc32c(covered))
        + covered
    )


def encoded_record(body: bytes) -> bytes:
    """A record of these bytes, its length before them."""
    return record_v2.encode_varint(len(body)) + body


NULL = record_v2.encode_varint(-1)
START = b"\x00\x00\x00"  # attributes, both deltas
