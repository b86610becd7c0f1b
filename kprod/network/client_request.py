# cython: annotation_typing=False, nonecheck=True
"""A request as the client takes it, and what became of it.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Thread-safety: immutable values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.errors import Disconnected, KprodError, LocalProtocolError
from kprod.network.framing import Frame
from kprod.network.outgoing import OutgoingFrame
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header

ANSWER_BYTES = 32 * 1024
"""Memory for the fields of any response, beyond as much as its bytes."""

_USUAL_BOUNDS = Bounds(memory_bytes=ANSWER_BYTES)


class Outcome:  # noqa: B903 - those would be made by Python code
    """What became of one request; exactly one of them is made for each.

    Attributes:
        node_id: Where it was sent.
        version: The version it was written in; −1 if it never was encoded.
        was_written: Whether the socket took at least one byte: if so, and there is no `body`, the
            broker may have acted on it.
        latency_ms: From `send` to this outcome.
        now_ms: Monotonic, when it was found.
        body: What the request made of its response. None for an error, and for a request without
            response.
        error: Why there is no response; None on success.
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
    """One request to one node.

    A request whose bytes are elsewhere already, or whose responses are read more often than
    others, is a subclass.

    Attributes:
        node_id: Which node.
        api_key: Which request.
        on_complete: Called once, at the end of a `poll`, in its thread.
        body: Fields for the codec.
        versions: First and last version that the caller can use; None for all that kprod has.
        expects_response: False when the broker will send none (Produce with acks=0); the request is
            then complete when it is written.
        timeout_ms: From `send` to the response, at least 1; None for `request_timeout_ms`.
        bounds: How much the response may hold, by the request; None for `ANSWER_BYTES`.
        check: Given the response's fields; raises RemoteProtocolError for values that a broker
            cannot mean, which ends the connection. None accepts all.
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
        self.on_complete = on_complete
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
        """Make the request's bytes.

        Args:
            version: As chosen with the peer.
            correlation_id: Comes back in the response.
            client_id: The client's name for itself.

        Returns:
            The frame, nothing of it written.

        Raises:
            LocalProtocolError: The body does not fit the version, or there is none.
        """
        if self.body is None:
            raise LocalProtocolError(f"a {self.api_key.name} request has no body")
        header = encode_request_header(self.api_key, version, correlation_id, client_id)
        body = request_codec(self.api_key, version).encode(self.body)
        length = (len(header) + len(body)).to_bytes(4, "big")
        return OutgoingFrame([b"".join((length, header, body))])

    def decode(self, version: int, frame: Frame) -> Any:  # noqa: ANN401 - each request's own
        """Read the response.

        What follows the body is ignored, as Kafka's own client does; librdkafka's mock cluster
        (2.16) ends its Metadata answers with a stray byte.

        Args:
            version: It is written in.
            frame: Without its length.

        Returns:
            Its fields, a dict.

        Raises:
            RemoteProtocolError: It is no such response, or holds more than was asked for.
        """
        _, body_offset = decode_response_header(self.api_key, version, frame)
        codec = response_codec(self.api_key, version)
        bounds = self.bounds or _USUAL_BOUNDS
        fields, _ = codec.decode_prefix(memoryview(frame)[body_offset:], bounds)
        if self.check is not None:
            self.check(fields)
        return fields

    def complete(self, outcome: Outcome) -> None:
        """Tell what became of it.

        Args:
            outcome: Made once.
        """
        self.on_complete(outcome)


def unsent_outcome(request: ClientRequest, error: KprodError, now_ms: int) -> Outcome:
    """Make the outcome of a request of which nothing was written.

    Args:
        request: That was not sent.
        error: Why not.
        now_ms: Monotonic time.

    Returns:
        Not written, without a version.
    """
    return Outcome(
        node_id=request.node_id,
        version=-1,
        was_written=False,
        latency_ms=0,
        now_ms=now_ms,
        error=error,
    )


def encoding_error(request: ClientRequest, cause: Exception) -> KprodError:
    """Make the error of a request that kprod itself could not encode.

    Args:
        request: Of which nothing was written.
        cause: The error raised.

    Returns:
        Retriable after a MemoryError, since memory comes free again.
    """
    text = f"a request for {request.api_key.name} could not be made: {cause!r}"
    error = Disconnected(text) if isinstance(cause, MemoryError) else KprodError(text)
    error.__cause__ = cause
    return error
