# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Fetched records that were not returned yet, and the memory that they use.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The I/O thread adds blocks of records; the polling thread takes them in order of arrival. No
partition starves: the broker rotates the partitions of a response, and a partition has at most
`AHEAD_MAX` blocks here.

Memory. All blocks of a response are views of one buffer, which is freed with the last of them; so
the whole response counts until then. When less than half of a response is still in use, the rest is
copied out of it; otherwise a single paused partition could retain the memory of a thousand others.

Only the I/O thread changes the counters; the polling thread passes freed blocks to it by a deque.

No Python bytecode may run in `free`: a signal handler's exception in the middle of it would leave
memory counted for ever. See `hand_over`.

Invariant: `held_bytes` is the total size of the responses that have a block in this buffer. Memory
    freed since the last `take_freed` is still counted.

Thread-safety: as each method says.
Source: KAFKA-7548, librdkafka #5343 and #1384 for the failures that this prevents.
"""

from collections import deque
from collections.abc import Callable

from kprod.consumer.position import AssignedPartition

AHEAD_MAX = 2  # blocks of one partition that wait for the polling thread
_IN_USE_RATIO = 2  # a response is copied out when less than one byte in this many is in use
_FREED = memoryview(b"")
_NO_BLOCKS: "list[FetchedBlock]" = []  # never changed


class ResponseMemory:
    """The memory of one response.

    Attributes:
        size_bytes: Size of the whole response.
        in_use_bytes: Total size of the blocks that were not freed.
        blocks: All its blocks, until the last is freed.
        left_count: Number of the blocks that were not freed.
    """

    def __init__(self, size_bytes: int) -> None:
        """Start with no blocks.

        Args:
            size_bytes: At least the total size of the blocks.
        """
        self.size_bytes: int = size_bytes
        self.in_use_bytes: int = 0
        self.blocks: list[FetchedBlock] = []
        self.left_count: int = 0


class FetchedBlock:
    """The records of one partition in one response.

    Attributes:
        partition: The partition.
        number: Number of the start that the records were fetched for.
        offset: The requested offset; the first batch may begin with older records.
        records: Consecutive batches.
        aborted: Producer id and first offset of each aborted transaction in the block.
        memory: The memory of the response.
        next_offset: The offset to fetch after the block; the requested one if none can follow.
        next_epoch: Leader epoch of the record before it; −1 if unknown.
        is_freed: Whether the polling thread has freed it.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - made for each response; keywords cost time
        self,
        partition: AssignedPartition,
        number: int,
        offset: int,
        records: memoryview,
        aborted: tuple[tuple[int, int], ...],
        memory: ResponseMemory,
        next_offset: int,
        next_epoch: int,
    ) -> None:
        """Register the block with the response's memory."""
        self.partition: AssignedPartition = partition
        self.number: int = number
        self.offset: int = offset
        self.records: memoryview = records
        self.aborted: tuple[tuple[int, int], ...] = aborted
        self.memory: ResponseMemory = memory
        self.next_offset: int = next_offset
        self.next_epoch: int = next_epoch
        self.is_freed: bool = False
        memory.blocks.append(self)
        memory.left_count += 1
        memory.in_use_bytes += len(records)


class FetchedStep:
    """An action for the polling thread, to run after the preceding blocks of a partition.

    Attributes:
        partition: The partition.
        number: Number of the start that it belongs to.
        run: Function that the polling thread calls; may raise.
    """

    def __init__(
        self, partition: AssignedPartition, number: int, run: Callable[[], object]
    ) -> None:
        """Create a step."""
        self.partition: AssignedPartition = partition
        self.number: int = number
        self.run: Callable[[], object] = run


