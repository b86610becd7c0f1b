# cython: annotation_typing=False, nonecheck=True
"""Requests of one connection that are sent and not yet answered, newest first.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A broker answers in the order of the requests, so the response at hand belongs to the oldest; its
correlation id must say so too. A request that gets no response is complete when it is written, and
is then the newest, since nothing is sent after a request that is not written yet.

Invariant: every request leaves exactly once: with its response, written without one, or cleared.

Thread-safety: one thread.
Source: Kafka's InFlightRequests (clients 4.3.1).
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kprod.errors import KprodError, RemoteProtocolError
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.outgoing import OutgoingFrame

if TYPE_CHECKING:
    from kprod.timer.timer import TimerTask

CORRELATION_ID_MAX = 2**31 - 1 - 8  # SASL's own exchanges use the eight at the end (KIP-152)


class InFlightRequest:
    """A request in flight; holds the pieces that the socket may still read."""

    def __init__(  # noqa: PLR0917 - its attributes; keywords cost half a microsecond
        self,
        request: ClientRequest,
        frame: OutgoingFrame,
        version: int,
        correlation_id: int,
        now_ms: int,
    ) -> None:
        """Create the entry of a sent request.

        Args:
            request: The caller's request.
            frame: The request's bytes.
            version: The version of the bytes.
            correlation_id: The correlation id in the bytes.
            now_ms: Monotonic time of sending.
        """
        self.request = request
        self.frame = frame
        self.version = version
        self.correlation_id = correlation_id
        self.sent_at_ms = now_ms
        self.deadline_ms = now_ms
        self.timeout: TimerTask | None = None

    def outcome(
        self,
        node_id: int,
        now_ms: int,
        body: Any,  # noqa: ANN401 - each request's own
        error: KprodError | None,
    ) -> Outcome:
        """Create the outcome of the request.

        Args:
            node_id: The node it was sent to.
            now_ms: Monotonic time.
            body: The decoded response; None without one.
            error: The reason why there is none; None if it has succeeded.

        Returns:
            The outcome.
        """
        return Outcome(
            node_id=node_id,
            version=self.version,
            was_written=self.frame.written_bytes > 0,
            latency_ms=now_ms - self.sent_at_ms,
            now_ms=now_ms,
            body=body,
            error=error,
        )

    def cancel_timeout(self) -> None:
        """Cancel the deadline, and drop the reference to it, since it refers to this request."""
        if self.timeout is not None:
            self.timeout.cancel()
            self.timeout = None


class InFlightRequests:
    """The requests of one connection."""

    def __init__(self) -> None:
        """Start with none."""
        self._requests: deque[InFlightRequest] = deque()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._requests)

    def __iter__(self) -> Iterator[InFlightRequest]:
        """Iterate over the requests, the newest first."""
        return iter(self._requests)

    @property
    def newest(self) -> InFlightRequest | None:
        """The request that was sent last, if it is not complete."""
        return self._requests[0] if self._requests else None

    def add(self, request: InFlightRequest) -> None:
        """Add a request that is being sent.

        Args:
            request: The newest request.
        """
        self._requests.appendleft(request)

    def has_room(self, count_max: int) -> bool:
        """Whether another request may be sent.

        Args:
            count_max: Maximum number of requests in flight, at least 1.

        Returns:
            True if there are fewer and the newest is written completely: after a partly written
            one, another would only wait, and would be built earlier than necessary.
        """
        requests = self._requests
        if not requests:
            return True
        frame = requests[0].frame
        return len(requests) < count_max and frame.written_bytes >= frame.size_bytes

    def is_oldest(self, request: InFlightRequest) -> bool:
        """Whether the next response belongs to a request.

        Args:
            request: Any request.

        Returns:
            False also for a request that is no longer in flight.
        """
        return bool(self._requests) and self._requests[-1] is request

    def is_only(self, request: InFlightRequest) -> bool:
        """Whether a request is in flight, and no other.

        Args:
            request: Any request.

        Returns:
            False also for a request that is no longer in flight.
        """
        return len(self._requests) == 1 and self._requests[0] is request

    def oldest(self, correlation_id: int) -> InFlightRequest:
        """Return the request that a response belongs to.

        Args:
            correlation_id: The correlation id in the response.

        Returns:
            The oldest request; it remains until `complete_oldest`.

        Raises:
            RemoteProtocolError: The request has another correlation id, or there is no request.
        """
        if not self._requests:
            raise RemoteProtocolError(
                f"a response with correlation id {correlation_id} came, and nothing was asked"
            )
        oldest = self._requests[-1]
        if oldest.correlation_id != correlation_id:
            raise RemoteProtocolError(
                f"a response has correlation id {correlation_id}; the oldest request in flight,"
                f" {oldest.request.api_key.name}, has {oldest.correlation_id}"
            )
        return oldest

    def complete_oldest(self) -> None:
        """Remove the request that `oldest` returned."""
        self._requests.pop().cancel_timeout()

    def mark_outcomes_unknown(self) -> None:
        """Mark all requests as written, because it is unknown how much the socket has accepted."""
        for request in self._requests:
            request.frame.written_bytes = max(request.frame.written_bytes, 1)

    def take_written_without_response(self) -> list[InFlightRequest]:
        """Remove and return the requests that are complete because they were written.

        Returns:
            The requests in the order of sending; usually none or one.
        """
        requests = self._requests
        taken: list[InFlightRequest] = []
        while (
            requests and not requests[0].request.expects_response and requests[0].frame.is_written
        ):
            taken.append(requests.popleft())
            taken[-1].cancel_timeout()
        taken.reverse()
        return taken

    def take_all(self) -> list[InFlightRequest]:
        """Remove and return all requests, because the connection is lost.

        Returns:
            The requests, oldest first.
        """
        taken = list(reversed(self._requests))
        self._requests.clear()
        for request in taken:
            request.cancel_timeout()
        return taken
