"""Hands records out, in the application's thread: each once, in order, and none lost on the way.

What a call hands out counts as handed out only when the call has returned: `poll` may be left by an
exception out of a signal handler (Ctrl-C) anywhere. So a hand-out has two halves. `take` decodes
records and notes the blocks that it touched; `complete` says that the records have reached the
application. The next call settles the hand-out before: a completed one moves the positions and
frees blocks that are exhausted; another one is rewound, and its records are handed out again.

The iterator hands out a *chunk*: records of one block. When a pause, a seek, a close or another
call comes in the middle of it, the rest is given back to the block.

Thread-safety: one thread at a time, which the engine sees to; `interrupt` any thread.
Source: Kafka FetchCollector and CompletedFetch (clients 4.3.1).
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable
from typing import Any

from kprod._core.arrow.arrow_records import ArrowColumns
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock, FetchedStep
from kprod.consumer.iterator_chunk import Chunk
from kprod.consumer.open_block import DecodingTerms, OpenBlock
from kprod.consumer.position import AssignedPartition, Place
from kprod.errors import ConcurrentPoll, CorruptRecord

_PARKED_RATIO = 2  # paused partitions may hold one byte in so many of the memory


class HandOver:
    """The records of one consumer on their way to the application."""

    def __init__(
        self,
        buffer: FetchBuffer,
        terms: DecodingTerms,
        on_freed: Callable[[AssignedPartition], object],
    ) -> None:
        """Start with nothing to hand out.

        Args:
            buffer: Has the blocks.
            terms: How to decode them.
            on_freed: Told of each partition that may be fetched again.
        """
        self._buffer = buffer
        self._terms = terms
        self._on_freed = on_freed
        self._ready: deque[OpenBlock | FetchedStep] = deque()
        self._parked: dict[AssignedPartition, deque[OpenBlock | FetchedStep]] = {}
        self._touched: list[OpenBlock] = []
        self._is_complete = False
        self._chunk: Chunk | None = None
        self.record_count: int = 0

    @property
    def has_work(self) -> bool:
        """Whether `take` may find something; any thread."""
        return bool(self._ready) or self._buffer.has_arrived

    def take(self, count: int, *, from_one: bool = False) -> list[Any]:
        """Take records for a hand-out.

        Args:
            count: At most so many, at least 1.
            from_one: Only of one block.

        Returns:
            Of each partition in ascending order; empty if there are none now.

        Raises:
            KprodError: The next batch or record cannot be used; others come before it next time.
        """
        self.settle()
        records: list[Any] = []
        while len(records) < count:
            block = self._current(may_run=not records)
            if block is None:
                break
            self._touched.append(block)
            try:
                taken = block.take(count - len(records))
            except Exception:
                if records:
                    break
                self._touched.pop()
                self._ready.rotate(-1)  # the others are not kept waiting
                raise
            records += taken
            self._buffer.decoding_bytes = block.decoder.decompressed_size
            self.remove_exhausted(block)
            if taken and from_one:
                break
        return records

    def take_columns(self, columns: ArrowColumns, rows_max: int, bytes_max: int) -> int:
        """Take rows for a hand-out.

        Args:
            columns: Without rows; gets them.
            rows_max: At most so many, at least 1.
            bytes_max: No row is begun behind so many bytes.

        Returns:
            How many there are now.

        Raises:
            CorruptRecord: The next batch cannot be used; others come before it next time.
        """
        self.settle()
        while columns.row_count < rows_max and columns.content_bytes < bytes_max:
            block = self._current(may_run=not columns.row_count)
            if block is None:
                break
            self._touched.append(block)
            block.stop_between()
            try:
                count = columns.append(
                    block.decoder, rows_max - columns.row_count, bytes_max - columns.content_bytes
                )
            except CorruptRecord:
                if columns.row_count:
                    break
                self._touched.pop()
                self._ready.rotate(-1)
                raise
            block.note_columns()
            self.remove_exhausted(block)
            if not count and not block.is_done:
                break  # no room for the next row
        return columns.row_count

    def remove_exhausted(self, block: OpenBlock) -> None:
        """Have the next block be the current one, if this one is exhausted.

        Args:
            block: The current one.
        """
        if block.is_exhausted:
            block.is_done = True
            self._ready.popleft()

    def complete(self, count: int) -> None:
        """Say that what was taken has reached the application.

        Args:
            count: How many records.
        """
        self.record_count += count
        self._is_complete = True

    def begin_chunk(self, records: list[Any], ident: Hashable) -> Chunk:
        """Hand out records of one block one by one.

        Args:
            records: As they are handed out; at least one.
            ident: Of the calling thread.

        Returns:
            To be ended by `end_chunk`.
        """
        self.complete(len(records))
        chunk = self._chunk = Chunk(self._touched[-1], records, ident)
        return chunk

    def records_of(self, chunk: Chunk) -> Generator[Any]:
        """Hand out a chunk one by one, until its end or an interruption.

        Args:
            chunk: As `begin_chunk` made it.

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

    def end_chunk(self, chunk: Chunk) -> None:
        """Give the rest of a chunk back; again does nothing.

        Args:
            chunk: Any.
        """
        chunk.is_interrupted = True
        if self._chunk is not chunk:
            return
        rest = chunk.rest
        if rest:
            offset = rest[0].offset if chunk.in_hand is None else chunk.in_hand.offset + 1
            chunk.block.give_back(rest, offset)
            self.record_count -= len(rest)
            if chunk.block not in self._ready:
                self._ready.appendleft(chunk.block)
        self._chunk = None

    def interrupt(self) -> None:
        """Have the iterator look again before its next record; any thread."""
        chunk = self._chunk
        if chunk is not None:
            chunk.is_interrupted = True

    def place_of(self, partition: AssignedPartition) -> Place | None:
        """How far a partition was handed out, the newest hand-out included; any thread.

        Args:
            partition: Assigned.

        Returns:
            None while its offset is not known.
        """
        number = partition.start.number
        chunk = self._chunk
        if chunk is not None and chunk.block.partition is partition and chunk.in_hand is not None:
            place = Place(chunk.block.fetched.number, chunk.in_hand.offset + 1)
            if place.number == number:
                return place
        if self._is_complete:
            for block in reversed(list(self._touched)):
                if block.partition is partition and block.fetched.number == number:
                    return block.place
        return partition.place

    def settle(self) -> None:
        """Move the positions behind the newest hand-out, or take it back if it came to nothing."""
        if self._chunk is not None:
            self.end_chunk(self._chunk)
        if not self._touched:
            return
        if self._is_complete:
            for block in self._touched:
                if block.fetched.is_current:
                    block.partition.handed = block.place
                if block.is_done:
                    self._drop(block)
        else:
            for block in reversed(self._touched):
                block.rewind(block.partition.handed)
                if block not in self._ready:
                    self._ready.appendleft(block)
        self._touched = []
        self._is_complete = False

    def check_ident(self, ident: Hashable) -> None:
        """Refuse a call while another thread is in the middle of a chunk.

        Args:
            ident: Of the calling thread.

        Raises:
            ConcurrentPoll: It is.
        """
        chunk = self._chunk
        if chunk is not None and chunk.ident != ident:
            raise ConcurrentPoll(
                "another thread iterates over this consumer; one thread at a time may read"
            )

    def resume(self, partition: AssignedPartition) -> None:
        """Hand out parked blocks again.

        Args:
            partition: Not paused any more.
        """
        parked = self._parked.pop(partition, None)
        if parked is not None:
            self._ready.extendleft(each for each in reversed(parked) if each not in self._ready)

    def skip(self, partition: AssignedPartition, offset: int) -> bool:
        """Pass over a record that could not be deserialized.

        Args:
            partition: Its.
            offset: Its.

        Returns:
            False if it is not the next one.
        """
        self.settle()
        for entry in self._ready:
            if isinstance(entry, OpenBlock) and entry.partition is partition:
                if not entry.skip(offset):
                    return False
                partition.handed = entry.place
                return True
        return False

    def drop_stale(self) -> None:
        """Free blocks of older starts; those of paused partitions would hold memory otherwise."""
        self.settle()
        self._take_arrived()
        for entries in (self._ready, *self._parked.values()):
            for entry in [each for each in entries if not _is_current(each)]:
                entries.remove(entry)
                self._drop(entry)

    def drop_parked(self) -> list[AssignedPartition]:
        """Free what paused partitions hold beyond their part of the memory, oldest first.

        Returns:
            The partitions that must be fetched again from where they are.
        """
        limit_bytes = self._buffer.capacity_bytes // _PARKED_RATIO
        dropped: list[AssignedPartition] = []
        while self._parked and self._parked_bytes() > limit_bytes:
            partition = next(iter(self._parked))
            for entry in self._parked.pop(partition):
                self._drop(entry)
            dropped.append(partition)
        return dropped

    def clear(self) -> None:
        """Free everything."""
        self._take_arrived()
        for entry in [*self._ready, *(it for each in self._parked.values() for it in each)]:
            self._drop(entry)
        self._ready.clear()
        self._parked.clear()
        self._touched = []
        self._chunk = None

    def _current(self, *, may_run: bool) -> OpenBlock | None:
        """Find the next block of a partition that is not paused; run the steps on the way."""
        while True:
            self._take_arrived()
            if not self._ready:
                return None
            entry = self._ready[0]
            if not _is_current(entry):
                self._ready.popleft()
                self._drop(entry)
            elif entry.partition.paused:
                self._park(entry)
            elif isinstance(entry, OpenBlock):
                return entry
            elif not may_run:
                return None
            else:
                self._ready.popleft()
                self._drop(entry)
                entry.run()

    def _take_arrived(self) -> None:
        while (fetched := self._buffer.first()) is not None:
            newest = self._ready[-1] if self._ready else None
            is_here = (newest.fetched if isinstance(newest, OpenBlock) else newest) is fetched
            if not is_here:  # else a signal handler came between the two steps
                self._ready.append(
                    OpenBlock(fetched, self._terms)
                    if isinstance(fetched, FetchedBlock)
                    else fetched
                )
            self._buffer.remove_first()

    def _park(self, entry: OpenBlock | FetchedStep) -> None:
        parked = self._parked.setdefault(entry.partition, deque())
        if entry not in parked:
            parked.append(entry)
        if isinstance(entry, OpenBlock):
            entry.park()
        self._ready.popleft()

    def _parked_bytes(self) -> int:
        return sum(
            len(entry.fetched.records)
            for entries in self._parked.values()
            for entry in entries
            if isinstance(entry, OpenBlock)
        )

    def _drop(self, entry: OpenBlock | FetchedStep) -> None:
        if isinstance(entry, OpenBlock):
            entry.park()
            self._buffer.free(entry.fetched)
        else:
            entry.partition.consumed_count += 1
        self._on_freed(entry.partition)


def _is_current(entry: OpenBlock | FetchedStep) -> bool:
    if isinstance(entry, OpenBlock):
        return entry.fetched.is_current
    return entry.number == entry.partition.start.number
