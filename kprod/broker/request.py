"""One request in a broker's hands, and the one answer that it gets, now or later.

A connection's requests are taken one at a time: the next is looked at only when this one is done.
So answers leave in order, and a delayed request holds back those behind it, as in Kafka.

Invariants.
    A request is done exactly once: answered, without an answer, or with its connection closed.

Thread-safety: the broker's thread.
Source: Kafka SocketServer (a channel is muted while its request is in hand).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from kprod.errors import KprodError
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import encode_response_header

Body = Mapping[str, Any]


class Reply(Protocol):
    """The way back to the client."""

    def send(self, frame: bytes) -> None:
        """Send an answer, given without its size field, and take the next request."""

    def skip(self) -> None:
        """Send nothing and take the next request."""

    def hang(self) -> None:
        """Send nothing and never take another request."""

    def close(self) -> None:
        """Close the connection; what was sent before still leaves."""

    def mute(self, delay_ms: int) -> None:
        """Take no request for a while (KIP-219)."""

    def fail(self, error: Exception) -> None:
        """Report that the broker itself is wrong, and close the connection."""


class Request:
    """A decoded request."""

    __slots__ = (
        "_reply",
        "api_key",
        "api_version",
        "body",
        "client_id",
        "correlation_id",
        "is_done",
        "node_id",
        "throttle_time_ms",
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
        self.node_id = node_id
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body: dict[str, Any] = {}
        self.is_done = False
        self.throttle_time_ms = 0

    def answer(self, body: Body) -> None:
        """Encode and send the answer; nothing when the request is done."""
        self.answer_in_version(body, self.api_version)

    def answer_in_version(self, body: Body, version: int) -> None:
        """Answer in another version than was asked for: ApiVersions alone does that."""
        if self.is_done:
            return
        if self.throttle_time_ms:
            body = {**body, "throttle_time_ms": self.throttle_time_ms}
        self.is_done = True
        try:
            header = encode_response_header(self.api_key, version, self.correlation_id)
            frame = header + response_codec(self.api_key, version).encode(body)
        except KprodError as error:
            self._reply.fail(error)
            return
        if self.throttle_time_ms:
            self._reply.mute(self.throttle_time_ms)
        self._reply.send(frame)

    def answer_nothing(self) -> None:
        """End a request that gets no answer (acks=0)."""
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
        return twin
