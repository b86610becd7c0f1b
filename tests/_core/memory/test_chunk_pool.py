"""Chunks are lent out of one total and come back whole, once."""

import pytest

from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod.errors import LocalProtocolError


def test_the_total_bounds_lent_memory() -> None:
    """A chain is rejected when its chunk would pass the capacity, and granted again later."""
    pool = ChunkPool(512, small_chunk_bytes=128, large_chunk_bytes=256)
    first = pool.try_chain(large=True)
    second = pool.try_chain(large=True)
    assert first is not None
    assert second is not None
    assert pool.try_chain() is None
    first.release()
    assert pool.try_chain() is not None


def test_cached_chunks_of_one_size_make_room_for_the_other() -> None:
    """Free lists never keep the pool above its total."""
    pool = ChunkPool(512, small_chunk_bytes=128, large_chunk_bytes=256)
    chains = [pool.try_chain() for _ in range(4)]
    for chain in chains:
        assert chain is not None
        chain.release()
    assert pool.cached_bytes == 512
    assert pool.try_chain(large=True) is not None
    assert pool.lent_bytes + pool.cached_bytes <= 512


def test_a_chain_goes_back_with_its_last_holder() -> None:
    """Two holders: the first release keeps the memory, the second returns all of it, poisoned."""
    pool = ChunkPool(1024, small_chunk_bytes=128, large_chunk_bytes=256, poisons=True)
    small, large = pool.try_chunk(large=False), pool.try_chunk()
    assert small is not None
    assert large is not None
    chain = ChunkChain(pool, [small, large])
    chunk = chain.chunks()[0]
    chain.hold()
    chain.release()
    assert pool.lent_bytes == 384
    chain.release()
    assert pool.lent_bytes == 0
    assert bytes(chunk) == b"\xdd" * 128


def test_double_release_is_an_error() -> None:
    """A chain that went back can neither be released nor held again."""
    pool = ChunkPool(1024, small_chunk_bytes=128, large_chunk_bytes=256)
    chain = pool.try_chain()
    assert chain is not None
    chain.release()
    with pytest.raises(LocalProtocolError, match="released twice"):
        chain.release()
    with pytest.raises(LocalProtocolError, match="after it had gone back"):
        chain.hold()


def test_a_closed_pool_keeps_nothing() -> None:
    """Neither the chunks in its free lists nor those returned later."""
    pool = ChunkPool(1 << 20)
    kept, lent = pool.try_chain(), pool.try_chain(large=True)
    assert kept is not None
    assert lent is not None
    kept.release()
    assert pool.cached_bytes == pool.small_chunk_bytes
    pool.close()
    assert pool.cached_bytes == 0
    lent.release()
    assert (pool.lent_bytes, pool.cached_bytes) == (0, 0)


def test_sizes_that_do_not_fit_together_are_rejected() -> None:
    """The error names all three sizes."""
    with pytest.raises(ValueError, match="got 256, 128, 1024"):
        ChunkPool(1024, small_chunk_bytes=256, large_chunk_bytes=128)
