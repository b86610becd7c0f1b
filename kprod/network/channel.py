# cython: annotation_typing=False, nonecheck=True
"""The two directions of a connection: writes queued frames, and reads frames from the socket.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Invariants.
    Frames are written whole and in order. Each call reads once, and continues while a frame is
    incomplete, until the socket is empty or `READ_ON_BYTES_MAX` were read: a busy peer cannot block
    the client's other nodes, and a large response takes few turns, each of which may wait for the
    GIL.

Thread-safety: one thread.
Source: performance notes on sendmsg; Kafka's KafkaChannel (clients 4.3.1) for the shape.
"""

from collections import deque

from kprod._core.socket_io.socket_calls import PIECES_MAX
from kprod.errors import Disconnected
from kprod.network.framing import Frame, FrameReader
from kprod.network.outgoing import OutgoingFrame, iov_max
from kprod.network.transport import PlainTransport, Transport

# for each sendmsg: more than any socket buffer, and limits the pieces of a huge request
WRITE_BYTES_MAX = 1 << 20
JOIN_BYTES_MAX = 64 * 1024  # for each write if pieces must be joined: four TLS records
RECEIVE_BUFFER_BYTES = 256 * 1024
READ_ON_BYTES_MAX = 8 << 20

NONE_ARRIVED = -1
_WRITE_BYTES_MAX = WRITE_BYTES_MAX  # this and the next: C integers, see the `.pxd`
_IOV_MAX = min(iov_max(), PIECES_MAX)


