# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The producer's id and epoch, and each partition's next sequence.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The broker drops duplicates by (id, epoch, sequence). So a batch keeps its sequence as long as an
attempt may still arrive at a broker. If the sequences cannot continue (a batch failed permanently),
the epoch is raised, which starts every partition at 0.

Invariants.
    A batch of unknown outcome never gets another sequence. The epoch is raised only while nothing
    is in flight and no batch's outcome is unknown.

Thread-safety: the sender.
Source: Kafka TransactionManager (clients 4.3.1), KIP-98, KIP-360, KAFKA-12152; kprod's departures
4, 5 and 9.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kprod.errors import KprodError, RemoteProtocolError
from kprod.metrics.state_log import Event, StateLog
from kprod.producer.batch import NO_SEQUENCE, ProducerBatch
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.transaction.sequences import SEQUENCE_COUNT
from kprod.producer.transaction.transaction_state import IdentityState, move

_READY = IdentityState.READY
EPOCH_MAX = 32767  # an int16


class TransactionManager:
    """The producer id, epoch and sequence of every batch.

    Attributes:
        fatal_error: The error after which nothing can be sent; None if there is none.
    """

    def __init__(self, *, is_idempotent: bool, state_log: StateLog) -> None:
        """Create it without a producer id.

        Args:
            is_idempotent: False assigns no sequences and never requests an id.
            state_log: Logs ids and epochs.
        """
        self._is_idempotent = is_idempotent
        self._state_log = state_log
        self._state = IdentityState.UNINITIALIZED
        self._bump_reason: str | None = None
        self.fatal_error: KprodError | None = None
        self.producer_id: int = -1
        self.producer_epoch: int = -1

    def wants_attention(self) -> bool:
        """Whether a producer id or another epoch is needed."""
        if self._state is _READY:
            return self._bump_reason is not None
        return self._bump_reason is not None or self.wants_producer_id

    @property
    def wants_producer_id(self) -> bool:
        """Whether InitProducerId should be sent."""
        return self._is_idempotent and self._state is IdentityState.UNINITIALIZED

    @property
    def bump_is_pending(self) -> bool:
        """Whether the epoch must be raised once all outcomes are known."""
        return self._bump_reason is not None

    @property
    def is_idempotent(self) -> bool:
        """Whether batches have sequences."""
        return self._is_idempotent

    def producer_id_requested(self) -> None:
        """Record that an InitProducerId request was sent."""
        self._state = move(self._state, IdentityState.INITIALIZING)

    def producer_id_received(self, producer_id: int, producer_epoch: int) -> None:
        """Set the id that a broker assigned."""
        self._state = move(self._state, IdentityState.READY)
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._state_log.note(Event.PRODUCER_ID, id=producer_id, epoch=producer_epoch)

    def producer_id_rejected(self) -> None:
        """Record that InitProducerId failed with a retriable error."""
        if self._state is not IdentityState.UNINITIALIZED:  # it may be told so twice
            self._state = move(self._state, IdentityState.UNINITIALIZED)

    def fail(self, error: KprodError) -> None:
        """Stop sending permanently."""
        self._state = move(self._state, IdentityState.FATAL)
        self._bump_reason = None
        if self.fatal_error is None:
            self._state_log.note(Event.FAILED, reason=error)
        self.fatal_error = error

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be drained: there is an id, and sequences can continue.

        While a raise of the epoch is pending, only batches of unknown outcome are sent. Others
        would keep requests in flight and so delay the raise.

        Args:
            batch: The oldest unsent batch of its queue.

        Returns:
            False if it must stay in its queue.
        """
        if not self._is_idempotent:
            return True
        if self._state is not _READY:
            return False
        if self._bump_reason is None:
            return True
        return batch.has_sequence and batch.queue.unknown_outcome_count > 0

    def assign(self, batch: ProducerBatch) -> None:
        """Assign a sequence to a drained batch, unless it has one."""
        if not self._is_idempotent or batch.base_sequence != NO_SEQUENCE:
            return
        queue = batch.queue
        batch.assign(self.producer_id, self.producer_epoch, queue.next_sequence)
        # `advance` inlined: it is Python code, and this is on the direct path (`COMPILED_MODULES`).
        queue.next_sequence = (queue.next_sequence + batch.builder.record_count) % SEQUENCE_COUNT

    def want_bump(self, reason: str) -> None:
        """Request a new epoch, since a partition's sequences cannot continue."""
        if self._is_idempotent and self._state is IdentityState.READY and not self.bump_is_pending:
            self._bump_reason = reason

    def maybe_bump(self, queues: Iterable[PartitionQueue]) -> bool:
        """Raise the epoch if that is requested and no outcome is unknown.

        Args:
            queues: All queues.

        Returns:
            True if it was raised, so that sequences start at 0.
        """
        if not self.bump_is_pending:
            return False
        queues = list(queues)
        if any(queue.in_flight_count or queue.unknown_outcome_count for queue in queues):
            return False
        self._state_log.note(
            Event.EPOCH_ENDED,
            id=self.producer_id,
            epoch=self.producer_epoch,
            reason=self._bump_reason,
        )
        self._bump_reason = None
        if self.producer_epoch >= EPOCH_MAX:
            self._state = move(self._state, IdentityState.UNINITIALIZED)
        else:
            self.producer_epoch += 1
        for queue in queues:
            queue.next_sequence = 0
            queue.may_pipeline = False
            for index in range(len(queue.batches)):
                queue.batches[index].base_sequence = NO_SEQUENCE
        return True


def check_producer_id(body: Mapping[str, Any]) -> None:
    """Reject an impossible id or epoch.

    Args:
        body: An InitProducerId response.

    Raises:
        RemoteProtocolError: The response is not an error, and its id or epoch is negative.
    """
    producer_id, epoch = body["producer_id"], body["producer_epoch"]
    if not body["error_code"] and (producer_id < 0 or epoch < 0):
        raise RemoteProtocolError(
            f"an InitProducerId response gives producer id {producer_id} and epoch {epoch};"
            " both are at least 0"
        )
