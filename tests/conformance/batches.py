"""Batches as the oracle writes them, sound ones and spoilt ones."""

import struct

from kprod.clock import SystemClock
from tests.oracle.crc32c import crc32c
from tests.oracle.record_v2 import RecordInput, encode_batch

CODEC_AT = 22
NOW_MS = SystemClock().timestamp_ms()
HOUR_MS = 3_600_000


def rows(count: int = 3, *, timestamp_ms: int = NOW_MS) -> list[RecordInput]:
    """Some records, a millisecond apart."""
    return [
        (timestamp_ms + index, b"k%d" % index, b"v%d" % index, [("h", b"x"), ("n", None)])
        for index in range(count)
    ]


def spoilt(batch: bytes, at: int, replacement: bytes) -> bytes:
    """Change some bytes and leave the checksum as it was."""
    return batch[:at] + replacement + batch[at + len(replacement) :]


def resealed(batch: bytes, at: int, replacement: bytes) -> bytes:
    """Change some bytes and make the checksum right."""
    changed = spoilt(batch, at, replacement)
    return spoilt(changed, 17, struct.pack(">I", crc32c(changed[21:])))


GOOD = encode_batch(rows())
