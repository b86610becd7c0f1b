# cython: annotation_typing=False, nonecheck=True
"""A wait for one request's answer at its socket, in the place of the client's selector.

Who waits here need not be the client's thread, which sleeps meanwhile and is not to be woken by the
answer: so its selector stops to watch the connection for that long. The answer is looked at before
it is taken out of the socket, and what is not for the one who waits is left to the client.

Invariants.
    The connection is the client's all the time: it may send, serve and close it. Whatever it does
    makes the wait superfluous, never wrong.
    A connection is not watched for answers only while none is in flight, but for the one that is
    waited for here; that its peer goes is always seen.
    What rings the bell is open for as long as anybody can ring it.

Thread-safety: whoever owns the client, but for `wait` and `release`.
Source: epoll(7), "Questions and answers" 6, on closed descriptors; recv(2), MSG_PEEK.
"""

import os
import select
from typing import TYPE_CHECKING, Final

from kprod._core.socket_io.owned_descriptor import OwnedDescriptor
from kprod._core.wire.frames import correlation_id_of
from kprod.network.connection import NodeConnection, fail_later
from kprod.network.epoll_selector import EVENT_COUNT_OF_ONE
from kprod.network.framing import Frame
from kprod.network.selector import EVENT_NONE, EVENT_READ

if TYPE_CHECKING:
    from kprod.network.channel import Channel
    from kprod.network.in_flight import InFlightRequest

_WAIT_MAX_S: Final = 3_600.0  # then the caller looks again
_PREFIX_BYTES: Final = 4  # a frame is told without its length
_BUFFER_BYTES: Final = 4_096  # a longer answer is left to the client


class ResponseWait:
    """Knows the request that was sent last, and can wait for its answer.

    Attributes:
        in_flight: The request; None if there is none.
    """

    def __init__(self) -> None:
        """Take two descriptors."""
        self.in_flight: InFlightRequest | None = None
        self._connection: NodeConnection | None = None
        self._channel: Channel | None = None  # the connection had when the request was sent
        self._paused: NodeConnection | None = None  # the selector does not watch it
        self._watched: Channel | None = None  # by `_epoll`, beside the bell
        self._buffer = bytearray(_BUFFER_BYTES)
        self._epoll: select.epoll | None = select.epoll()
        self._wakeup_fd: OwnedDescriptor | None = OwnedDescriptor(
            os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        )
        self._epoll.register(self._wakeup_fd, select.EPOLLIN | select.EPOLLET)

    def expect(self, connection: NodeConnection) -> None:
        """Note what was sent last.

        Args:
            connection: Where; its newest request.
        """
        self._connection = connection
        self._channel = connection.channel
        self.in_flight = connection.requests.newest

    def forget(self) -> None:
        """Let go of the request, which keeps its batches."""
        self.in_flight = None
        self._connection = None
        self._channel = None

    def is_lone(self) -> bool:
        """Whether the request is the only one in flight where it was sent."""
        connection, in_flight = self._connection, self.in_flight
        if connection is None or in_flight is None or connection.channel is not self._channel:
            return False
        requests = connection.requests
        return requests.newest is in_flight and requests.is_oldest(in_flight)

    def begin(self) -> bool:
        """Let the selector stop to watch; only for a lone request.

        Returns:
            False, and nothing has changed, if the socket is watched for more than answers.
        """
        connection, channel, epoll = self._connection, self._channel, self._epoll
        if connection is None or channel is None or epoll is None:
            return False
        if connection.events != EVENT_READ:
            return False
        self.end()
        if self._watched is not channel:
            self._watch(epoll, channel)
        connection.watch(EVENT_NONE)
        self._paused = connection
        return True

    def wait(self, timeout_s: float) -> None:
        """Wait until something has arrived, or `release` was called; an hour at the longest.

        Args:
            timeout_s: Seconds; negative has no end.

        Raises:
            BaseException: What a signal handler raised.
            OSError: The system refused the wait.
            ValueError: Likewise.
        """
        epoll, wakeup_fd = (
            self._epoll,
            self._wakeup_fd,
        )  # held: a bell that is closed has never rung
        if epoll is None or wakeup_fd is None:
            return
        try:
            epoll.poll(_WAIT_MAX_S if timeout_s < 0 else min(timeout_s, _WAIT_MAX_S), 1)
        except (OSError, ValueError):
            if not epoll.closed:
                raise
            # A signal handler has forked this process in the midst of the wait.

    def release(self) -> None:
        """End the wait, this one or the next; any thread. A lock that is awaited has the same."""
        wakeup_fd = self._wakeup_fd  # held, and so open, until it is written to
        if wakeup_fd is not None:
            wakeup_fd.write(EVENT_COUNT_OF_ONE)

    def close_after_fork(self) -> None:
        """End the wait in a forked child, whose copy of it shares the epoll with the parent's."""
        epoll = self._epoll
        if epoll is not None:
            epoll.close()
        self.close()

    def peek(self) -> Frame | None:
        """Look at the answer to a lone request.

        Returns:
            Its frame, if it has arrived whole, and nothing else has.
        """
        channel, in_flight = self._channel, self.in_flight
        if channel is None or in_flight is None:
            return None
        frame = channel.peek(self._buffer)
        if frame is None or correlation_id_of(frame) != in_flight.correlation_id:
            return None
        return frame

    def take(self, frame: Frame, now_ms: int) -> None:
        """Take in what `peek` has shown, and forget the request.

        Args:
            frame: What it returned.
            now_ms: Monotonic.

        A failure ends the connection, in the sender's next turn: the answer is out of the socket.
        """
        connection, channel = self._connection, self._channel
        assert connection is not None and channel is not None  # noqa: S101, PT018 - it was peeked
        self.forget()
        channel.skip(len(frame) + _PREFIX_BYTES, self._buffer)
        try:
            connection.take_frame(frame, now_ms)
        except Exception as error:  # noqa: BLE001 - MemoryError, most likely
            fail_later(connection, error)

    def end(self) -> None:
        """Let the selector watch again, if an answer is awaited; the next sending does it too."""
        paused = self._paused
        self._paused = None
        if paused is None or paused.events != EVENT_NONE or paused.requests.newest is None:
            return
        paused.watch(EVENT_READ)

    def close(self) -> None:
        """Give up the descriptors, which who waits still holds; there will be no other wait."""
        self.forget()
        self._paused = None
        self._watched = None
        self._epoll = None
        self._wakeup_fd = None

    def _watch(self, epoll: select.epoll, channel: "Channel") -> None:
        """Have this socket alone end the wait, beside the bell."""
        watched, self._watched = self._watched, None
        if watched is not None:
            try:  # noqa: SIM105 - no Python code on a caller's way
                epoll.unregister(watched.transport.fileno())
            except (OSError, ValueError):
                pass  # it is closed, and so the kernel has forgotten it
        epoll.register(channel.transport.fileno(), select.EPOLLIN)
        self._watched = channel
