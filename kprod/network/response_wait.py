# cython: annotation_typing=False, nonecheck=True
"""Waits for one request's response at its socket, instead of in the client's selector.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

An application's thread may wait here while the client's thread sleeps in its selector. The response
must not wake the client's thread, so the selector does not watch the connection during the wait.
The response is peeked before it is read; one that is not for the waiting caller is left to the
client. With TLS a peek takes ciphertext out of the socket, where no selector sees it any more:
`hand_over` tells the client of it.

Invariants.
    The connection belongs to the client throughout, which may send on it, serve it and close it;
    that makes the wait superfluous, never wrong. The selector watches a connection for responses
    whenever requests are in flight, except for the one request that is waited for here; it always
    watches for the peer's close.

Thread-safety: the owner of the client; `wait` and `release` from any thread.
Source: recv(2), MSG_PEEK.
"""

from typing import TYPE_CHECKING, Final

from kprod._core.wire.frames import correlation_id_of
from kprod.network.connection import NodeConnection
from kprod.network.connection_loss import fail_later
from kprod.network.framing import Frame
from kprod.network.selector import EVENT_NONE, EVENT_READ

if TYPE_CHECKING:
    from kprod.network.channel import Channel
    from kprod.network.in_flight import InFlightRequest
    from kprod.network.socket_wait import SocketWait

_WAIT_MAX_S: Final = 3_600.0  # then the caller checks again
# C integers: see the `.pxd`
_PREFIX_BYTES: Final = 4  # a frame has no length prefix
_NONE: Final = EVENT_NONE
_READ: Final = EVENT_READ


class ResponseWait:
    """Holds the request that was sent last, and waits for its response.

    Attributes:
        in_flight: The request; None if there is none.
        connection: Its connection; None without a request.
        response_bytes_max: A longer response is left to the client.
    """

    def __init__(self, socket_wait: "SocketWait", response_bytes_max: int = 4_096) -> None:
        """Create a wait without a request.

        Args:
            socket_wait: A socket wait without another owner; `close` drops it.
            response_bytes_max: A longer response is left to the client.
        """
        self.response_bytes_max = response_bytes_max
        self.in_flight: InFlightRequest | None = None
        self.connection: NodeConnection | None = None
        self._channel: Channel | None = None  # the connection's channel when the request was sent
        # the connection that the selector does not watch
        self._paused: NodeConnection | None = None
        self._buffer = bytearray(response_bytes_max)
        self._socket_wait: SocketWait | None = socket_wait

    def set_request(self, connection: NodeConnection) -> None:
        """Set the newest request of a connection as the one to wait for.

        Args:
            connection: A connection with a request in flight, or with none if it was closed
                meanwhile.
        """
        self.connection = connection
        self._channel = connection.channel
        self.in_flight = connection.requests.newest

    def clear_request(self) -> None:
        """Drop the reference to the request, which keeps its batches alive."""
        self.in_flight = None
        self.connection = None
        self._channel = None

    def is_only_in_flight(self) -> bool:
        """Whether the request is in flight, and no other on its connection."""
        connection, in_flight = self.connection, self.in_flight
        if connection is None or in_flight is None or connection.channel is not self._channel:
            return False
        return connection.requests.is_only(in_flight)

    def pause_selector(self) -> bool:
        """Make the selector stop watching the connection; only if `is_only_in_flight`.

        Returns:
            False, without a change, if the selector watches it for more than responses.
        """
        connection, channel, socket_wait = self.connection, self._channel, self._socket_wait
        if connection is None or channel is None or socket_wait is None:
            return False
        if connection.events != _READ:
            return False
        self.resume_selector()
        socket_wait.watch(channel.transport)
        connection.watch(_NONE)
        self._paused = connection
        return True

    def resume_selector(self) -> None:
        """Make the selector watch again, if a response is awaited; the next send does it, too."""
        paused = self._paused
        self._paused = None
        if paused is None or paused.events != _NONE or paused.channel is None:
            return
        if paused.requests.newest is not None or paused.channel.has_input:
            paused.watch_channel(paused.channel)

    def hand_over(self) -> bool:
        """Make the client process input that `peek` has received, if there is any.

        Returns:
            Whether there is; the selector then reports the connection immediately.
        """
        connection, channel = self.connection, self._channel
        if connection is None or channel is None or not channel.has_input:
            return False
        connection.watch_channel(channel)
        return True

    def wait(self, timeout_s: float) -> None:
        """Wait until data has arrived, `release` was called, or an hour has passed.

        Args:
            timeout_s: Seconds; negative for no limit.

        Raises:
            BaseException: A signal handler raised it.
            OSError: The wait failed.
            ValueError: The wait failed.
        """
        # referenced, so that `close` does not close a descriptor in use
        socket_wait = self._socket_wait
        if socket_wait is not None:
            socket_wait.wait(_WAIT_MAX_S if timeout_s < 0 else min(timeout_s, _WAIT_MAX_S))

    def release(self) -> None:
        """End the current wait, or the next one; any thread. Named like a lock's method."""
        socket_wait = self._socket_wait  # referenced, so that it stays open during the write
        if socket_wait is not None:
            socket_wait.wake()

    def peek(self) -> Frame | None:
        """Return the response without reading it from the socket.

        Returns:
            Its frame; None unless it has arrived completely, and nothing else has.
        """
        channel, in_flight = self._channel, self.in_flight
        if channel is None or in_flight is None:
            return None
        frame = channel.peek(self._buffer)
        if frame is None or correlation_id_of(frame) != in_flight.correlation_id:
            return None
        return frame

    def arrived_bytes(self) -> int:
        """Return how much had arrived when `peek` was called.

        Returns:
            Number of bytes, at most `response_bytes_max`; −1 for none, 0 if the connection is lost.
        """
        return 0 if self._channel is None else self._channel.peeked_bytes

    def discard(self, frame: Frame) -> None:
        """Take a response out of the socket.

        Args:
            frame: The frame that `peek` returned.
        """
        channel = self._channel
        assert channel is not None  # noqa: S101 - it was peeked
        channel.discard(len(frame) + _PREFIX_BYTES, self._buffer)

    def take_response(self, frame: Frame, now_ms: int) -> None:
        """Read the response from the socket, complete the request, and clear it.

        After a failure the sender closes the connection, since the response is lost.

        Args:
            frame: The frame that `peek` returned.
            now_ms: Monotonic time.
        """
        connection, channel = self.connection, self._channel
        assert connection is not None and channel is not None  # noqa: S101, PT018 - it was peeked
        self.discard(frame)
        self.clear_request()
        try:
            connection.take_frame(frame, now_ms)
        except Exception as error:  # noqa: BLE001 - most likely a MemoryError
            fail_later(connection, error)
        if channel.has_input:
            connection.watch_channel(channel)

    def close(self) -> None:
        """Drop the descriptors, which a waiting thread still references; no new wait starts."""
        self.clear_request()
        self._paused = None
        self._socket_wait = None

    def close_after_fork(self) -> None:
        """End the wait in a forked child, and close."""
        socket_wait = self._socket_wait
        if socket_wait is not None:
            socket_wait.close_after_fork()
        self.close()
