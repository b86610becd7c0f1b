"""The interceptors of a consumer, one after the other; one that fails costs a log line.

Thread-safety: the thread that polls; `close` the one that closes.
Source: KIP-42; Kafka ConsumerInterceptors (clients 4.3.1) for the isolation of faults.
"""

from collections.abc import Sequence
from typing import Any

from kprod.guarded_log import guarded_logger
from kprod.interfaces import ConsumerInterceptor

_logger = guarded_logger(__name__)


class ConsumerInterceptors:
    """All interceptors as one."""

    __slots__ = ("_chain",)

    def __init__(self, chain: Sequence[ConsumerInterceptor]) -> None:
        """Take them in the order in which records pass.

        Args:
            chain: Any number.
        """
        self._chain = tuple(chain)

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Show records to each.

        Args:
            records: That are handed out; at least one.

        Returns:
            The records to hand out.
        """
        for interceptor in self._chain:
            try:
                records = list(interceptor.on_consume(records))
            except Exception:
                _logger.exception("%r failed in on_consume; the records continue", interceptor)
        return records

    def close(self) -> None:
        """Close each."""
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                _logger.exception("%r failed to close", interceptor)
