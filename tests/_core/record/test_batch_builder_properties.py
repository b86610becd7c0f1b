"""The builder's bytes equal the oracle's, whatever the records and wherever chunks end."""

import random

from hypothesis import given
from hypothesis import strategies as st

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.record.batch_builder import AppendResult, BatchBuilder
from kprod._core.record.compression_buffer import CompressionBuffer
from kprod._core.record.record_size import record_size_bound
from tests.oracle import record_v2

RecordInput = record_v2.RecordInput
HeaderPair = tuple[str, bytes | None]
LIMIT_BYTES = 1 << 22

timestamps = st.one_of(st.integers(-1, 5), st.integers(0, 2**53), st.integers(0, 2**63 - 1))
headers = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), st.none() | st.binary(max_size=9)),
    max_size=4,
)
records = st.tuples(
    timestamps, st.none() | st.binary(max_size=70), st.none() | st.binary(max_size=300), headers
)


def _build(rows: list[RecordInput], *, small: int, large: int) -> BatchBuilder:
    pool = ChunkPool(
        LIMIT_BYTES + large, small_chunk_bytes=small, large_chunk_bytes=large, poisons=True
    )
    chain = pool.try_chain()
    assert chain is not None
    builder = BatchBuilder(chain, LIMIT_BYTES)
    for row in rows:
        while (result := builder.try_append(*row)) is AppendResult.NEED_CHUNKS:
            chunk = pool.try_chunk()
            assert chunk is not None
            builder.add_chunk(chunk)
        assert result is AppendResult.APPENDED
    return builder


def _random_record(source: random.Random) -> RecordInput:
    def maybe_bytes(size_max: int) -> bytes | None:
        return None if source.random() < 0.15 else source.randbytes(source.randrange(size_max))

    row_headers: list[HeaderPair] = [
        (source.choice(["", "h", "trace-id", "ключ"]), maybe_bytes(40))
        for _ in range(source.choice([0, 0, 0, 1, 3]))
    ]
    timestamp_ms = source.choice([-1, 0, 1_700_000_000_000 + source.randrange(-(10**6), 10**6)])
    size_max = source.choice([2, 130, 130, 3_000])
    return timestamp_ms, maybe_bytes(40), maybe_bytes(size_max), row_headers


@given(
    rows=st.lists(records, min_size=1, max_size=12),
    small=st.integers(64, 200),
    growth=st.integers(0, 300),
    producer=st.tuples(
        st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)
    ),
)
def test_shaped_records_equal_the_oracle(
    rows: list[RecordInput], small: int, growth: int, producer: tuple[int, int, int]
) -> None:
    """Nulls, empties, negative deltas, repeated header keys, chunk borders anywhere."""
    producer_id, producer_epoch, base_sequence = producer
    builder = _build(rows, small=small, large=small + growth)
    encoded = b"".join(
        builder.close(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
        )
    )
    assert encoded == record_v2.encode_batch(
        rows, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    assert builder.size_bytes == builder.encoded_bytes == len(encoded)


@given(seed=st.integers(0, 2**32 - 1))
def test_ten_thousand_random_records_equal_the_oracle(seed: int) -> None:
    """34 records an example, 300 examples; sizes up to several chunks."""
    source = random.Random(seed)
    rows = [_random_record(source) for _ in range(34)]
    encoded = b"".join(_build(rows, small=2048, large=16384).close())
    assert encoded == record_v2.encode_batch(rows)


@given(row=records)
def test_the_size_bound_holds_for_one_record(row: RecordInput) -> None:
    """The size that is compared with the limits is never below the true one."""
    timestamp_ms, key, value, row_headers = row
    builder = _build([row], small=2048, large=16384)
    headers_only = _build([(timestamp_ms, None, None, row_headers)], small=2048, large=16384)
    section = len(headers_only.records(CompressionBuffer()))
    bound = record_size_bound(
        -1 if key is None else len(key), -1 if value is None else len(value), section
    )
    assert builder.size_bytes <= bound
