"""Memory goes back to its pool while an allocation fails."""

import pytest

from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool

memory = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails")


def test_a_chain_comes_back_whole_although_the_free_list_cannot_grow() -> None:
    """Chunks that cannot be kept are freed; the pool can lend all its memory again."""
    pool = ChunkPool(1 << 16)
    for allocation in range(20):
        chunks = [chunk for _ in range(6) if (chunk := pool.try_chunk(large=False)) is not None]
        chain = ChunkChain(pool, chunks)
        memory.set_nomemory(allocation, allocation + 1)
        try:
            chain.release()
        finally:
            memory.remove_mem_hooks()
        assert pool.available_bytes == pool.capacity_bytes
        pool = ChunkPool(1 << 16)
