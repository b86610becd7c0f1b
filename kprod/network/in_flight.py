# cython: annotation_typing=False, nonecheck=True
"""Requests of one connection that are sent and not yet answered, newest first.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A broker answers in the order of the requests, so the response at hand belongs to the oldest; its
correlation id must say so too. A request that gets no response is complete when it is written, and
is then the newest, since nothing is sent behind a request that is not written yet.

Invariant: every request leaves exactly once: answered, written without answer, or cleared.

Thread-safety: one thread.
Source: Kafka's InFlightRequests (clients 4.3.1).
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kprod.errors import RemoteProtocolError
from kprod.network.client_request import ClientRequest
from kprod.network.outgoing import OutgoingFrame

if TYPE_CHECKING:
    from kprod.timer.timer import TimerTask

CORRELATION_ID_MAX = 2**31 - 1 - 8  # SASL's own exchanges use the eight at the end (KIP-152)


class InFlightRequest:
    """One request on its way; holds the pieces that the socket may still read."""

    def __init__(  # noqa: PLR0917 - its attributes; keywords cost half a microsecond
        self,
        request: ClientRequest,
        frame: OutgoingFrame,
        version: int,
        correlation_id: int,
        now_ms: int,
    ) -> None:
        """Keep the facts of a sent request.

        Args:
            request: The caller's.
            frame: Its bytes.
            version: They are in.
            correlation_id: In them.
            now_ms: Monotonic, of the sending.
        """
        self.request = request
        self.frame = frame
        self.version = version
        self.correlation_id = correlation_id
        self.sent_at_ms = now_ms
        self.deadline_ms = now_ms
        self.timeout: TimerTask | None = None

    def cancel_timeout(self) -> None:
        """Take the deadline off the timer, and let go of it: it refers to this request."""
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
        """Go through them, the newest first."""
        return iter(self._requests)

    @property
    def newest(self) -> InFlightRequest | None:
        """The request that was sent last, if it is not complete."""
        return self._requests[0] if self._requests else None

    def add(self, request: InFlightRequest) -> None:
        """Put in a request that is being sent.

        Args:
            request: The newest.
        """
        self._requests.appendleft(request)

    def has_room(self, count_max: int) -> bool:
        """Whether another request may be sent.

        Args:
            count_max: Most requests in flight, at least 1.

        Returns:
            True if there are fewer and the newest is written whole: behind a half-written one,
            another would only wait, and be built earlier than it must.
        """
        requests = self._requests
        if not requests:
            return True
        frame = requests[0].frame
        return len(requests) < count_max and frame.written_bytes >= frame.size_bytes

    def is_oldest(self, request: InFlightRequest) -> bool:
        """Whether the next answer belongs to a request.

        Args:
            request: Any.

        Returns:
            False too if it is not in flight any more.
        """
        return bool(self._requests) and self._requests[-1] is request

    def oldest(self, correlation_id: int) -> InFlightRequest:
        """Find the request that a response belongs to.

        Args:
            correlation_id: In the response.

        Returns:
            The oldest request; it stays until `complete_oldest`.

        Raises:
            RemoteProtocolError: It has another correlation id, or nothing was asked.
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
        """Take out the request that `oldest` returned."""
        self._requests.pop().cancel_timeout()

    def doubt_fates(self) -> None:
        """Count all as written: what the socket has taken may not be noted yet."""
        for request in self._requests:
            request.frame.written_bytes = max(request.frame.written_bytes, 1)

    def take_written_without_response(self) -> list[InFlightRequest]:
        """Take out the requests that are complete because they were written.

        Returns:
            In the order of sending; most often none or one.
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
        """Take out everything, because the connection is gone.

        Returns:
            The oldest first.
        """
        taken = list(reversed(self._requests))
        self._requests.clear()
        for request in taken:
            request.cancel_timeout()
        return taken
