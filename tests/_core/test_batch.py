"""The V2 batch builder against the golden bytes, and its refusals."""

import pytest

from kprod._core.batch import AppendResult, BatchBuilder, record_size_bound
from kprod._core.chunks import ChunkPool
from kprod.errors import LocalProtocolError

# Decoded and CRC-checked by kafka-python; record_formats 3.3.
GOLDEN_PLAIN = bytes.fromhex(
    "00000000000000000000004cffffffff029871a8500000000000010000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff0000000214000000046b30047630001e000a02010476310402680278026e01"
)
GOLDEN_IDEMPOTENT = bytes.fromhex(
    "00000000000000000000004cffffffff0225179f8c0000000000010000018bcfe568000000018bcfe56805"
    "00000000000010920007000000640000000214000000046b30047630001e000a02010476310402680278026e01"
)
BASE_MS = 1_700_000_000_000


def _pool(capacity_bytes: int = 1 << 20, *, small: int = 128, large: int = 256) -> ChunkPool:
    return ChunkPool(capacity_bytes, small_chunk_bytes=small, large_chunk_bytes=large, poisons=True)


def _builder(pool: ChunkPool, limit_bytes: int = 1 << 20) -> BatchBuilder:
    chain = pool.try_chain()
    assert chain is not None
    return BatchBuilder(chain, limit_bytes)


def _golden_builder() -> BatchBuilder:
    builder = _builder(_pool())
    assert builder.try_append(BASE_MS, b"k0", b"v0") is AppendResult.APPENDED
    headers = [("h", b"x"), ("n", None)]
    assert builder.try_append(BASE_MS + 5, None, b"v1", headers) is AppendResult.APPENDED
    return builder


def _append(
    builder: BatchBuilder, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> AppendResult:
    result = builder.try_append(timestamp_ms, key, value)
    while result is AppendResult.NEED_CHUNKS:
        chunk = builder.chain.pool.try_chunk()
        assert chunk is not None
        builder.add_chunk(chunk)
        result = builder.try_append(timestamp_ms, key, value)
    return result


def test_golden_batch_without_producer() -> None:
    """Two records, no producer id: byte for byte what another client decodes."""
    assert b"".join(_golden_builder().close()) == GOLDEN_PLAIN


def test_golden_batch_with_producer() -> None:
    """The idempotence triple sits where the format has it, under the checksum."""
    pieces = _golden_builder().close(producer_id=4242, producer_epoch=7, base_sequence=100)
    assert b"".join(pieces) == GOLDEN_IDEMPOTENT


def test_rewriting_the_producer_gives_the_golden_bytes() -> None:
    """A closed batch that only its owner holds may get another producer."""
    builder = _golden_builder()
    builder.close()
    builder.rewrite_producer(4242, 7, 100)
    assert b"".join(builder.pieces()) == GOLDEN_IDEMPOTENT


def test_a_batch_in_a_request_is_not_rewritten() -> None:
    """While a request holds the chain its bytes stay as they are."""
    builder = _golden_builder()
    builder.close()
    builder.chain.hold()
    with pytest.raises(LocalProtocolError, match="held 2 times"):
        builder.rewrite_producer(4242, 7, 100)
    assert b"".join(builder.pieces()) == GOLDEN_PLAIN


def test_a_short_chain_asks_for_chunks_and_is_unchanged() -> None:
    """NEED_CHUNKS says how much is missing, and nothing is half written."""
    builder = _builder(_pool())
    before = builder.size_bytes
    assert builder.try_append(BASE_MS, None, b"x" * 400) is AppendResult.NEED_CHUNKS
    assert (builder.size_bytes, builder.record_count) == (before, 0)
    assert builder.missing_bytes == 409 - (128 - 61)


def test_a_full_batch_takes_no_second_record() -> None:
    """The limit counts uncompressed bytes, and the first record is always taken."""
    builder = _builder(_pool(), limit_bytes=100)
    assert _append(builder, BASE_MS, None, b"x" * 500) is AppendResult.APPENDED
    assert builder.is_full
    assert builder.try_append(BASE_MS, None, b"y") is AppendResult.BATCH_FULL
    assert builder.record_count == 1


def test_sealing_gives_spare_chunks_back() -> None:
    """Chunks that no record reached return to the pool at once."""
    pool = _pool()
    builder = _builder(pool)
    chunk = pool.try_chunk()
    assert chunk is not None
    builder.add_chunk(chunk)
    builder.try_append(BASE_MS, None, b"x")
    builder.seal()
    assert pool.lent_bytes == 128


def test_compressed_records_leave_the_chain() -> None:
    """The compressor sees all records once; the result stands behind a header of its own."""
    builder = _golden_builder()
    seen: list[bytes] = []

    def squeeze(records: bytes) -> bytes:
        seen.append(records)
        return b"squeezed"

    pieces = builder.close(attributes=4, compress=squeeze)
    assert seen == [GOLDEN_PLAIN[61:]]
    assert bytes(pieces[1]) == b"squeezed"
    assert builder.encoded_bytes == 61 + 8


@pytest.mark.parametrize("attributes", [0, 2])
def test_codec_and_compressor_must_agree(attributes: int) -> None:
    """A codec without compressor, or the reverse, is a fault of the caller."""
    compress = None if attributes else bytes
    with pytest.raises(LocalProtocolError, match="do not agree"):
        _golden_builder().close(attributes=attributes, compress=compress)


def test_an_empty_batch_is_not_closed() -> None:
    """There is no batch without records on the wire."""
    with pytest.raises(LocalProtocolError, match="without records"):
        _builder(_pool()).close()


@pytest.mark.parametrize(
    ("headers", "match"),
    [
        ([("h", "text")], "bytes-like or None, got str"),
        ([(b"h", b"v")], "key must be str"),
        (["h"], "must be a pair"),
        ([("h", 5)], "got int"),
    ],
)
def test_bad_headers_are_refused(headers: object, match: str) -> None:
    """Each wrong shape of a header has its own text, and the batch is as before."""
    builder = _builder(_pool())
    with pytest.raises(TypeError, match=match):
        builder.try_append(BASE_MS, None, b"v", headers)  # type: ignore[arg-type]
    assert builder.record_count == 0


def test_size_bound_of_the_known_example() -> None:
    """(k0, v0) is bounded by 89 bytes; record_formats 3.4."""
    assert record_size_bound(2, 2) == 89