class FetchBuffer:
    """The fetched blocks of one consumer.

    Attributes:
        capacity_bytes: Memory limit for blocks and for requests in flight.
        held_bytes: Memory of responses. Used by the I/O thread.
        decoding_bytes: Size of the batch that the polling thread has decompressed.
        is_short: Whether a fetch waits for memory, so that the I/O thread must be woken when a
            block is freed. Set by the I/O thread.
    """

    def __init__(self, capacity_bytes: int, notify: Callable[[], object]) -> None:
        """Start with no partitions.

        Args:
            capacity_bytes: At least 1.
            notify: Wakes the polling thread.
        """
        self.capacity_bytes: int = capacity_bytes
        self.held_bytes: int = 0
        self.decoding_bytes: int = 0
        self._arrived: deque[FetchedBlock | FetchedStep] = deque()
        self._freed: deque[int] = deque()
        self._has_news = False
        self.is_short: bool = False
        self._notify = notify

    # Methods of the I/O thread.

    def add(self, blocks: list[FetchedBlock], memory: ResponseMemory) -> None:
        """Pass the blocks of a response to the polling thread, which `tell` wakes.

        Args:
            blocks: All blocks of the response, at least one; of different partitions.
            memory: The response's.

        Raises:
            MemoryError: The first blocks may be passed; the rest are left out, and can be fetched
                again.
        """
        passed_count = 0
        self._has_news = True
        self.held_bytes += memory.size_bytes
        try:
            for block in blocks:
                self._pass(block)
                passed_count += 1
        finally:
            if passed_count < len(blocks):
                self._leave_out(blocks, passed_count, memory)

    def add_own(self, block: FetchedBlock) -> None:
        """Add the only block of a response for the calling thread, which is the polling thread.

        Args:
            block: The block.

        Raises:
            MemoryError: Nothing was changed.
        """
        self._pass(block)
        self.held_bytes += block.memory.size_bytes

    def _pass(self, block: FetchedBlock) -> None:
        """Pass one block, and move its partition behind it, or do neither.

        Nothing after `append` allocates memory. Otherwise records could be left out, or come twice.
        """
        partition = block.partition
        self._arrived.append(block)
        partition.fetched_count += 1
        partition.fetch_from(block.next_offset, block.next_epoch)

    def _leave_out(
        self, blocks: list[FetchedBlock], first_index: int, memory: ResponseMemory
    ) -> None:
        """Count the blocks from an index on no more, since they were not passed."""
        for index in range(first_index, len(blocks)):
            block = blocks[index]
            block.is_freed = True
            memory.left_count -= 1
            memory.in_use_bytes -= len(block.records)
        if not memory.left_count:
            self.held_bytes -= memory.size_bytes

    def add_step(self, step: FetchedStep) -> None:
        """Make the polling thread run a step after the present blocks.

        Args:
            step: A step of any partition.
        """
        self._arrived.append(step)
        step.partition.fetched_count += 1
        self._has_news = True

    def tell(self) -> None:
        """Wake the polling thread if anything was added since the last call.

        To be called as late as possible in a turn: the woken thread needs the GIL, which the I/O
        thread holds until it sleeps.
        """
        if self._has_news:
            self._has_news = False
            self._notify()

    def forget_news(self) -> None:
        """Wake nobody for the added blocks, since the polling thread itself has added them."""
        self._has_news = False

    def take_freed(self) -> None:
        """Update the counters with the blocks that the polling thread has freed."""
        while self._freed:
            self.held_bytes -= self._freed.popleft()

    def free_bytes(self) -> int:
        """Return how many bytes may be requested; requests in flight are not subtracted."""
        return self.capacity_bytes - self.held_bytes - self.decoding_bytes

    # Methods of the polling thread.

    def has_arrived(self) -> bool:
        """Return whether there is an entry."""
        return bool(self._arrived)

    def first(self) -> FetchedBlock | FetchedStep | None:
        """Return the oldest entry without removing it; None if there is none."""
        return self._arrived[0] if self._arrived else None

    def remove_first(self) -> None:
        """Remove the oldest entry."""
        self._arrived.popleft()

    def free(self, block: FetchedBlock) -> None:
        """Free a block that was taken.

        Args:
            block: A block that was returned completely, or is obsolete.
        """
        memory = block.memory
        if block.is_freed:
            return
        block.is_freed = True
        memory.left_count -= 1
        block.partition.consumed_count += 1
        memory.in_use_bytes -= len(block.records)
        block.records = _FREED
        if not memory.left_count:
            memory.blocks = _NO_BLOCKS  # they refer to it, too
            self._freed.append(memory.size_bytes)
        elif memory.in_use_bytes * _IN_USE_RATIO < memory.size_bytes:
            memory.blocks = [each for each in memory.blocks if not each.is_freed]
            for each in memory.blocks:
                each.records = memoryview(bytes(each.records))
            self._freed.append(memory.size_bytes - memory.in_use_bytes)
            memory.size_bytes = memory.in_use_bytes

    def clear(self) -> None:
        """Free all entries that were not taken; any thread, once the consumer is closed."""
        while True:
            try:
                entry = self._arrived.popleft()
            except IndexError:
                return
            if isinstance(entry, FetchedBlock):
                self.free(entry)


def lone_block(  # noqa: PLR0917 - made for each response; keywords cost time
    partition: AssignedPartition,
    number: int,
    offset: int,
    records: memoryview,
    next_offset: int,
    next_epoch: int,
) -> FetchedBlock:
    """Return the only block of a response, as `FetchedBlock` does, with its memory, but in C.

    Args:
        partition: As the attribute of `FetchedBlock`, and the others, too.
        number: Number of the start.
        offset: The requested offset.
        records: Consecutive batches, without aborted transactions.
        next_offset: The offset to fetch after the block.
        next_epoch: Leader epoch of the record before it; −1 if unknown.

    Returns:
        The block.
    """
    memory = ResponseMemory.__new__(ResponseMemory)
    block = FetchedBlock.__new__(FetchedBlock)
    block.partition = partition
    block.number = number
    block.offset = offset
    block.records = records
    block.aborted = ()
    block.memory = memory
    block.next_offset = next_offset
    block.next_epoch = next_epoch
    block.is_freed = False
    memory.size_bytes = memory.in_use_bytes = len(records)
    memory.left_count = 1
    memory.blocks = [block]
    return block
