"""Message sets of formats V0 and V1."""

import random
import struct

from kprod._core.record.message_set_builder import encode_message_set
from kprod._core.record.message_set_reader import MessageSetReader
from kprod.compression import Buffer, compress, decompress
from kprod.errors import CorruptRecord
from kprod.model import Codec
from tests.fuzz.target import INTERESTING, FindingError, Target, exact, planted, signature

OUTPUT_BYTES_MAX = 1 << 20
SIZE_OFFSET = 8
# Where a first message's numbers of 32 bits stand: its size, and the key's in V0 and V1.
NUMBERS = (SIZE_OFFSET, 18, 26)


def seeds() -> list[bytes]:
    """Plain and wrapped sets of both formats."""
    rows = [
        (0, 5, b"key", b"value"),
        (1, 6, None, b"v" * 200),
        (2, 7, b"", None),
        (3, -1, b"k" * 150, b""),
    ]
    made = [
        encode_message_set(rows[:count], magic=magic, codec=codec, compress=_compress)
        for magic in (0, 1)
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
        for count in (1, 4)
    ]
    stamped = encode_message_set(
        rows, magic=1, codec=Codec.GZIP, compress=_compress, log_append_time_ms=99
    )
    made.append(stamped)
    return [*made, made[0] + made[9], made[3][:-5]]


def number(rng: random.Random, content: bytes) -> bytes:
    """Set one of the sizes of the first message to something remarkable, or next to what it is."""
    place = rng.choice(NUMBERS)
    if len(content) < place + 4:
        return content
    (present,) = struct.unpack_from(">i", content, place)
    wanted = rng.choice((*INTERESTING, present - 1, present + 1, present + 4, present - 4))
    raw = struct.pack(">I", wanted & 0xFFFFFFFF)
    return content[:place] + raw + content[place + 4 :]


def size_put_right(_: random.Random, content: bytes) -> bytes:
    """Make the first message as long as the input."""
    if len(content) < SIZE_OFFSET + 4:
        return content
    size = struct.pack(">i", len(content) - SIZE_OFFSET - 4)
    return content[:SIZE_OFFSET] + size + content[SIZE_OFFSET + 4 :]


def check(content: bytes) -> str:
    """Read all entries and their records; only CorruptRecord may be raised."""
    outcomes = []
    reader = MessageSetReader(exact(content), decompress=_decompress, check_crc=False)
    try:
        for entry in reader:
            outcomes.append(f"codec {entry.codec}, magic {entry.magic}")
            _ = entry.is_intact
            outcomes.append(f"{min(len(list(entry)), 3)} records")
    except CorruptRecord as error:
        outcomes.append(signature(error))
    if not 0 <= reader.position <= len(content):
        raise FindingError(f"position {reader.position} in {len(content)} bytes")
    return " | ".join(outcomes[:4])


def _compress(codec: int, payload: bytes, magic: int) -> Buffer:
    return compress(Codec(codec), payload, magic=magic)


def _decompress(codec: int, payload: memoryview, magic: int) -> memoryview:
    return exact(decompress(codec, payload, magic=magic, limit_bytes=OUTPUT_BYTES_MAX))


TARGET = Target(
    name="message_set",
    seeds=seeds,
    mutators=(number, number, size_put_right),
    check=check,
    planted=planted("message_set"),
)
