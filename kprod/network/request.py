# cython: annotation_typing=False, nonecheck=True
"""A request as the client takes it, and what became of it.

Thread-safety: immutable values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kprod.errors import KprodError, LocalProtocolError
from kprod.network.framing import Frame
from kprod.network.outgoing import OutgoingFrame, Piece
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header


class Outcome:  # noqa: B903 - those would be made by Python code
    """What became of one request; exactly one of them is made for each.

    Attributes:
        node_id: Where it was sent.
        version: The version it was written in; −1 if it never was encoded.
        was_written: Whether the socket took at least one byte: if so, and there is no `body`, the
            broker may have acted on it.
        latency_ms: From `send` to this outcome.
        now_ms: Monotonic, when it was found.
        body: The decoded response, or what the request's `read` made of it. None for an error, and
            for a request without response.
        error: Why there is no response; None on success.
    """

    __slots__ = ("body", "error", "latency_ms", "node_id", "now_ms", "version", "was_written")

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

    Attributes:
        node_id: Which node.
        api_key: Which request.
        on_complete: Called once, at the end of a `poll`, in its thread.
        body: Fields for the codec. Either this or `build`.
        build: Makes the whole frame, length included, of (version, correlation id, client id); for
            requests whose bytes lie elsewhere already.
        read: Makes something of (frame, version) of a response, size prefix excluded; None, and it
            is decoded. For answers that are read more often than others.
        versions: First and last version that the caller can use; None for all that kprod has.
        expects_response: False when the broker will send none (Produce with acks=0); the request is
            then complete when it is written.
        timeout_ms: From `send` to the response, at least 1; None for `request_timeout_ms`.
    """

    __slots__ = (
        "api_key",
        "body",
        "build",
        "expects_response",
        "node_id",
        "on_complete",
        "read",
        "timeout_ms",
        "versions",
    )

    def __init__(  # noqa: PLR0913 - its attributes
        self,
        *,
        node_id: int,
        api_key: ApiKey,
        on_complete: Callable[[Outcome], object],
        body: Mapping[str, Any] | None = None,
        build: Callable[[int, int, str], list[Piece]] | None = None,
        read: Callable[[Frame, int], object] | None = None,
        versions: tuple[int, int] | None = None,
        expects_response: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.api_key = api_key
        self.on_complete = on_complete
        self.body = body
        self.build = build
        self.read = read
        self.versions = versions
        self.expects_response = expects_response
        self.timeout_ms = timeout_ms

    @property
    def wanted_versions(self) -> tuple[int, int]:
        """First and last version to choose from."""
        return self.versions or SUPPORTED[self.api_key]


def decode_response(request: ClientRequest, version: int, frame: Frame) -> Any:  # noqa: ANN401
    """Read the answer to a request.

    What follows the body is ignored, as Kafka's own client does; librdkafka's mock cluster (2.16)
    ends its Metadata answers with a stray byte.

    Args:
        request: That was answered.
        version: It was written in.
        frame: The answer, without its length.

    Returns:
        What the request's `read` makes of it; else its fields, a dict.

    Raises:
        RemoteProtocolError: It is no such answer.
    """
    if request.read is not None:
        made = request.read(frame, version)
        if made is not None:
            return made
    _, body_offset = decode_response_header(request.api_key, version, frame)
    codec = response_codec(request.api_key, version)
    return codec.decode_prefix(memoryview(frame)[body_offset:])[0]


def encode_request(
    request: ClientRequest, version: int, correlation_id: int, client_id: str
) -> OutgoingFrame:
    """Make the bytes of a request.

    Args:
        request: What to send.
        version: As chosen with the peer.
        correlation_id: Comes back in the response.
        client_id: The client's name for itself.

    Returns:
        The frame, nothing of it written.

    Raises:
        LocalProtocolError: The body does not fit the version, or there is neither body nor `build`.
    """
    if request.build is not None:
        return OutgoingFrame(request.build(version, correlation_id, client_id))
    if request.body is None:
        raise LocalProtocolError(f"a {request.api_key.name} request has neither body nor build")
    header = encode_request_header(request.api_key, version, correlation_id, client_id)
    body = request_codec(request.api_key, version).encode(request.body)
    length = (len(header) + len(body)).to_bytes(4, "big")
    return OutgoingFrame([b"".join((length, header, body))])
