"""Record batches of format V2: reader and rewriting."""

import random
import struct

from kprod._core.record.batch_reader import BatchReader, RecordBatch
from kprod._core.record.batch_rewrite import rewrite_log_append_time, rewrite_offsets
from kprod.compression import decompress
from kprod.errors import CorruptRecord
from tests.fuzz.target import INTERESTING, FindingError, Target, Walk, exact, planted, signature
from tests.oracle import codecs, record_v2

# Only small outputs: the sanitizer slows everything.
OUTPUT_BYTES_MAX = 1 << 20
HEADER_FIELDS = (
    (0, ">q"),
    (8, ">i"),
    (12, ">i"),
    (16, ">b"),
    (21, ">h"),
    (23, ">i"),
    (27, ">q"),
    (35, ">q"),
    (43, ">q"),
    (51, ">h"),
    (53, ">i"),
    (57, ">i"),
)
HEADER_BYTES = 61


def seeds() -> list[bytes]:
    """Batches of all codecs, flags and record shapes."""
    shapes: list[list[record_v2.RecordInput]] = [
        [(5, b"k", b"v", [])],
        [(5, None, None, [("h", b"x"), ("n", None), ("", b"")])],
        [(index, b"key%d" % index, b"v" * index, [("t", b"1")]) for index in range(8)],
        [(0, b"k" * 200, b"v" * 300, [("h" * 130, b"x" * 130)])],
        [],
    ]
    made = [record_v2.encode_batch(rows, codec=codec) for rows in shapes for codec in range(5)]
    made += [
        record_v2.encode_batch(
            shapes[1], is_log_append_time=True, is_transactional=True, producer_id=5
        ),
        record_v2.encode_batch(shapes[0], is_control=True, has_delete_horizon=True),
        record_v2.encode_batch(shapes[2], offset_deltas=(0, 2, 3, 5, 8, 9, 10, 2**31 - 1)),
    ]
    return [*made, made[0] + made[6], made[2] + made[10][:70]]


def header_field(rng: random.Random, content: bytes) -> bytes:
    """Set one field of the header to something remarkable."""
    if len(content) < HEADER_BYTES:
        return content
    place, layout = rng.choice(HEADER_FIELDS)
    bits = 8 * struct.calcsize(layout)
    number = rng.choice(INTERESTING) & (2**bits - 1)
    number -= 2**bits if number >= 2 ** (bits - 1) else 0
    changed = bytearray(content)
    struct.pack_into(layout, changed, place, number)
    return bytes(changed)


def record_number(rng: random.Random, content: bytes) -> bytes:
    """Replace a varint among the records by another, with the batch's length put right."""
    opened = _open(content)
    if opened is None or not opened[1]:
        return content
    codec, body = opened
    place = rng.randrange(len(body))
    end = place
    while end < len(body) - 1 and body[end] >= 0x80:
        end += 1
    near = rng.randrange(-3, 4) + (body[place] >> 1)
    number = rng.choice((*INTERESTING, near, near, near))
    varint = record_v2.encode_varint(max(min(number, 2**63 - 1), -(2**63)))
    return _close(content, codec, body[:place] + varint + body[end + 1 :])


def body_byte(rng: random.Random, content: bytes) -> bytes:
    """Change, drop or add a byte of the records before they are compressed again."""
    opened = _open(content)
    if opened is None or not opened[1]:
        return content
    codec, body = opened
    place = rng.randrange(len(body))
    replaced = rng.choice((b"", bytes((rng.randrange(256),)), rng.randbytes(2)))
    return _close(content, codec, body[:place] + replaced + body[place + 1 :])


def _open(content: bytes) -> tuple[int, bytes] | None:
    """Codec and records of the first batch, if they can be had."""
    if len(content) < HEADER_BYTES:
        return None
    codec = content[22] & 7
    try:
        return codec, codecs.decompress(codec, content[HEADER_BYTES:])
    except Exception:  # noqa: BLE001 - whatever a library says about garbage
        return None


def _close(content: bytes, codec: int, body: bytes) -> bytes:
    records = codecs.compress(codec, body)
    length = struct.pack(">i", HEADER_BYTES - 12 + len(records))
    return content[:8] + length + content[12:HEADER_BYTES] + records


def check(content: bytes) -> str:
    """Read everything in every way; the ways must agree, and only CorruptRecord may be raised."""
    outcomes: list[str] = []
    reader = BatchReader(exact(content), check_crc=False, decompress=_decompress)
    try:
        outcomes.extend(_read(batch) for batch in reader)
    except CorruptRecord as error:
        outcomes.append(signature(error))
    if not 0 <= reader.position <= len(content):
        raise FindingError(f"position {reader.position} in {len(content)} bytes")
    return " | ".join([_rewrite(content), *outcomes[:2]])


def _read(batch: RecordBatch) -> str:
    outcomes = []
    batch.has_valid_crc()
    walks: tuple[Walk, ...] = (
        batch.check_records,
        lambda: list(batch),
        lambda: list(batch.tuples()),
    )
    for walk in walks:
        try:
            walk()
        except CorruptRecord as error:
            outcomes.append(signature(error))
        else:
            outcomes.append(f"codec {batch.codec}, {min(batch.record_count, 3)} records")
    if len(set(outcomes)) != 1:
        raise FindingError(f"three ways to read one batch: {outcomes}")
    return outcomes[0]


def _rewrite(content: bytes) -> str:
    buffer = exact(content)
    try:
        rewrite_offsets(buffer, 7, 7)
        rewrite_log_append_time(buffer, 7)
    except CorruptRecord as error:
        return signature(error)
    return "rewritten"


def _decompress(codec: int, payload: memoryview) -> memoryview:
    return exact(decompress(codec, payload, limit_bytes=OUTPUT_BYTES_MAX))


TARGET = Target(
    name="batch",
    seeds=seeds,
    mutators=(header_field, record_number, record_number, body_byte),
    check=check,
    planted=planted("batch"),
)
