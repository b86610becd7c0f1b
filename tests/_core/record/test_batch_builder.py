"""The V2 batch builder against the golden bytes, and its rejections."""

import asyncio
import mmap
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from kprod._core.aio.async_send import LoopMemoryWaiter
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.record.batch_builder import AppendResult, BatchBuilder
from kprod._core.record.compression_buffer import CompressionBuffer
from kprod._core.record.record_size import record_size_bound
from kprod.errors import LocalProtocolError
from kprod.model import Record
from kprod.record.reader import read_records
from tests.oracle import record_v2
from tests.oracle.crc32c import crc32c

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


def _long_builder(pool: ChunkPool, records: int = 40) -> BatchBuilder:
    builder = _builder(pool)
    for number in range(records):
        assert _append(builder, BASE_MS, b"k", b"%032d" % number) is AppendResult.APPENDED
    return builder


def test_records_are_copied_into_one_piece() -> None:
    """All of them without the header, from as many chunks as there are."""
    builder = _long_builder(_pool())
    plain = bytes(builder.records(CompressionBuffer()))
    assert plain == b"".join(builder.close())[61:]


def test_a_buffer_is_used_again() -> None:
    """A shorter copy after a longer one ends where its own records end."""
    buffer = CompressionBuffer()
    assert len(_long_builder(_pool()).records(buffer)) == 1_600
    first = _golden_builder().records(buffer)
    assert first == GOLDEN_PLAIN[61:]
    assert _golden_builder().records(buffer).obj is first.obj


def test_a_buffer_grows_beside_a_view_that_is_kept() -> None:
    """An error's traceback may keep the last view."""
    buffer = CompressionBuffer()
    kept = _golden_builder().records(buffer)
    assert len(_long_builder(_pool()).records(buffer)) == 1_600
    assert kept == GOLDEN_PLAIN[61:]


def test_the_memory_of_a_huge_batch_is_not_kept() -> None:
    """Above 4 MiB each copy has its own."""
    buffer = CompressionBuffer()
    builder = _builder(_pool(1 << 24, small=1 << 23, large=1 << 23), 1 << 23)
    assert _append(builder, BASE_MS, None, bytes(5 << 20)) is AppendResult.APPENDED
    assert builder.records(buffer).obj is not builder.records(buffer).obj


def test_compressed_records_give_memory_back() -> None:
    """They are written over the others, and the chunks behind them return to the pool at once."""
    pool = _pool()
    builder = _long_builder(pool)
    assert pool.lent_bytes == 128 + 6 * 256
    packed = bytes(range(200))
    builder.pack(packed)
    assert pool.lent_bytes == 128 + 256
    closed = b"".join(builder.close(attributes=4))
    assert closed[61:] == packed
    assert builder.encoded_bytes == len(closed) == 61 + 200
    assert pool.lent_bytes == builder.chain.lent_bytes == 128 + 256
    builder.chain.release()
    assert pool.lent_bytes == 0


class _Raising(asyncio.SelectorEventLoop):
    """A loop that cannot be woken once."""

    has_raised = True

    def call_soon_threadsafe(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]
        """Raise once, then wake the loop."""
        if not self.has_raised:
            self.has_raised = True
            raise MemoryError
        return super().call_soon_threadsafe(*args, **more)


def test_records_are_not_compressed_again_after_a_wakeup_that_raised() -> None:
    """Memory returns to a waiting event loop when the compressed records are written already."""
    pool = _pool(128 + 6 * 256)
    builder = _long_builder(pool)
    builder.seal()

    async def pack() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Raising)
        waiter = LoopMemoryWaiter(1, True, 256)
        waiter.pool = pool
        pool.add_waiter(waiter)
        loop.has_raised = False
        with pytest.raises(MemoryError):
            builder.pack(bytes(range(200)))
        pool.remove_waiter(waiter)
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=_Raising) as runner:
        runner.run(pack())
    assert builder.is_packed
    assert b"".join(builder.close(attributes=4))[61:] == bytes(range(200))
    builder.chain.release()
    assert pool.lent_bytes == 0


