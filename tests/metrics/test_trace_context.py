"""Headers of the current trace, by OpenTelemetry's own propagator and SDK."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kprod import Interceptor, OutgoingRecord, Producer
from kprod.broker import EmbeddedCluster
from kprod.metrics.trace_context import TraceContext
from kprod.model import Header

tracer = TracerProvider().get_tracer("tests")


def test_a_record_carries_the_span_it_was_sent_in() -> None:
    """A consumer's propagator finds the same trace and span in the log."""
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "interceptors": [TraceContext()],
        }
        with Producer(settings) as producer:
            with tracer.start_as_current_span("order") as span:
                producer.send("orders", b"one", headers=[("mine", b"kept")])
            producer.send("orders", b"two")
        one, two = cluster.records("orders")[0]
    carrier = {header.key: (header.value or b"").decode() for header in one.headers}
    assert list(carrier) == ["mine", "traceparent"]
    context = TraceContextTextMapPropagator().extract(carrier)
    found = trace.get_current_span(context).get_span_context()
    wanted = span.get_span_context()
    assert (found.trace_id, found.span_id) == (wanted.trace_id, wanted.span_id)
    assert two.headers == ()


def test_headers_of_the_application_win() -> None:
    """It may continue a trace of its own."""
    interceptor: Interceptor = TraceContext(TraceContextTextMapPropagator())
    record = OutgoingRecord("orders", b"", headers=(Header("traceparent", b"mine"),))
    with tracer.start_as_current_span("order"):
        assert interceptor.on_send(record) == record
    interceptor.on_acknowledgement(None, None)
    interceptor.close()


def test_outside_of_a_trace_nothing_is_added() -> None:
    """The same record."""
    record = OutgoingRecord("orders", b"")
    assert TraceContext().on_send(record) is record
