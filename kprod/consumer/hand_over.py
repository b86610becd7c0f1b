# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Returns records to the application: each once, in order, and none is lost.

Records count as returned only when the call has returned: an exception from a signal handler
(Ctrl-C) may leave `poll` anywhere. So a hand-out has two steps. `take` decodes records and
remembers the blocks that it used; `is_complete` confirms that the records have reached the
application. The next call settles the previous hand-out: if it was completed, positions advance and
exhausted blocks are freed; if not, it is rewound, and its records are returned again.

This module and the modules of its blocks are compiled, because CPython runs signal handlers and
switches threads between bytecodes: a compiled function is left in the middle only where it calls
Python code. Here it does so before it changes anything, or where the change can be repeated.

The iterator hands out a *chunk*: records of one block. When a pause, a seek, a close or another
call interrupts it, the remaining records go back to the block.

Thread-safety: one thread at a time, which the engine ensures; `interrupt` from any thread.
Source: Kafka FetchCollector and CompletedFetch (clients 4.3.1).
"""

from collections.abc import Callable, Generator, Hashable
from typing import Any

from kprod._core.arrow.arrow_records import ArrowColumns
from kprod.consumer.assignment import Assignment
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock
from kprod.consumer.iterator_chunk import IteratorChunk
from kprod.consumer.open_block import DecodingTerms, OpenBlock
from kprod.consumer.parked_blocks import (
    Entry,
    ParkedBlocks,
    is_of_newest_start,
    partition_of,
)
from kprod.consumer.position import AssignedPartition, Place, Start, new_start
from kprod.errors import CorruptRecord, KprodError

_PARKED_RATIO = 2  # paused partitions may hold one byte in this many of the memory


class HandOver:
    """The records of one consumer that are being returned to the application.

    Attributes:
        is_complete: Whether the newest hand-out's records have reached the application.
        chunk: The chunk that an iteration is in the middle of; None if there is none.
    """

    def __init__(
        self,
        buffer: FetchBuffer,
        terms: DecodingTerms,
        assignment: Assignment,
        on_freed: Callable[[AssignedPartition], object],
    ) -> None:
        """Start with no hand-out.

        Args:
            buffer: Provides the fetched blocks.
            terms: Rules for decoding records.
            assignment: The partitions whose records may be returned.
            on_freed: Called with each partition that may be fetched again.
        """
        self._buffer = buffer
        self._terms = terms
        self._assignment = assignment
        self._on_freed = on_freed
        self._ready: list[Entry] = []
        self._parked = ParkedBlocks()
        self._touched: list[OpenBlock] = []
        self._taken_count = 0  # records of the newest hand-out
        self._settled_count = 0
        self._interrupt_count = 0
        self._taken_at = 0  # `_interrupt_count` when the newest hand-out began
        self.chunk: IteratorChunk | None = None
        self.is_complete: bool = False

    def has_work(self) -> bool:
        """Return whether `take` may return something; any thread."""
        return bool(self._ready) or self._buffer.has_arrived()

    @property
    def record_count(self) -> int:
        """Number of records that were returned; any thread."""
        count = self._settled_count + (self._taken_count if self.is_complete else 0)
        chunk = self.chunk
        return count if chunk is None else count - len(chunk.rest)

    def take(self, count: int, from_one: bool = False) -> list[Any]:  # noqa: FBT001, FBT002
        """Take records for a hand-out.

        Args:
            count: Maximum number, at least 1.
            from_one: Take them from a single block.

        Returns:
            The records, ascending for each partition; empty if there are none.

        Raises:
            KprodError: The next batch or record cannot be used; records of other partitions are
                returned first by the next call.
        """
        self.settle()
        self._taken_at = self._interrupt_count
        records: list[Any] = []
        while len(records) < count and (block := self._current(not records)) is not None:
            self._touched.append(block)
            try:
                taken = block.take(count - len(records))
            except Exception:
                if records:
                    break
                self._pass_over(block)
                raise
            records += taken
            self._buffer.decoding_bytes = block.decoder().decompressed_size
            self.remove_exhausted(block)
            if taken and from_one:
                break
        if not records:
            self._pass_over()
        self._taken_count = len(records)
        for block in self._touched:
            block.forget_results()
        return records

    def take_columns(self, columns: ArrowColumns, rows_max: int, bytes_max: int) -> int:
        """Take rows for a hand-out.

        Args:
            columns: Empty columns, which get the rows.
            rows_max: Maximum number of rows, at least 1.
            bytes_max: No further row is added once there are this many bytes.

        Returns:
            The number of rows.

        Raises:
            CorruptRecord: The next batch cannot be read; rows of other partitions are returned
                first by the next call.
        """
        self.settle()
        while columns.row_count < rows_max and columns.content_bytes < bytes_max:
            block = self._current(not columns.row_count)
            if block is None:
                break
            self._touched.append(block)
            block.stop_between()
            rows_left, bytes_left = rows_max - columns.row_count, bytes_max - columns.content_bytes
            try:
                count = columns.append(block.decoder(), rows_left, bytes_left)
            except CorruptRecord:
                if columns.row_count:
                    break
                self._pass_over(block)
                raise
            block.follow_decoder()
            self._buffer.decoding_bytes = block.decoder().decompressed_size
            self.remove_exhausted(block)
            if not count and not block.is_done:
                break  # the next row does not fit
        if not columns.row_count:
            self._pass_over()
        self._taken_count = columns.row_count
        return columns.row_count

    def remove_exhausted(self, block: OpenBlock) -> None:
        """Continue with the next block, if this one is exhausted.

        Args:
            block: The current block.
        """
        if block.is_exhausted():
            block.is_done = True
            del self._ready[0]

    def begin_chunk(self, taken: list[Any], records: list[Any], ident: Hashable) -> IteratorChunk:
        """Start to return records of one block one by one.

        Args:
            taken: The records that the newest `take` returned.
            records: The records to return; at least one.
            ident: Identity of the calling thread.

        Returns:
            A chunk, for which `end_chunk` must be called.
        """
        chunk = IteratorChunk(self._touched[-1], taken, records, ident)
        chunk.is_interrupted = self._taken_at != self._interrupt_count
        self.chunk = chunk
        return chunk

    def records_of(self, chunk: IteratorChunk) -> Generator[Any]:
        """Yield a chunk's records one by one, until its end or an interruption.

        Args:
            chunk: A chunk from `begin_chunk`.

        Yields:
            Its records.
        """
        try:
            for record in chunk.records:
                chunk.in_hand = record
                yield record
                if chunk.is_interrupted:
                    break
        finally:
            self.end_chunk(chunk)

    def end_chunk(self, chunk: IteratorChunk) -> None:
        """Return the rest of a chunk to its block; idempotent.

        Args:
            chunk: Any chunk.
        """
        chunk.is_interrupted = True
        if self.chunk is not chunk:
            return
        block, rest = chunk.block, chunk.rest
        block.partition.handed = chunk.asked_past
        if rest:
            if chunk.is_intercepted:  # read again, as they were
                block.rewind(chunk.place)
            else:
                block.give_back(rest, chunk.place)
            if block not in self._ready:
                self._ready.insert(0, block)
        self._taken_count -= len(rest)
        self.chunk = None

    def interrupt(self) -> None:
        """Make the iterator check for changes before its next record; any thread."""
        self._interrupt_count += 1
        chunk = self.chunk
        if chunk is not None:
            chunk.is_interrupted = True

    def place_of(self, partition: AssignedPartition) -> Place | None:
        """Return a partition's position, the current hand-out included; any thread.

        Args:
            partition: An assigned partition.

        Returns:
            The position; None while the offset is unknown.
        """
        number = partition.start.number
        chunk = self.chunk
        if chunk is not None and chunk.block.partition is partition:
            place = chunk.place
            if place.number == number:
                return place
        if self.is_complete:
            for block in reversed(list(self._touched)):
                if block.partition is partition and block.fetched.number == number:
                    return block.place()
        return partition.place

    def settle(self) -> None:
        """Advance the positions beyond the last hand-out if it was completed, else rewind it."""
        if self.chunk is not None:
            self.end_chunk(self.chunk)
        if self.is_complete:
            for block in self._touched:
                if self._is_current(block):
                    block.partition.handed = block.place()
                if block.is_done:
                    self._drop(block)
            self._settled_count += self._taken_count
        else:
            for block in self._touched:
                self.resume(block.partition)  # a later block that was parked stays behind it
            for block in reversed(self._touched):
                block.rewind(block.partition.handed)
                if block not in self._ready:
                    self._ready.insert(0, block)
        self._touched = []
        self._taken_count = 0
        self.is_complete = False

    def resume(self, partition: AssignedPartition) -> None:
        """Return parked blocks again.

        Args:
            partition: A partition that is no longer paused.
        """
        parked = self._parked.take(partition)
        self._ready[:0] = [each for each in parked if each not in self._ready]

    def skip(self, partition: AssignedPartition, offset: int) -> bool:
        """Skip a record that could not be deserialized.

        Args:
            partition: The record's partition.
            offset: The record's offset.

        Returns:
            False if it is not the next record.
        """
        self.settle()
        for entry in self._ready:
            if isinstance(entry, OpenBlock) and entry.partition is partition:
                if not entry.skip(offset):
                    return False
                partition.handed = entry.place()
                return True
        return False

    def drop_stale(self) -> None:
        """Free blocks of older starts, which paused partitions would retain otherwise."""
        self.settle()
        self._take_arrived()
        for entries in (self._ready, *self._parked.queues()):
            for entry in [each for each in entries if not self._is_current(each)]:
                entries.remove(entry)
                self._drop(entry)

    def drop_parked(self, restart: Callable[[AssignedPartition, Start, int], object]) -> None:
        """Free the memory that paused partitions hold beyond their share, oldest blocks first.

        Args:
            restart: Makes a partition be fetched again from its position; see `Selection.restart`.
        """
        parked_max = self._buffer.capacity_bytes // _PARKED_RATIO
        while not self._parked.is_empty() and self._parked.size_bytes > parked_max:
            partition = self._parked.first()
            place = self.place_of(partition)
            if place is not None:
                restart(partition, new_start(place.offset, place.epoch), place.number)
            for entry in self._parked.take(partition):
                self._drop(entry)

    def clear(self) -> None:
        """Free everything; any thread, if no thread reads."""
        # Replaced, not emptied: a closing thread and a reader whose call ended may both be here.
        ready, self._ready = self._ready, []
        parked, self._parked = self._parked, ParkedBlocks()
        touched, self._touched = self._touched, []
        self.chunk = None
        for entry in [*touched, *ready, *(it for each in parked.queues() for it in each)]:
            self._drop(entry)
        self._buffer.clear()

    def _current(self, may_run: bool) -> OpenBlock | None:  # noqa: FBT001
        """Return the next block of a partition that is not paused; runs preceding steps."""
        while True:
            self._take_arrived()
            if not self._ready:
                return None
            entry = self._ready[0]
            if not self._is_current(entry):
                del self._ready[0]
                self._drop(entry)
            elif partition_of(entry).paused:
                self._parked.add(entry)
                del self._ready[0]
            elif isinstance(entry, OpenBlock):
                return entry
            elif not may_run:
                return None
            else:
                try:
                    entry.run()
                except KprodError:
                    self._drop(self._ready.pop(0))
                    raise
                self._drop(self._ready.pop(0))

    def _pass_over(self, bad: OpenBlock | None = None) -> None:
        """Free blocks that have nothing to show; one that cannot be read lets others go first."""
        if bad is not None:
            self._touched.pop()
            last = [it for it in self._ready if it.partition is bad.partition]
            self._ready = [it for it in self._ready if it not in last] + last
        if self._touched or self.chunk is not None:
            self.is_complete = True
            self.settle()

    def _take_arrived(self) -> None:
        while (fetched := self._buffer.first()) is not None:
            self._ready.append(
                OpenBlock(fetched, self._terms) if isinstance(fetched, FetchedBlock) else fetched
            )
            self._buffer.remove_first()

    def _drop(self, entry: Entry) -> None:
        partition = partition_of(entry)
        if isinstance(entry, OpenBlock):
            block = entry
            block.park()
            self._buffer.decoding_bytes = 0
            self._buffer.free(block.fetched)
        else:
            partition.consumed_count += 1
        self._on_freed(partition)

    def _is_current(self, entry: Entry) -> bool:
        return is_of_newest_start(entry) and self._assignment.has(partition_of(entry))