@pytest.mark.parametrize("size", [66, 67, 68, 128 - 61, 128 - 60, 300])
def test_compressed_records_of_any_size(size: int) -> None:
    """Where they fill the chain, and where they are longer than it."""
    builder = _golden_builder()
    packed = bytes([7]) * size
    builder.pack(packed)
    assert builder.encoded_bytes == 61 + size
    closed = b"".join(builder.close(attributes=1))
    assert closed[61:] == packed
    assert struct.unpack_from(">i", closed, 8) == (len(closed) - 12,)
    assert struct.unpack_from(">I", closed, 17) == (crc32c(closed[21:]),)
    assert builder.chain.lent_bytes == 128


@pytest.mark.parametrize("attributes", [0, 2])
def test_codec_and_compressed_records_must_agree(attributes: int) -> None:
    """A codec without compressed records, or the reverse, is a fault of the caller."""
    builder = _golden_builder()
    if not attributes:
        builder.pack(b"squeezed")
    assert builder.is_packed is not bool(attributes)
    with pytest.raises(LocalProtocolError, match="its records are"):
        builder.close(attributes=attributes)


def test_a_batch_is_packed_once_and_before_it_is_closed() -> None:
    """Its records would be overwritten by their own compressed form."""
    builder = _golden_builder()
    builder.pack(b"squeezed")
    with pytest.raises(LocalProtocolError, match="packed or closed"):
        builder.pack(b"squeezed")
    plain = _golden_builder()
    plain.close()
    with pytest.raises(LocalProtocolError, match="packed or closed"):
        plain.pack(b"squeezed")
    with pytest.raises(LocalProtocolError, match="without records"):
        _builder(_pool()).pack(b"squeezed")


def test_a_batch_that_cannot_be_packed_is_as_before() -> None:
    """Something that is not bytes-like changes nothing."""
    builder = _golden_builder()
    with pytest.raises(TypeError):
        builder.pack("squeezed")  # type: ignore[arg-type]
    assert not builder.is_packed
    assert builder.encoded_bytes == 0
    builder.pack(b"squeezed")
    assert b"".join(builder.close(attributes=1))[61:] == b"squeezed"


def test_an_empty_batch_is_not_closed() -> None:
    """There is no batch without records on the wire."""
    with pytest.raises(LocalProtocolError, match="without records"):
        _builder(_pool()).close()


def test_size_bound_of_the_known_example() -> None:
    """(k0, v0) is bounded by 89 bytes; record_formats 3.4."""
    assert record_size_bound(2, 2, 1) == 89


def test_a_compressed_batch_gets_another_producer() -> None:
    """The producer in its header is rewritten, and nothing behind that."""
    builder = _golden_builder()
    builder.pack(b"squeezed")
    closed = b"".join(builder.close(attributes=1))
    builder.rewrite_producer(4242, 7, 2**31 - 1)
    rewritten = b"".join(builder.pieces())
    assert rewritten[57:] == closed[57:]
    other = _golden_builder()
    other.pack(b"squeezed")
    again = other.close(producer_id=4242, producer_epoch=7, base_sequence=2**31 - 1, attributes=1)
    assert rewritten == b"".join(again)


def test_a_compressed_batch_in_a_request_is_not_rewritten() -> None:
    """A socket reads its header."""
    builder = _golden_builder()
    builder.pack(b"squeezed")
    closed = b"".join(builder.close(attributes=1))
    builder.chain.hold()
    with pytest.raises(LocalProtocolError, match="held 2 times"):
        builder.rewrite_producer(4242, 7, 100)
    assert b"".join(builder.pieces()) == closed
    builder.chain.release()
    builder.rewrite_producer(4242, 7, 100)
    assert b"".join(builder.pieces()) != closed


def test_a_batch_whose_memory_went_back_is_not_rewritten() -> None:
    """Its chunks may belong to another topic's records already."""
    builder = _golden_builder()
    builder.close()
    builder.chain.release()
    with pytest.raises(LocalProtocolError, match="held 0 times"):
        builder.rewrite_producer(4242, 7, 100)


def test_an_open_batch_is_not_rewritten() -> None:
    """Before it is closed a batch has no producer."""
    builder = _golden_builder()
    with pytest.raises(LocalProtocolError, match="only a closed"):
        builder.rewrite_producer(4242, 7, 100)
    with pytest.raises(LocalProtocolError, match="before it was closed"):
        builder.pieces()


