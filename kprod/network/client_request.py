# cython: annotation_typing=False, nonecheck=True
"""A request to a node, and its outcome.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Thread-safety: immutable values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.error_text import error_text
from kprod.errors import Disconnected, KprodError, LocalProtocolError, without_frames
from kprod.network.framing import Frame
from kprod.network.outgoing import OutgoingFrame
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header

ANSWER_BYTES = 32 * 1024
"""Memory for the fields of any response, in addition to its size in bytes."""

_USUAL_BOUNDS = Bounds(memory_bytes=ANSWER_BYTES)


class Outcome:  # noqa: B903 - those would be made by Python code
    """The outcome of a request; exactly one is created for each.

    Attributes:
        node_id: The node it was sent to.
        version: The request's version; −1 if it was not encoded.
        was_written: Whether the socket accepted at least one byte. If so, and without a `body`, the
            broker may have executed the request.
        latency_ms: Time from `send` to this outcome.
        now_ms: Monotonic time of the outcome.
        body: The decoded response. None for an error, and for a request without response.
        error: The reason why there is no response; None on success.
    """

    def __init__(  # noqa: PLR0913 - its attributes
        self,
        *,
        node_id: int,
        version: int,
        was_written: bool,
        latency_ms: int,
        now_ms: int,
        body: Any = None,  # noqa: ANN401 - each request's own
        error: KprodError | None = None,
    ) -> None:
        self.node_id = node_id
        self.version = version
        self.was_written = was_written
        self.latency_ms = latency_ms
        self.now_ms = now_ms
        self.body = body
        self.error = error


class ClientRequest:
    """A request to one node.

    Subclasses are requests with pre-encoded bytes or with their own decoder.

    Attributes:
        node_id: Id of the node to send to.
        api_key: Key of the request's API.
        on_complete: Called once with the outcome, at the end of a `poll`, in its thread. If it
            raises an exception, it is called once more, with an error: see `NetworkClient`.
        body: The request's fields.
        versions: First and last version that the caller supports; None for all that kprod has.
        expects_response: False if the broker sends none (Produce with acks=0); the request is then
            complete when it is written.
        timeout_ms: Time from `send` to the response, at least 1; None for `request_timeout_ms`.
        bounds: Memory bounds of the response; None for `ANSWER_BYTES`.
        check: Validates the response's fields; raises RemoteProtocolError for impossible values,
            which closes the connection. None accepts all.
    """

    def __init__(  # noqa: PLR0913 - its attributes
        self,
        *,
        node_id: int,
        api_key: ApiKey,
        on_complete: Callable[[Outcome], object],
        body: Mapping[str, Any] | None = None,
        versions: tuple[int, int] | None = None,
        expects_response: bool = True,
        timeout_ms: int | None = None,
        bounds: Bounds | None = None,
        check: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        self.node_id = node_id
        self.api_key = api_key
        self.on_complete: Callable[..., object] = on_complete
        self.bounds = bounds
        self.check = check
        self.body = body
        self.versions = versions
        self.expects_response = expects_response
        self.timeout_ms = timeout_ms

    @property
    def wanted_versions(self) -> tuple[int, int]:
        """First and last version to choose from."""
        return self.versions or SUPPORTED[self.api_key]

    def encode(self, version: int, correlation_id: int, client_id: str) -> OutgoingFrame:
        """Encode the request.

        Args:
            version: The negotiated version.
            correlation_id: Number that the response repeats.
            client_id: Client id for the broker's logs and quotas; None for none.

        Returns:
            The frame to write.

        Raises:
            LocalProtocolError: The body does not fit the version, or is missing.
        """
        if self.body is None:
            raise LocalProtocolError(f"a {self.api_key.name} request has no body")
        header = encode_request_header(self.api_key, version, correlation_id, client_id)
        body = request_codec(self.api_key, version).encode(self.body)
        length = (len(header) + len(body)).to_bytes(4, "big")
        return OutgoingFrame([b"".join((length, header, body))])

    def decode(self, version: int, frame: Frame) -> Any:  # noqa: ANN401 - each request's own
        """Decode the response.

        Bytes after the body are ignored, as Kafka's client does; librdkafka's mock cluster (2.16)
        ends its Metadata responses with an extra byte.

        Args:
            version: The version of request and response.
            frame: The frame without its length prefix.

        Returns:
            The fields, as a dict.

        Raises:
            RemoteProtocolError: The response is malformed or exceeds its bounds.
        """
        _, body_offset = decode_response_header(self.api_key, version, frame)
        codec = response_codec(self.api_key, version)
        bounds = self.bounds or _USUAL_BOUNDS
        fields, _ = codec.decode_prefix(memoryview(frame)[body_offset:], bounds)
        if self.check is not None:
            self.check(fields)
        return fields

    def complete(self, outcome: Outcome) -> None:
        """Report the outcome.

        Args:
            outcome: The outcome; there is only one, unless this raises an exception.
        """
        self.on_complete(outcome)


def unsent_outcome(request: ClientRequest, error: KprodError, now_ms: int) -> Outcome:
    """Create the outcome of a request of which nothing was written.

    Args:
        request: The request.
        error: The reason.
        now_ms: Monotonic time.

    Returns:
        The outcome: not written, without a version.
    """
    return Outcome(
        node_id=request.node_id,
        version=-1,
        was_written=False,
        latency_ms=0,
        now_ms=now_ms,
        error=error,
    )


def failure_of(request: ClientRequest, outcome: Outcome, cause: Exception) -> Outcome:
    """Create the outcome of a request whose response could not be processed.

    Args:
        request: The request.
        outcome: The outcome that its completion has raised an exception for.
        cause: The exception.

    Returns:
        The same outcome if it is an error; otherwise one with a retriable error and no body.
    """
    if outcome.error is not None:
        return outcome
    error = Disconnected(
        f"the response of node {outcome.node_id} to {request.api_key.name} could not be processed:"
        f" {error_text(cause)}"
    )
    error.__cause__ = without_frames(cause)  # which hold the response
    return Outcome(
        node_id=outcome.node_id,
        version=outcome.version,
        was_written=outcome.was_written,
        latency_ms=outcome.latency_ms,
        now_ms=outcome.now_ms,
        error=error,
    )


def encoding_error(request: ClientRequest, cause: Exception) -> KprodError:
    """Create the error for a request that could not be encoded.

    Args:
        request: The request.
        cause: The exception.

    Returns:
        The error; it is retriable after a MemoryError, since memory may become free.
    """
    text = f"a request for {request.api_key.name} could not be made: {error_text(cause)}"
    error = Disconnected(text) if isinstance(cause, MemoryError) else KprodError(text)
    error.__cause__ = cause
    return error
