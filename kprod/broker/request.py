"""A request being processed, and its response, which is sent now or later.

A connection's requests are processed one at a time, so responses are in order, and a delayed
request delays the following ones, as in Kafka.

Invariants.
    A request ends exactly once: with a response, without one, or with its connection closed. A
    handler that fails gives the response UNKNOWN_SERVER_ERROR, as in Kafka, and the failure is
    reported: a bug in the broker must not look like a network fault.

Thread-safety: the broker's thread.
Source: Kafka SocketServer (a channel is muted while its request is processed).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kprod.broker.security.access import UNLIMITED, Access
from kprod.errors import KprodError
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode
from kprod.protocol.headers import encode_response_header

if TYPE_CHECKING:
    from kprod.broker.security.session import Session

Body = Mapping[str, Any]


class Reply(Protocol):
    """The connection, as a request uses it."""

    def send(self, frame: bytes) -> None:
        """Send a response, given without its size field, and continue with the next request."""

    def skip(self) -> None:
        """Continue with the next request without a response."""

    def hang(self) -> None:
        """Send no response and never process another request."""

    def close(self) -> None:
        """Close the connection after the unsent responses are written."""

    def mute(self, delay_ms: int) -> None:
        """Process no request for a while (KIP-219)."""

    def report(self, error: Exception) -> None:
        """Report a failure of the broker itself."""

    def fail(self, error: Exception) -> None:
        """Report a failure of the broker itself, and close the connection."""


class Request:
    """A decoded request.

    Attributes:
        node_id: The broker that got the request.
        api_key: The API's key.
        api_version: Version of the request and its response.
        correlation_id: Correlation id of the request and its response.
        client_id: The client id.
        client_host: The client's address with a leading slash, as Kafka writes it.
        body: Decoded fields by name.
        is_done: Whether it has ended.
        throttle_time_ms: Throttle time in the response.
        wants_response: False for a Produce request with acks=0.
        access: The client's rights; unrestricted until the dispatcher sets it.
        session: The login of its connection; None until the dispatcher sets it.
        rejection: Builds a response with an error code; None until the handler is known.
    """

    __slots__ = (
        "_reply",
        "access",
        "api_key",
        "api_version",
        "body",
        "client_host",
        "client_id",
        "correlation_id",
        "is_done",
        "node_id",
        "rejection",
        "session",
        "throttle_time_ms",
        "wants_response",
    )

    def __init__(  # the header's fields, by keyword
        self,
        reply: Reply,
        *,
        node_id: int,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        """Create a request; the body is set after decoding."""
        self._reply = reply
        self.node_id: int = node_id
        self.api_key: int = api_key
        self.api_version: int = api_version
        self.correlation_id: int = correlation_id
        self.client_id: str | None = client_id
        self.client_host: str = ""
        self.body: dict[str, Any] = {}
        self.is_done: bool = False
        self.throttle_time_ms: int = 0
        self.wants_response: bool = True
        self.rejection: Callable[[Request, int], Body] | None = None
        self.session: Session | None = None
        self.access: Access = UNLIMITED

    def answer(self, body: Body) -> None:
        """Encode and send the response; does nothing if the request has ended."""
        self.respond_in_version(body, self.api_version)

    def respond_in_version(self, body: Body, version: int) -> None:
        """Respond in another version than that of the request; only ApiVersions does that."""
        if self.is_done:
            return
        try:
            frame = self._encoded(body, version)
        except KprodError as error:
            self.fail(error)
            return
        self._send(frame)

    def run(self, action: Callable[[], object]) -> None:
        """Run a part of the request; if it raises, the request fails."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is, one request must not end all
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Report a failure of the broker itself, and respond with UNKNOWN_SERVER_ERROR.

        If no response is possible, the connection is closed: the response was sent already, there
        is none, or it cannot be encoded.

        Args:
            error: The failure.
        """
        if self.is_done or self.rejection is None or not self.wants_response:
            self.is_done = True
            self._reply.fail(error)
            return
        try:
            body = self.rejection(self, ErrorCode.UNKNOWN_SERVER_ERROR)
            frame = self._encoded(body, self.api_version)
        except Exception:  # noqa: BLE001 - the first failure is the one to report
            self.is_done = True
            self._reply.fail(error)
            return
        self._reply.report(error)
        self._send(frame)

    def answer_and_close(self, body: Body) -> None:
        """Send the response, then close the connection."""
        if not self.is_done:
            self.answer(body)
            self._reply.close()

    def respond_nothing(self) -> None:
        """End a request that has no response (acks=0)."""
        if not self.is_done:
            self.is_done = True
            self._reply.skip()

    def hang(self) -> None:
        """Never respond, and process no further request of the connection."""
        if not self.is_done:
            self.is_done = True
            self._reply.hang()

    def disconnect(self) -> None:
        """Close the connection instead of responding."""
        if not self.is_done:
            self.is_done = True
            self._reply.close()

    def _encoded(self, body: Body, version: int) -> bytes:
        if self.throttle_time_ms:
            body = {**body, "throttle_time_ms": self.throttle_time_ms}
        header = encode_response_header(self.api_key, version, self.correlation_id)
        return header + response_codec(self.api_key, version).encode(body)

    def _send(self, frame: bytes) -> None:
        self.is_done = True
        if self.throttle_time_ms:
            self._reply.mute(self.throttle_time_ms)
        self._reply.send(frame)

    def shadow(self, reply: Reply, body: dict[str, Any]) -> "Request":
        """Copy the request with another body and another reply."""
        twin = Request(
            reply,
            node_id=self.node_id,
            api_key=self.api_key,
            api_version=self.api_version,
            correlation_id=self.correlation_id,
            client_id=self.client_id,
        )
        twin.body = body
        twin.rejection = self.rejection
        twin.session = self.session
        twin.access = self.access
        twin.client_host = self.client_host
        return twin
