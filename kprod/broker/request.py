"""One request in a broker's hands, and the one response that it gets, now or later.

A connection's requests are taken one at a time: the next is looked at only when this one is done.
So answers leave in order, and a delayed request holds back those behind it, as in Kafka.

Invariants.
    A request is done exactly once: answered, without a response, or with its connection closed.
    A handler that fails inside is answered with UNKNOWN_SERVER_ERROR, as in Kafka, and the failure
    is reported: a broker that is wrong must not pass for a network that is.

Thread-safety: the broker's thread.
Source: Kafka SocketServer (a channel is muted while its request is in hand).
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
    """The way back to the client."""

    def send(self, frame: bytes) -> None:
        """Send a response, given without its size field, and take the next request."""

    def skip(self) -> None:
        """Send nothing and take the next request."""

    def hang(self) -> None:
        """Send nothing and never take another request."""

    def close(self) -> None:
        """Close the connection after its unsent responses have left."""

    def mute(self, delay_ms: int) -> None:
        """Take no request for a while (KIP-219)."""

    def report(self, error: Exception) -> None:
        """Take note that the broker itself is wrong."""

    def fail(self, error: Exception) -> None:
        """Report that the broker itself is wrong, and close the connection."""


class Request:
    """A decoded request.

    Attributes:
        node_id: The broker that was asked.
        api_key: Which API.
        api_version: Of the request and of its response.
        correlation_id: Of the request and of its response.
        client_id: As the client calls itself.
        client_host: Its address behind a slash, as Kafka writes it.
        body: Fields by name.
        is_done: It was answered, or will not be.
        throttle_time_ms: How long the client is told to wait.
        wants_response: False for a produce request with acks=0, which gets none.
        access: What the client may do; everything before the dispatcher has set it.
        session: The login of its connection; None before the dispatcher has set it.
        rejection: Makes the response that has an error code in every place for one; None before the
            handler is known.
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
        """Take a request in hand; its body is set when it was decoded."""
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
        """Encode and send the response; nothing when the request is done."""
        self.respond_in_version(body, self.api_version)

    def respond_in_version(self, body: Body, version: int) -> None:
        """Answer in another version than was asked for: ApiVersions alone does that."""
        if self.is_done:
            return
        try:
            frame = self._encoded(body, version)
        except KprodError as error:
            self.fail(error)
            return
        self._send(frame)

    def run(self, action: Callable[[], object]) -> None:
        """Do a part of the request; if that raises, the request fails."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is, one request must not end all
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Report a failure of the broker's own, and answer UNKNOWN_SERVER_ERROR.

        Where no response is possible the connection is closed: the request has had its response,
        gets none, or is one whose refusal cannot be written either.

        Args:
            error: What went wrong inside.
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
        """Encode and send the response, then close the connection."""
        if not self.is_done:
            self.answer(body)
            self._reply.close()

    def respond_nothing(self) -> None:
        """End a request that gets no response (acks=0)."""
        if not self.is_done:
            self.is_done = True
            self._reply.skip()

    def hang(self) -> None:
        """Never answer, nor anything behind it on its connection."""
        if not self.is_done:
            self.is_done = True
            self._reply.hang()

    def disconnect(self) -> None:
        """Close the connection instead of answering."""
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
        """The same request with another body and another way back."""
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
