"""Blocks of a fetch response: records one by one, and as Arrow columns."""

import contextlib
import random

import pyarrow as pa

from kprod._core.arrow.arrow_records import ArrowColumns
from kprod.errors import CorruptRecord
from kprod.record.blocks import ConsumerRecord, PartitionStamp, RecordBlock
from tests.fuzz import batch_target, message_set_target
from tests.fuzz.target import FindingError, Target, exact, planted, signature

OUTPUT_BYTES_MAX = 1 << 20
STAMP = PartitionStamp("orders", 3)
LARGE = 1 << 40


def seeds() -> list[bytes]:
    """Batches and messages, alone and after one another."""
    batches, messages = batch_target.seeds(), message_set_target.seeds()
    return [*batches, *messages, batches[0] + messages[0] + batches[7], messages[3] + batches[11]]


def entry_twice(rng: random.Random, content: bytes) -> bytes:
    """Put an input behind itself, or behind a part of itself."""
    return content[: rng.randrange(len(content) + 1)] + content


def block_of(content: bytes, **options: bool) -> RecordBlock:
    """Open an input; transactions of producer 5 were aborted."""
    return RecordBlock(
        exact(content),
        STAMP,
        0,
        aborted=[(5, 0)],
        read_committed=True,
        check_crcs=False,
        max_decompressed=OUTPUT_BYTES_MAX,
        **options,
    )


def check(content: bytes) -> str:
    """All ways must give the same records, and may end with CorruptRecord only."""
    records = block_of(content)
    taken, outcome = _taken(records, 3)
    views, view_outcome = _taken(block_of(content, as_views=True), 1)
    if (views, view_outcome) != (taken, outcome):
        raise FindingError(f"views differ: {outcome}, {view_outcome}")
    offsets = [row[0] for row in taken]
    if offsets != sorted(set(offsets)):
        raise FindingError(f"offsets do not ascend: {offsets}")
    columns = block_of(content)
    rows, column_outcome = _rows(columns)
    if rows != taken[: len(rows)]:
        raise FindingError(f"columns differ: {outcome}, {column_outcome}")
    if "header key is not" not in column_outcome and (len(rows), columns.next_offset) != (
        len(taken),
        records.next_offset,
    ):
        raise FindingError(f"columns end elsewhere: {outcome}, {column_outcome}")
    return f"{min(len(taken), 3)} records, {outcome}"


def _taken(block: RecordBlock, count: int) -> tuple[list[tuple[int, bytes, bytes]], str]:
    found = []
    try:
        while not block.exhausted:
            for record in block.take(count):
                found.append((record.offset, bytes(record.key or b""), bytes(record.value or b"")))
                _read_headers(record)
    except CorruptRecord as error:
        return found, signature(error)
    return found, "exhausted"


def _read_headers(record: ConsumerRecord) -> None:
    with contextlib.suppress(CorruptRecord):  # a key that is no text; the record can be read
        for key, _ in record.headers:
            key.encode()


def _rows(block: RecordBlock) -> tuple[list[tuple[int, bytes, bytes]], str]:
    columns = ArrowColumns(leader_epoch=True, timestamp_type=True)
    outcome = "exhausted"
    try:
        while not block.exhausted:
            columns.append(block, 2, LARGE)
    except CorruptRecord as error:
        outcome = signature(error)
    table = pa.record_batch(columns)
    table.validate(full=True)
    rows = zip(
        *(table.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True
    )
    return [(offset, key or b"", value or b"") for offset, key, value in rows], outcome


TARGET = Target(
    name="block",
    seeds=seeds,
    mutators=(batch_target.header_field, batch_target.record_number, entry_twice),
    check=check,
    planted=planted("block"),
)
