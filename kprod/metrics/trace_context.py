"""Trace context of OpenTelemetry in headers, by an interceptor (`kprod[opentelemetry]`).

    Producer(bootstrap_servers=…, interceptors=[TraceContext()])

Each record gets the headers of the configured propagator, by default traceparent and tracestate of
W3C, from the context that is current where `send` is called. So a consumer's span can continue
the trace, or link to it. It makes no span of its own: a record is sent later, by another thread and
in a batch, so a span around `send` would only measure the append.

Thread-safety: any thread.
Source: W3C Trace Context; OpenTelemetry's semantic conventions for messaging (context in headers).
"""

from opentelemetry import propagate
from opentelemetry.propagators.textmap import TextMapPropagator

from kprod.interfaces import OutgoingRecord
from kprod.model import Header, RecordMetadata


class TraceContext:
    """Adds the current trace context to each record's headers.

    Args:
        propagator: Writes the headers; None takes the global one at each record.
    """

    __slots__ = ("_propagator",)

    def __init__(self, propagator: TextMapPropagator | None = None) -> None:
        self._propagator = propagator

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Add the headers; those that the application has set itself are kept as they are.

        Args:
            record: The record, as given to `send`.

        Returns:
            The record to send; the same one outside of any trace.
        """
        carrier: dict[str, str] = {}
        if self._propagator is None:
            propagate.inject(carrier)
        else:
            self._propagator.inject(carrier)
        if not carrier:
            return record
        given = {header.key for header in record.headers}
        added = tuple(
            Header(name, value.encode()) for name, value in carrier.items() if name not in given
        )
        return record._replace(headers=record.headers + added)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Do nothing: the trace has its own spans."""

    def close(self) -> None:
        """Do nothing."""
