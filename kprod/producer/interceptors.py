"""Calls a producer's interceptors in order; an exception in one is logged and ignored.

A record passes `on_send` of each before any other processing, in the caller's thread. Each accepted
record passes `on_acknowledgement` once, before its own callback, in the sender's thread. A record
that `send` rejects has no acknowledgement.

Thread-safety: `on_send` from any thread; the rest by the sender.
Source: KIP-42; Kafka ProducerInterceptors (clients 4.3.1) for the handling of exceptions.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger
from kprod.interfaces import Interceptor, OutgoingRecord
from kprod.model import Header, RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, KprodError | None], object]

_logger = guarded_logger(__name__)


class Interceptors:
    """All interceptors of one consumer."""

    __slots__ = ("_chain",)

    def __init__(self, chain: Sequence[Interceptor]) -> None:
        """Keep the interceptors in order.

        Args:
            chain: The interceptors, in the order in which they are called.
        """
        self._chain = tuple(chain)

    def on_send(self, record: tuple[Any, ...]) -> OutgoingRecord:
        """Pass a record through all interceptors.

        Args:
            record: Topic, value, key, headers, partition, timestamp_ms, as given to `send`.

        Returns:
            The record to send.

        Raises:
            TypeError: The headers are neither pairs nor a mapping.
        """
        topic, value, key, headers, partition, timestamp_ms = record
        shown = OutgoingRecord(topic, value, key, _as_headers(headers), partition, timestamp_ms)
        for interceptor in self._chain:
            try:
                shown = OutgoingRecord(*interceptor.on_send(shown))
            except Exception:
                _logger.exception("%r failed in on_send; the record continues", interceptor)
        return shown

    def watching(self, on_delivery: OnDelivery | None) -> OnDelivery:
        """Create the delivery callback that reports a record's outcome to the interceptors.

        Args:
            on_delivery: The application's callback, called after them.

        Returns:
            A delivery callback.

        Raises:
            TypeError: `on_delivery` is not callable.
        """
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(
                f"on_delivery must be callable or None, got {type(on_delivery).__name__}"
            )

        def tell(metadata: RecordMetadata | None, error: KprodError | None) -> None:
            for interceptor in self._chain:
                try:
                    interceptor.on_acknowledgement(metadata, error)
                except BaseException:  # even after SystemExit the other interceptors are called
                    _logger.exception("%r failed in on_acknowledgement", interceptor)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return tell

    def close(self) -> None:
        """Close all interceptors."""
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                _logger.exception("%r failed to close", interceptor)


def _as_headers(headers: Any) -> tuple[Header, ...]:  # noqa: ANN401 - as the application gave it
    if headers is None:
        return ()
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return tuple(itertools.starmap(Header, pairs))
    except TypeError:
        raise TypeError(
            "headers must be pairs of str and bytes-like, or a mapping of them, got"
            f" {type(headers).__name__}"
        ) from None
