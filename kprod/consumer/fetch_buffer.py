"""Fetched records that are not handed out yet, and the memory that they hold.

The I/O thread adds blocks of records; the application's thread takes them in order of arrival, so
that no partition starves: within a response the broker turns the order, and a partition has at most
`AHEAD_MAX` blocks here.

Memory. A response is one piece of memory that all its blocks lie in; it is free when the last of
them is gone. So the whole response counts until then. Where less than half of it is still in use,
the rest is copied out: a paused partition must not hold the memory of a thousand others.

The counters have one owner, the I/O thread; what the application's thread frees comes by a deque.

Invariant: `held_bytes` is the sum of the responses that some block of this buffer lies in, after
`take_freed`, which lags behind by the memory freed since.

Thread-safety: each method says whose it is.
Source: KAFKA-7548, librdkafka #5343 and #1384 for what happens otherwise.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from kprod.consumer.position import AssignedPartition

AHEAD_MAX = 2  # blocks of one partition that wait for the application's thread
_IN_USE_RATIO = 2  # a response of which less than one in so many bytes is in use is copied out


class ResponseMemory:
    """The memory of one response.

    Attributes:
        size_bytes: Of the whole response.
        in_use_bytes: Of the blocks that are not gone.
        blocks: Those.
    """

    __slots__ = ("blocks", "in_use_bytes", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        """Count a response.

        Args:
            size_bytes: At least the sum of its blocks.
        """
        self.size_bytes: int = size_bytes
        self.in_use_bytes: int = 0
        self.blocks: dict[int, FetchedBlock] = {}


@dataclass(slots=True, kw_only=True, eq=False)
class FetchedBlock:
    """The records of one partition in one response.

    Attributes:
        partition: Whose.
        number: Of the start that it was fetched for.
        offset: Fetched from; records below it may be in the block.
        records: Batches after one another.
        aborted: Producer id and first offset of aborted transactions in it.
        memory: Of the response.
    """

    partition: AssignedPartition
    number: int
    offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    memory: ResponseMemory

    def __post_init__(self) -> None:
        """Take part in the response's memory."""
        self.memory.blocks[id(self)] = self
        self.memory.in_use_bytes += len(self.records)

    @property
    def is_current(self) -> bool:
        """Whether the partition still reads from the start that this was fetched for."""
        return self.number == self.partition.start.number


class FetchedStep:
    """What the application's thread must do about a partition behind the blocks before it.

    Attributes:
        partition: Whose.
        number: Of the start that it belongs to.
        run: Called in the application's thread; may raise.
    """

    __slots__ = ("number", "partition", "run")

    def __init__(
        self, partition: AssignedPartition, number: int, run: Callable[[], object]
    ) -> None:
        """Make a step."""
        self.partition: AssignedPartition = partition
        self.number: int = number
        self.run: Callable[[], object] = run


class FetchBuffer:
    """The blocks of one consumer.

    Attributes:
        capacity_bytes: Memory for blocks and for requests under way.
        held_bytes: Memory of responses. The I/O thread's.
        decoding_bytes: Of the batch that the application's thread has decompressed.
    """

    __slots__ = ("_arrived", "_freed", "_notify", "capacity_bytes", "decoding_bytes", "held_bytes")

    def __init__(self, capacity_bytes: int, notify: Callable[[], object]) -> None:
        """Make it empty.

        Args:
            capacity_bytes: At least 1.
            notify: Tells the application's thread that there is something.
        """
        self.capacity_bytes: int = capacity_bytes
        self.held_bytes: int = 0
        self.decoding_bytes: int = 0
        self._arrived: deque[FetchedBlock | FetchedStep] = deque()
        self._freed: deque[int] = deque()
        self._notify = notify

    # The I/O thread.

    def add(self, blocks: list[FetchedBlock], memory: ResponseMemory) -> None:
        """Give the blocks of a response to the application's thread.

        Args:
            blocks: All of the response, at least one.
            memory: The response's.
        """
        self.held_bytes += memory.size_bytes
        for block in blocks:
            block.partition.fetched_count += 1
        self._arrived.extend(blocks)
        self._notify()

    def add_step(self, step: FetchedStep) -> None:
        """Have the application's thread run a step behind the blocks that are there.

        Args:
            step: Of any partition.
        """
        step.partition.fetched_count += 1
        self._arrived.append(step)
        self._notify()

    def take_freed(self) -> None:
        """Count what the application's thread has freed."""
        while self._freed:
            self.held_bytes -= self._freed.popleft()

    @property
    def free_bytes(self) -> int:
        """How much more may be requested; requests under way are not subtracted."""
        return self.capacity_bytes - self.held_bytes - self.decoding_bytes

    # The application's thread.

    @property
    def has_arrived(self) -> bool:
        """Whether there is a block to take."""
        return bool(self._arrived)

    def first(self) -> FetchedBlock | FetchedStep | None:
        """Return the oldest entry, which stays; None if there is none."""
        return self._arrived[0] if self._arrived else None

    def remove_first(self) -> None:
        """Remove the oldest entry, after it was put elsewhere."""
        self._arrived.popleft()

    def free(self, block: FetchedBlock) -> None:
        """Give up a block that was taken.

        Args:
            block: Handed out whole, or of no use any more.
        """
        memory = block.memory
        if memory.blocks.pop(id(block), None) is None:
            return
        block.partition.consumed_count += 1
        memory.in_use_bytes -= len(block.records)
        block.records = memoryview(b"")
        if not memory.blocks:
            self._freed.append(memory.size_bytes)
        elif memory.in_use_bytes * _IN_USE_RATIO < memory.size_bytes:
            for each in memory.blocks.values():
                each.records = memoryview(bytes(each.records))
            self._freed.append(memory.size_bytes - memory.in_use_bytes)
            memory.size_bytes = memory.in_use_bytes