class Channel:
    """A transport with a queue of outgoing frames and a reader of incoming frames.

    Attributes:
        peeked_bytes: Number of bytes that the last `peek` has seen; −1 for none, 0 if the
            connection is lost.
    """

    def __init__(self, transport: Transport, reader: FrameReader) -> None:
        """Use a transport.

        Args:
            transport: A connecting or connected transport.
            reader: A reader at the beginning of a frame.
        """
        self.transport = transport
        # The same, if its methods can be called in C.
        self._plain: PlainTransport | None = (
            transport if isinstance(transport, PlainTransport) else None
        )
        self.reader = reader
        self._outbox: deque[OutgoingFrame] = deque()
        self._failure: Exception | None = None  # an error of `send`
        self.peeked_bytes: int = NONE_ARRIVED

    @property
    def has_output(self) -> bool:
        """Whether output waits to be written."""
        return bool(self._outbox) or self._failure is not None

    @property
    def has_input(self) -> bool:
        """Whether `peek` has received input, unseen by a selector, that `receive` must process."""
        return self._plain is None and bool(self.transport.has_unread)

    def is_busy(self) -> bool:
        """Whether `has_output` or `has_input`."""
        if self._outbox or self._failure is not None:
            return True
        return self._plain is None and bool(self.transport.has_unread)

    def fail(self, failure: Exception) -> None:
        """Set the error that the next `flush` raises.

        Args:
            failure: The error; the first of several is raised.
        """
        if self._failure is None:
            self._failure = failure

    def send(self, frame: OutgoingFrame) -> bool:
        """Queue a frame, and write as much as the socket accepts.

        Args:
            frame: A frame of which nothing was written.

        Returns:
            True if everything was written. An error is raised by the next `flush`, which the owner
            calls when the socket is writable.
        """
        is_small = frame.size_bytes <= _WRITE_BYTES_MAX and len(frame.pieces) <= _IOV_MAX
        plain = self._plain
        if is_small and self.transport.gathers and not self._outbox:
            # Usually this writes the whole frame.
            try:
                if plain is not None:
                    frame.advance(plain.write_pieces(frame.pieces))
                else:
                    frame.advance(self.transport.write_pieces(frame.pieces))
            except OSError as error:
                self._failure = error
            if frame.written_bytes >= frame.size_bytes:
                return True
        self._outbox.append(frame)
        if self._failure is None:
            try:
                return self.flush()
            except OSError as error:
                self._failure = error
        return False

    def flush(self) -> bool:
        """Write until everything is written or the socket is full.

        Returns:
            True if everything was written.

        Raises:
            OSError: The connection is lost.
            Exception: The error that `fail` set.
        """
        if self._failure is not None:
            raise self._failure
        while self._outbox:
            frame = self._outbox[0]
            while not frame.is_written:
                count_bytes = self._write_some(frame)
                if count_bytes == 0:
                    return False
                frame.advance(count_bytes)
            self._outbox.popleft()
        return True

    def receive(self, buffer: bytearray) -> list[Frame]:
        """Read once, and continue while a frame is incomplete.

        Args:
            buffer: Scratch buffer of at least one byte; shared by all channels of a thread.

        Returns:
            The completed frames; `reader.error` is set if malformed bytes followed.

        Raises:
            OSError: The connection is lost.
            Disconnected: The peer has closed the connection.
        """
        reader = self.reader
        if reader.is_in_frame:
            frames: list[Frame] = []
            if self._read_on(buffer, frames) == 0:
                raise Disconnected("the broker closed the connection in the middle of a response")
            return frames
        count_bytes = self.transport.read_into(buffer)
        if count_bytes is None:
            return []
        if count_bytes == 0:
            where = "" if reader.is_at_border else " in the middle of a response"
            raise Disconnected(f"the broker closed the connection{where}")
        frame = reader.whole_frame(buffer, count_bytes)
        if frame is not None:
            return [frame]
        frames = self._feed(buffer, count_bytes)
        if count_bytes == len(buffer) and reader.is_in_frame:
            self._read_on(buffer, frames)  # the next read reports an end of stream
        return frames

    def peek(self, buffer: bytearray) -> Frame | None:
        """Return the frame that has arrived, without consuming it.

        Args:
            buffer: As for `receive`.

        Returns:
            A frame, if it is complete and nothing follows it. None in all other cases, also for a
            lost connection, which `receive` reports. `has_input` may be True afterwards.
        """
        try:
            plain = self._plain
            if plain is not None:
                count_bytes = plain.peek_into(buffer)
            else:
                count_bytes = self.transport.peek_into(buffer)
        except OSError:
            count_bytes = 0
        self.peeked_bytes = NONE_ARRIVED if count_bytes is None else count_bytes
        return self.reader.whole_frame(buffer, count_bytes) if count_bytes else None

    def discard(self, count_bytes: int, buffer: bytearray) -> None:
        """Consume exactly the bytes that `peek` returned.

        Args:
            count_bytes: Size of the frame, including its length prefix.
            buffer: As for `receive`.
        """
        plain = self._plain
        if plain is not None:
            plain.read_into(buffer, count_bytes)
        else:
            self.transport.read_into(buffer, count_bytes)

    def close(self) -> None:
        """Close the transport and discard unwritten bytes."""
        self._outbox.clear()
        self.transport.close()

    def _feed(self, buffer: bytearray, count_bytes: int) -> list[Frame]:
        with memoryview(buffer) as view, view[:count_bytes] as arrived:
            return self.reader.feed(arrived)

    def _read_on(self, buffer: bytearray, frames: list[Frame]) -> int | None:
        """Read more of the incomplete frame.

        Returns:
            Number of bytes; 0 if the peer has closed; None if none have arrived.
        """
        total_bytes = 0
        while self.reader.is_in_frame and total_bytes < READ_ON_BYTES_MAX:
            if self.transport.reads_in_place:
                into, start = self.reader.make_room(), self.reader.filled_bytes
            else:
                into, start = buffer, 0
            count_bytes = self.transport.read_into(into, READ_ON_BYTES_MAX - total_bytes, start)
            if not count_bytes:
                return total_bytes or count_bytes
            total_bytes += count_bytes
            if into is buffer:
                frames += self._feed(buffer, count_bytes)
            else:
                frame = self.reader.fill(count_bytes)
                if frame is not None:
                    frames.append(frame)
            if start + count_bytes < len(into):
                break  # the socket is empty
        return total_bytes

    def _write_some(self, frame: OutgoingFrame) -> int:
        if self.transport.gathers:
            return self.transport.write_pieces(frame.next_pieces(_IOV_MAX, WRITE_BYTES_MAX))
        # The same position always yields the same join; TLS requires that a repeated write has the
        # same bytes.
        pieces = frame.next_pieces(_IOV_MAX, JOIN_BYTES_MAX)
        return self.transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
