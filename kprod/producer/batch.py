# cython: annotation_typing=False, nonecheck=True
"""A batch in progress: its bytes, its futures' shared result, and its attempts.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A batch is open (accepts records), sealed, with a codec packed (its records are compressed), closed
(bytes are final), in flight or waiting for a retry, and done. Settling the result and releasing the
memory are two events: the memory is released by the chain's last holder.

The batch is its own timer task, since ten thousand lingering batches would mean as many extra
objects.

Thread-safety: created by a sending thread, then used by the sender alone.
Source: Kafka ProducerBatch (clients 4.3.1); KAFKA-19012; kprod's departures 1, 4, 18.
"""

from typing import TYPE_CHECKING

from kprod._core.collector import untrack
from kprod._core.memory.chunk_pool import ChunkChain
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.timer.timer_task import TimerTask
from kprod.errors import KprodError, Persistence

if TYPE_CHECKING:
    from collections.abc import Callable

    from kprod.compression import Buffer
    from kprod.producer.partition_queue import PartitionQueue
    from kprod.protocol.produce_frame import Piece

NO_SEQUENCE = -1


class ProducerBatch(TimerTask):
    """One batch of one partition, and its timer: for linger first, then for its delivery deadline.

    Attributes:
        queue: The queue that has the batch.
        builder: Encodes the records.
        result: The result that its futures share.
        is_due: Whether it is sendable though not full: lingered, flushed, or a send waits for
            memory.
        attempts: Number of requests that contained it.
        in_flight: Whether it is in a request that is not complete.
        maybe_persisted: Whether an attempt may be in the log; never reset.
        base_sequence: Sequence of its first record; `NO_SEQUENCE` until it is first drained.
        verdict: The error with which it fails once the batches before it are settled; None if there
            is none.
        on_due: Called by its timer with the batch.
    """

    def __init__(
        self, queue: "PartitionQueue", chain: ChunkChain, limit_bytes: int, now_ms: int
    ) -> None:
        # Reference cycles through it exist only while it is in its queue: until it is done, or its
        # producer ends.
        untrack(self)
        self.queue = queue
        self.builder: BatchBuilder = BatchBuilder(chain, limit_bytes)
        self.result: BatchResult = BatchResult(queue.topic, queue.partition)
        self.result.created_ms = now_ms
        self.is_armed = False
        self.is_due = False
        self.is_released: bool = False
        self.attempts = 0
        self.in_flight = False
        self.maybe_persisted = False
        self.base_sequence: int = NO_SEQUENCE
        self.producer_id: int = -1
        self.producer_epoch: int = -1
        self.pieces: list[Piece] | None = None
        self.verdict: KprodError | None = None
        self.on_due: Callable[[ProducerBatch], object] | None = None

    def run(self) -> object:
        """Timer callback: linger is over, or the delivery deadline has passed."""
        assert self.on_due is not None  # noqa: S101 - set by the owner of the timer
        return self.on_due(self)

    @property
    def record_count(self) -> int:
        """Number of records so far."""
        return self.builder.record_count

    @property
    def created_ms(self) -> int:
        """Monotonic time of its first record; linger and delivery timeout count from it."""
        return self.result.created_ms

    @property
    def is_done(self) -> bool:
        """Whether its futures are settled."""
        return self.result.done

    @property
    def has_sequence(self) -> bool:
        """Whether it has a sequence, which it keeps while its outcome is unknown."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def is_behind(self) -> bool:
        """Whether an older batch of its partition is not settled."""
        return self.has_sequence and not self.is_done and self.queue.batches[0] is not self

    @property
    def encoded_bytes(self) -> int:
        """Size on the wire once packed or closed; before that the uncompressed size."""
        return self.builder.encoded_bytes or self.builder.size_bytes

    def assign(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Assign producer id, epoch and sequence; in a closed batch the header is rewritten."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        if self.pieces is not None:
            self.builder.rewrite_producer(producer_id, producer_epoch, base_sequence)

    @property
    def is_unpacked(self) -> bool:
        """Whether its records would still have to be compressed."""
        return self.pieces is None and not self.builder.is_packed

    def pack(self, packed: "Buffer") -> None:
        """Replace the records by their compressed form."""
        self.builder.pack(packed)

    def close(self, attributes: int) -> "list[Piece]":
        """Encode the batch.

        Args:
            attributes: Number of the codec; if it is not 0, the batch is packed.

        Returns:
            The pieces to send.
        """
        self.pieces = self.builder.close(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            attributes=attributes,
        )
        return self.pieces

    def succeed(self, base_offset: int, log_append_time_ms: int) -> bool:
        """Settle all records as delivered; False if they were settled already."""
        self.cancel()
        return self.result.complete(base_offset, log_append_time_ms)

    def fail(self, error: KprodError, record_errors: dict[int, KprodError] | None = None) -> bool:
        """Settle all records with an error.

        Args:
            error: The error; its `persistence` is set here, according to the attempts.
            record_errors: Errors of single records, by index.

        Returns:
            False if they were settled already; then nothing changes.
        """
        persistence = (
            Persistence.POSSIBLY_PERSISTED
            if self.maybe_persisted or self.in_flight
            else Persistence.NOT_PERSISTED
        )
        error.persistence = persistence
        for record_error in (record_errors or {}).values():
            record_error.persistence = persistence
        self.cancel()
        return self.result.complete(error=error, record_errors=record_errors)

    def forward(self, parts: "list[ProducerBatch]") -> None:
        """Make the parts of a split batch report the outcome of its records; atomic.

        Args:
            parts: The parts in order; together they have all its records.
        """
        first = 0
        forwards = []
        for part in parts:
            forwards.append((first, part.result))
            first += part.record_count
        self.result.forward(forwards)

    def release(self) -> None:
        """Release the batch's hold on its memory; requests may still hold it."""
        if not self.is_released:
            self.is_released = True
            self.builder.seal()
            self.builder.chain.release()
