"""The pool against plain integers: bytes lent, their holders, and the queue."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kprod._core.memory.chunk import Chunk
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod.errors import LocalProtocolError

SMALL, LARGE = 128, 512
CAPACITY = 6 * LARGE + 200


class _Held:
    """A chain, and how many the model thinks hold it."""

    def __init__(self, chain: ChunkChain, size: int) -> None:
        self.chain = chain
        self.size = size
        self.holders = 1


class _Place:
    """A waiter, and what the model thinks it was granted."""

    def __init__(self, count: int, large: bool) -> None:
        size = LARGE if large else SMALL
        self.waiter = MemoryWaiter(count, large, size)
        self.wanted = count * size
        self.granted = 0


class PoolMachine(RuleBasedStateMachine):
    """Chains come, are held and released; waiters come, are satisfied or give up."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = ChunkPool(
            CAPACITY, small_chunk_bytes=SMALL, large_chunk_bytes=LARGE, poisons=True
        )
        self.held: list[_Held] = []
        self.line: deque[_Place] = deque()
        self.satisfied: list[_Place] = []
        self.lent = 0

    def _serve(self) -> None:
        """The first in line gets all there is, then the next."""
        while self.line:
            first = self.line[0]
            grant = min(first.wanted - first.granted, CAPACITY - self.lent)
            first.granted += grant
            self.lent += grant
            if first.granted < first.wanted:
                return
            self.satisfied.append(self.line.popleft())

    def _keep(self, chunks: list[Chunk]) -> None:
        size = sum(len(chunk) for chunk in chunks)
        self.held.append(_Held(ChunkChain(self.pool, chunks), size))

    @rule(large=st.booleans())
    def take(self, large: bool) -> None:
        """Without a line, and while there is some."""
        size = LARGE if large else SMALL
        chunk = self.pool.try_chunk(large)
        if self.line or self.lent + size > CAPACITY:
            assert chunk is None
            return
        assert chunk is not None
        assert len(chunk) == size
        self.lent += size
        self._keep([chunk])

    @precondition(lambda self: self.held)
    @rule(pick=st.randoms(use_true_random=False))
    def hold(self, pick: st.DataObject) -> None:
        """One more request carries it."""
        held = pick.choice(self.held)  # type: ignore[attr-defined]
        held.chain.hold()
        held.holders += 1

    @precondition(lambda self: self.held)
    @rule(pick=st.randoms(use_true_random=False))
    def release(self, pick: st.DataObject) -> None:
        """The last holder sends it back, whole, and not once more."""
        held = pick.choice(self.held)  # type: ignore[attr-defined]
        held.chain.release()
        held.holders -= 1
        if held.holders == 0:
            self.held.remove(held)
            self.lent -= held.size
            self._serve()
            with pytest.raises(LocalProtocolError):
                held.chain.release()

    @rule(count=st.integers(1, 4), large=st.booleans())
    def wait(self, count: int, large: bool) -> None:
        """Join the queue."""
        place = _Place(count, large)
        self.pool.add_waiter(place.waiter)
        self.line.append(place)
        self._serve()

    @precondition(lambda self: self.satisfied)
    @rule()
    def claim(self) -> None:
        """Turn a grant into chunks."""
        place = self.satisfied.pop(0)
        chunks = self.pool.claim(place.waiter)
        self.pool.remove_waiter(place.waiter)
        assert sum(len(chunk) for chunk in chunks) == place.wanted
        self._keep(chunks)

    @precondition(lambda self: self.line or self.satisfied)
    @rule(pick=st.randoms(use_true_random=False))
    def give_up(self, pick: st.DataObject) -> None:
        """A timeout or a signal: memory granted and not claimed goes to the next."""
        place = pick.choice([*self.line, *self.satisfied])  # type: ignore[attr-defined]
        self.pool.remove_waiter(place.waiter)
        if place in self.line:
            self.line.remove(place)
        else:
            self.satisfied.remove(place)
        self.lent -= place.granted
        self._serve()

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        """Bytes, queue, and satisfied waiters."""
        pool = self.pool
        assert pool.lent_bytes == self.lent <= CAPACITY
        assert pool.available_bytes == CAPACITY - self.lent
        assert pool.waiter_count == len(self.line)
        assert pool.has_waiters == bool(self.line)
        assert all(not place.waiter.wait(0) for place in self.line)
        assert all(place.waiter.wait(0) for place in self.satisfied)
        claimed = sum(held.size for held in self.held)
        assert claimed + pool.cached_bytes <= CAPACITY
        assert [held.chain.lent_bytes for held in self.held] == [h.size for h in self.held]

    def teardown(self) -> None:
        """Everything comes back."""
        for place in [*self.line, *self.satisfied]:
            self.pool.remove_waiter(place.waiter)
        for held in self.held:
            for _ in range(held.holders):
                held.chain.release()
        assert self.pool.lent_bytes == 0
        assert self.pool.waiter_count == 0


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
