"""Batches of V2 whose bytes a test has changed, made believable again."""

import struct

from tests.oracle.crc32c import crc32c

ATTRIBUTES, CRC, COUNT, RECORDS = 21, 17, 57, 61  # positions in a batch


def sealed(batch: bytes) -> bytes:
    """A batch with the length and the checksum that it needs to be believed."""
    body = batch[ATTRIBUTES:]
    return (
        batch[:8]
        + struct.pack(">i", len(batch) - 12)
        + batch[12:CRC]
        + struct.pack(">I", crc32c(body))
        + body
    )
