"""Follows a log's transactions: which were aborted, and which have no batches left.

The index of aborted transactions tells in advance which records to drop. A marker is needed while
any batch of its transaction is left; a marker whose transaction has no batch may be dropped once
its delete horizon has passed.

Thread-safety: the broker's thread.
Source: Kafka CleanedTransactionMetadata (4.3).
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.transaction_index import AbortedTransaction
from kprod.record.control import ControlType, decode_marker


class MarkerOutcome(NamedTuple):
    """Compaction's decision about a marker.

    Attributes:
        is_needed: Whether a batch of its transaction was found, or the marker ends no transaction
            at all.
        aborted: Entry for the new segment's index of aborted transactions; None unless the marker
            is needed and ends an aborted transaction.
    """

    is_needed: bool
    aborted: AbortedTransaction | None = None


class TransactionOutcomes:
    """The transactions of a log, fed batch by batch."""

    __slots__ = ("_aborted", "_committed", "_met", "_waiting")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Create a filter that expects the log's first batch.

        Args:
            aborted: All aborted transactions of the log.
        """
        # Descending, so that the transaction that begins first is popped first.
        self._waiting = sorted(aborted, key=attrgetter("first_offset"), reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        if not batch.is_transactional:
            return False
        self._begin_up_to(batch.last_offset)
        producer_id = batch.producer_id
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def end(self, batch: RecordBatch) -> MarkerOutcome:
        """Process a control batch, which ends its producer's transaction."""
        self._begin_up_to(batch.last_offset)
        record = next(iter(batch), None)
        if record is None:
            return MarkerOutcome(is_needed=False)  # an earlier round left only its header
        marker = decode_marker(record)
        if marker is None:
            return MarkerOutcome(is_needed=True)
        producer_id = batch.producer_id
        if marker.control_type is ControlType.COMMIT:
            is_needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return MarkerOutcome(is_needed)
        transaction = self._aborted.pop(producer_id, None)
        if producer_id not in self._met:
            return MarkerOutcome(is_needed=False)
        self._met.discard(producer_id)
        return MarkerOutcome(is_needed=True, aborted=transaction)

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            transaction = self._waiting.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)
