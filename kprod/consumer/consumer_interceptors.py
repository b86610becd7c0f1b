"""Calls a consumer's interceptors in order; an exception in one is logged and ignored.

Thread-safety: the polling thread; `close` on the thread that closes.
Source: KIP-42; Kafka ConsumerInterceptors (clients 4.3.1) for the handling of exceptions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kprod.guarded_log import guarded_logger
from kprod.interfaces import ConsumerInterceptor
from kprod.model import OffsetAndMetadata, TopicPartition

_logger = guarded_logger(__name__)


class ConsumerInterceptors:
    """All interceptors of one consumer."""

    __slots__ = ("_chain",)

    def __init__(self, chain: Sequence[ConsumerInterceptor]) -> None:
        """Keep the interceptors in order.

        Args:
            chain: The interceptors, in the order in which they are called.
        """
        self._chain = tuple(chain)

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Pass records through all interceptors.

        Args:
            records: Records that are to be returned; at least one.

        Returns:
            The records to return.
        """
        if self._chain:
            records = list(records)  # the caller keeps its own, which no interceptor changes
        for interceptor in self._chain:
            try:
                records = _checked(interceptor.on_consume(records), records)
            except Exception:
                _logger.exception("%r failed in on_consume; the records continue", interceptor)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell all interceptors of committed offsets.

        Args:
            offsets: The offsets by partition.
        """
        for interceptor in self._chain:
            call = getattr(interceptor, "on_commit", None)
            try:
                if call is not None:
                    call(dict(offsets))
            except Exception:
                _logger.exception("%r failed in on_commit", interceptor)

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._chain

    def close(self) -> None:
        """Close all interceptors."""
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                _logger.exception("%r failed to close", interceptor)


def _checked(given: Iterable[Any], before: list[Any]) -> list[Any]:
    """Make a list of what an interceptor returned, if its offsets ascend as before."""
    # A loop's position is the offset of the record in hand; in another order, leaving the loop
    # would lose records.
    records = list(given)
    offsets = iter([record.offset for record in before])
    for record in records:
        if not isinstance(record.offset, int) or record.offset not in offsets:  # takes from it
            raise ValueError(
                f"offset {record.offset!r:.40} is not among the offsets of the records that were"
                " passed, or not in their order"
            )
    return records