@pytest.mark.parametrize(
    ("attributes", "is_transactional", "is_control"),
    [(0x10, True, False), (0x20, False, True), (0x30, True, True)],
)
def test_transactional_and_control_bits(
    attributes: int, is_transactional: bool, is_control: bool
) -> None:
    """The bits stand where the format has them, and rewriting the producer keeps them."""
    builder = _golden_builder()
    builder.close(attributes=attributes)
    builder.rewrite_producer(4242, 7, 100)
    (batch,) = record_v2.decode_batches(b"".join(builder.pieces()))
    assert batch.attributes == attributes
    assert bool(batch.attributes & 0x10) is is_transactional
    assert bool(batch.attributes & 0x20) is is_control
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4242, 7, 100)


@pytest.mark.parametrize("later_ms", [BASE_MS - 1, 0, -1, -(2**62), 2**63 - 1])
def test_timestamps_before_the_first(later_ms: int) -> None:
    """The first record's timestamp is the base, not the smallest; deltas go either way."""
    builder = _builder(_pool())
    builder.try_append(BASE_MS, None, b"a")
    builder.try_append(later_ms, None, b"b")
    (batch,) = record_v2.decode_batches(b"".join(builder.close()))
    assert batch.base_timestamp_ms == BASE_MS
    assert batch.max_timestamp_ms == max(BASE_MS, later_ms)
    assert [record.timestamp_ms for record in batch.records] == [BASE_MS, later_ms]


def test_widest_delta_of_timestamps() -> None:
    """From the last millisecond to the first is 65 bits; readers add modulo 2^64."""
    builder = _builder(_pool())
    builder.try_append(2**63 - 1, None, b"a")
    builder.try_append(-(2**63), None, b"b")
    (record, other) = _read_back(builder)
    assert (record.timestamp_ms, other.timestamp_ms) == (2**63 - 1, -(2**63))


def _read_back(builder: BatchBuilder) -> list[Record]:
    return list(read_records(b"".join(builder.close())))


def test_a_sealed_batch_takes_nothing() -> None:
    """Not even when sealing happens while the arguments are looked at."""
    builder = _builder(_pool())

    def sealing_headers() -> Iterator[tuple[str, bytes]]:
        builder.seal()
        yield ("h", b"v")

    with pytest.raises(ValueError, match="sealed"):
        builder.try_append(BASE_MS, b"k", b"v", sealing_headers())
    assert builder.record_count == 0


@pytest.mark.parametrize("headers", [[], [("h", b"v")]])
@pytest.mark.parametrize("is_key", [True, False])
def test_a_record_larger_than_any_batch_is_rejected(
    is_key: bool, headers: list[tuple[str, bytes]]
) -> None:
    """The batch's length is a signed int32; memory that is never touched stands for the bytes."""
    builder = _builder(_pool())
    with mmap.mmap(-1, 2**31 - 1 - 128) as huge:
        key, value = (huge, b"v") if is_key else (b"k", huge)
        with pytest.raises(ValueError, match="larger than any batch"):
            builder.try_append(BASE_MS, key, value, headers)
    assert (builder.size_bytes, builder.record_count) == (61, 0)


def test_a_limit_past_the_format_is_rejected() -> None:
    """A record takes 7 bytes at least, so that this also bounds the count of records."""
    chain = _pool().try_chain()
    assert chain is not None
    with pytest.raises(ValueError, match="at most 2147483647 bytes"):
        BatchBuilder(chain, 2**31)


@pytest.mark.parametrize("role", ["key", "value"])
def test_values_that_are_not_bytes_are_rejected(role: str) -> None:
    """Text and numbers are rejected, and a buffer that was taken is given back."""
    builder = _builder(_pool())
    other = bytearray(b"grows again")
    arguments: dict[str, Any] = {"key": other, "value": other, role: "text"}
    with pytest.raises(TypeError, match="bytes-like"):
        builder.try_append(BASE_MS, **arguments)
    other += b", so nobody holds it"
    assert builder.record_count == 0
