# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""A cursor over a fetched block, with the records that were decoded and not returned.

Thread-safety: the polling thread.
"""

from typing import Any

from kprod._core.record.record_block import RecordBlock, open_record_block
from kprod.consumer.deserializers import RecordDeserializers
from kprod.consumer.fetch_buffer import FetchedBlock
from kprod.consumer.position import NO_EPOCH, AssignedPartition, Place, new_place
from kprod.errors import DeserializationFailed

_NO_EPOCH = NO_EPOCH  # a C integer: see the `.pxd`
_NONE: list[Any] = []  # never changed; blocks are made for each response


class DecodingTerms:
    """Rules for decoding records; immutable.

    Attributes:
        reads_committed: Whether records of aborted transactions are skipped.
        check_crcs: Whether checksums are verified.
        as_views: Whether keys and values are returned as memoryviews.
        deserializers: The application's deserializers.
        is_deserializing: Whether there is any.
    """

    def __init__(
        self,
        *,
        reads_committed: bool,
        check_crcs: bool,
        as_views: bool,
        deserializers: RecordDeserializers,
    ) -> None:
        self.reads_committed: bool = reads_committed
        self.check_crcs: bool = check_crcs
        self.as_views: bool = as_views
        self.deserializers: RecordDeserializers = deserializers
        self.is_deserializing: bool = deserializers.is_needed


class OpenBlock:
    """A cursor over one fetched block.

    Attributes:
        fetched: The block.
        partition: The block's partition.
        next_offset: All records below it were returned or skipped.
        epoch: Leader epoch of the last record that was returned or skipped; −1 if unknown.
        is_done: Whether the block is exhausted and will be freed with the next hand-out.
    """

    def __init__(self, fetched: FetchedBlock, terms: DecodingTerms) -> None:
        """Start at the requested offset.

        Args:
            fetched: A block of which nothing was returned.
            terms: Rules for decoding records.
        """
        self.fetched: FetchedBlock = fetched
        self.partition: AssignedPartition = self.fetched.partition
        self.next_offset: int = self.fetched.offset
        self._start_offset: int = self.next_offset
        self.epoch: int = _NO_EPOCH
        self.is_done: bool = False
        self._terms = terms
        self._block: RecordBlock | None = None
        self._waiting = _NONE  # decoded, not yet deserialized
        self._ready = _NONE  # deserialized, given back by an interrupted hand-out
        # deserialized in this hand-out, by offset; None if nothing was
        self._results: dict[int, Any] | None = None

    def decoder(self) -> RecordBlock:
        """Return the decoder of the block, which is created on first use."""
        if self._block is None:
            self._block = self._new_decoder()
        return self._block

    def _new_decoder(self) -> RecordBlock:
        fetched, terms = self.fetched, self._terms
        records, stamp = fetched.records, fetched.partition.stamp
        if not terms.reads_committed:
            return open_record_block(
                records, stamp, self._start_offset, terms.check_crcs, terms.as_views
            )
        return RecordBlock(
            records,
            stamp,
            self._start_offset,
            aborted=fetched.aborted,
            read_committed=True,
            check_crcs=terms.check_crcs,
            as_views=terms.as_views,
        )

    def is_exhausted(self) -> bool:
        """Return whether nothing is left to return."""
        return not self._ready and not self._waiting and self.decoder().is_exhausted()

    def place(self) -> Place:
        """Return the position after the returned records."""
        return new_place(self.fetched.number, self.next_offset, self.epoch)

    def take(self, count: int) -> list[Any]:
        """Take the next records.

        Args:
            count: Maximum number, at least 1.

        Returns:
            The records; may be empty if the rest was skipped.

        Raises:
            CorruptRecord: The next batch is malformed.
            DeserializationFailed: A deserializer failed on the next record.
        """
        if self._ready:
            taken, self._ready = self._ready[:count], self._ready[count:]
            self._note(taken)
            return taken
        block = self.decoder()
        if not self._terms.is_deserializing:
            taken = block.take(count)
            if taken:
                self.epoch = _NO_EPOCH  # it may be older than the one before a rewind
            self.follow_decoder()
            return taken
        if not self._waiting:
            self._waiting = block.take(count)
        taken = self._deserialized(count)
        self._note(taken)
        if not self._waiting:
            self.follow_decoder()
        return taken

    def stop_between(self) -> None:
        """Move the decoder to the next record, so that it may be used directly."""
        if self._ready or self._waiting:
            self.rewind(self.place())

    def follow_decoder(self) -> None:
        """Move the cursor to the decoder's position: batches without records count as well."""
        block = self.decoder()
        self.next_offset = block.next_offset
        # Epochs ascend in a log; after a rewind the decoder knows none until it opens a batch.
        self.epoch = max(self.epoch, block.epoch)

    def give_back(self, records: list[Any], place: Place) -> None:
        """Return the last records of the most recent `take` to the block.

        Args:
            records: The records to give back, as `take` returned them.
            place: The position after the last returned record.
        """
        if records:
            self._ready = records + self._ready
            self.next_offset = place.offset
            self.epoch = place.epoch
            self.is_done = False

    def skip(self, offset: int) -> bool:
        """Skip the record that could not be deserialized.

        Args:
            offset: The record's offset.

        Returns:
            False if it is not the next record.
        """
        if self._ready or not self._waiting or self._waiting[0].offset != offset:
            return False
        self._note(self._waiting[:1])
        self._waiting = self._waiting[1:]
        if not self._waiting:
            self.follow_decoder()
        return True

    def rewind(self, place: Place | None) -> None:
        """Go back to the last confirmed position.

        Args:
            place: The position to go to; None, or a position of another start, goes to the
                beginning.
        """
        if place is not None and place.number == self.fetched.number:
            self.next_offset = max(self.fetched.offset, place.offset)
            self.epoch = place.epoch
        else:
            self.next_offset = self.fetched.offset
            self.epoch = _NO_EPOCH
        self._start_offset = self.next_offset
        self._block = None
        self._waiting = self._ready = _NONE
        self.is_done = False

    def forget_results(self) -> None:
        """Forget the deserialized objects, since the records have reached the application."""
        self._results = None

    def park(self) -> None:
        """Free the decoder, which holds memory; it is created again on use."""
        if self._block is not None:
            self._start_offset = self._block.next_offset
            self._block = None

    def _note(self, taken: list[Any]) -> None:
        if taken:
            last = taken[-1]
            self.next_offset = last.offset + 1
            epoch = last.leader_epoch
            self.epoch = _NO_EPOCH if epoch is None else epoch

    def _deserialized(self, count: int) -> list[Any]:
        # Results of an interrupted hand-out are used again; otherwise a signal handler that raises
        # again and again could keep a hand-out from ever being completed.
        made: list[Any] = []
        run, results = self._terms.deserializers.run, self._results
        if results is None:
            results = self._results = {}
        try:
            for record in self._waiting[:count]:
                offset = record.offset
                if offset not in results:
                    results[offset] = run(record)
                made.append(results[offset])
        except DeserializationFailed:
            if not made:
                raise
        self._waiting = self._waiting[len(made) :]
        return made
