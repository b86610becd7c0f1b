"""One client's connection: reads frames, processes one request at a time, writes responses.

Reading continues up to a bound while a request is being processed, so that the end of the stream is
seen early and further requests are ready. Those that came before the end are processed, as in
Kafka; the socket is closed at once.

No client can delay the others: a turn ends after `REQUESTS_PER_TURN` requests or
`RESPONSE_BYTES_PER_TURN` bytes of responses; the remaining requests wait for the next step.

Invariants.
    At most one request of a connection is being processed. Waiting requests have at most
    `WAITING_FRAMES_MAX` frames and `WAITING_BYTES_MAX` bytes, without the one that is being read.
    While more than `UNSENT_BYTES_MAX` bytes of responses are unsent, no request is taken. After
    each turn the cluster's budgets are updated. While a budget is tight, a connection that uses
    some of it takes no further request.

Thread-safety: the broker's thread.
"""

import struct
from collections import deque
from typing import TYPE_CHECKING, Protocol

from kprod.broker.budget import MemoryBudget
from kprod.broker.notices import Notices
from kprod.broker.request_frames import FrameReader
from kprod.broker.scheduler import Scheduler
from kprod.broker.security.session import LoginHost, Session
from kprod.broker.sockets import PIECES_MAX, Network, Stream
from kprod.errors import RemoteProtocolError

if TYPE_CHECKING:
    from ssl import SSLContext

    from kprod.broker.security.tls_stream import TlsStream

WAITING_FRAMES_MAX = 64
WAITING_BYTES_MAX = 16 << 20
UNSENT_BYTES_MAX = 1 << 20
UNAUTHENTICATED_FRAME_BYTES_MAX = 512 << 10  # Kafka's limit for a client that has not logged in
REQUESTS_PER_TURN = 16
RESPONSE_BYTES_PER_TURN = 256 << 10
# How many times one connection may read before others get their turn.
_READS_PER_TURN = 8
_SIZE = struct.Struct(">i")
_CLIENT_ENDED = "the client closed the connection"


class Host(Scheduler, LoginHost, Protocol):
    """The parts of the cluster that brokers and connections use.

    Attributes:
        connection_count: Number of open connections of all brokers.
        ended: Connections whose client has left, with requests to process; the oldest first.
        requests: Budget for the memory of requests.
        responses: Budget for the memory of unwritten responses.
        notices: Logs warnings about misbehaving clients, at a limited rate.
        tls_context: TLS configuration; None for plain connections.
    """

    connection_count: int
    ended: dict["Connection", None]
    requests: MemoryBudget
    responses: MemoryBudget
    notices: Notices
    tls_context: "SSLContext | None"

    def take_request(self, frame: bytearray, connection: "Connection", node_id: int) -> None:
        """Process one request; the connection is notified at its end."""

    def report(self, error: Exception) -> None:
        """Record a failure of the broker itself."""


class ConnectionOwner(Protocol):
    """The broker that a connection belongs to, as the connection uses it.

    Attributes:
        node_id: The broker's id.
        host: The broker's cluster.
        network: The socket layer.
        is_stalled: Whether an injected fault has stalled the broker.
    """

    node_id: int
    host: Host
    network: Network
    is_stalled: bool

    def touch(self, connection: "Connection") -> None:
        """Record activity of a connection."""

    def forget(self, connection: "Connection", reason: str) -> None:
        """Remove a closed connection."""


class Connection:
    """A client connection; also the `Reply` of the request that is being processed."""

    __slots__ = (
        "_busy",
        "_carrier",
        "_closing",
        "_frames",
        "_goes_on",
        "_has_ended",
        "_host",
        "_hung",
        "_in_hand_bytes",
        "_muted",
        "_owner",
        "_pumping",
        "_reader",
        "_stream",
        "_tls",
        "_unsent",
        "_unsent_bytes",
        "_waiting_bytes",
        "is_closed",
        "session",
    )

    def __init__(self, stream: Stream, owner: ConnectionOwner, reader: FrameReader) -> None:
        """Serve an accepted stream."""
        context = owner.host.tls_context
        self._carrier = stream  # the object that the network watches
        self._tls = None if context is None else _encrypted(stream, context, owner.host)
        self._stream: Stream = self._tls or stream
        self._owner = owner
        self._host = owner.host
        self._reader = reader
        self._frames: deque[bytearray] = deque()
        self._waiting_bytes = 0
        self._in_hand_bytes = 0
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._busy = False
        self._hung = False
        self._muted = False
        self._closing = False
        self._pumping = False
        self._goes_on = False
        self._has_ended = False
        self.is_closed: bool = False
        name = (lambda: None) if self._tls is None else self._tls.certified_name
        self.session: Session = Session(self._host, reader.lift, name)
        if self._host.security.uses_sasl:
            reader.limit(UNAUTHENTICATED_FRAME_BYTES_MAX)
        self.watch()

    @property
    def peer(self) -> str:
        """The client's address, for texts."""
        return self._stream.peer

    def on_ready(self, *, readable: bool, writable: bool) -> None:
        """Read, write, and process requests."""
        if self.is_closed:
            return
        if writable:
            self._write()
        if readable and not self.is_closed:
            self._read()
        self._pump()

    def send(self, frame: bytes) -> None:
        """Queue a response and continue with the next request."""
        self._queue(frame)
        self._next()

    def skip(self) -> None:
        """Continue with the next request."""
        self._next()

    def hang(self) -> None:
        """Process no further request; incoming bytes are read and discarded."""
        self._hung = True
        self._frames.clear()
        self._waiting_bytes = 0
        if self._has_ended:
            self.abort(_CLIENT_ENDED)
        self._hold_requests(has_progressed=False)

    def mute(self, delay_ms: int) -> None:
        """Process no request for `delay_ms`."""
        self._muted = True
        self._host.after(delay_ms, self._unmute)

    def send_raw(self, piece: bytes) -> None:
        """Queue bytes that are not a whole frame: the beginning of a response that is cut off."""
        self._enqueue(memoryview(piece))

    def close(self) -> None:
        """Close after all queued bytes are written."""
        if self._has_ended:
            self.abort(_CLIENT_ENDED)
        self._closing = True
        self._write()
        self.watch()

    def report(self, error: Exception) -> None:
        """Report a failure of the broker itself."""
        self._host.report(error)

    def fail(self, error: Exception) -> None:
        """Report a failure of the broker itself, and close."""
        self._host.report(error)
        self.abort(f"the broker failed: {error!r}")

    def abort(self, reason: str) -> None:
        """Close immediately.

        Args:
            reason: The reason for a log line.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._host.ended.pop(self, None)
        self._frames.clear()
        self._unsent.clear()
        self._host.requests.hold(self, 0, has_progressed=False)
        self._host.responses.hold(self, 0, has_progressed=False)
        self._owner.network.watch(self._carrier, self, readable=False, writable=False)
        self._stream.close()
        self._owner.forget(self, reason)

    def watch(self) -> None:
        """Update which socket events the network watches."""
        if self.is_closed or self._has_ended:
            return
        awake = not self._owner.is_stalled
        has_room = (
            len(self._frames) < WAITING_FRAMES_MAX and self._waiting_bytes < WAITING_BYTES_MAX
        )
        if self._frames and self._host.requests.is_tight:
            has_room = False
        has_output = bool(self._unsent) or (self._tls is not None and self._tls.has_output)
        self._owner.network.watch(
            self._carrier, self, readable=awake and has_room, writable=awake and has_output
        )

    def wake_up(self) -> None:
        """Continue after the broker was stalled."""
        self._write()
        self._pump()

    def _unmute(self) -> None:
        self._muted = False
        self._pump()

    def _next(self) -> None:
        self._busy = False
        self._in_hand_bytes = 0
        if self._pumping:
            return
        if self._frames:
            # The response is another request's doing, whose handler is in the middle of a step: the
            # next request of this connection must not be processed inside it.
            self._go_on_soon()
            self._end_turn(has_progressed=False)
        else:
            self._pump()

    def _go_on(self) -> None:
        self._goes_on = False
        self._pump()

    def _pump(self) -> None:
        if self._pumping or self.is_closed:
            return
        self._pumping = True
        unsent_before = self._unsent_bytes
        taken = 0
        try:
            while self._may_take():
                response_bytes = self._unsent_bytes - unsent_before
                if taken == REQUESTS_PER_TURN or response_bytes > RESPONSE_BYTES_PER_TURN:
                    self._go_on_soon()
                    break
                taken += 1
                self._take_request()
        finally:
            self._pumping = False
        self._end_turn(has_progressed=taken > 0)

    def _end_turn(self, *, has_progressed: bool) -> None:
        if self._unsent and not self.is_closed:
            self._write()
        if self._has_ended and (self._closing or not self._frames):
            self.abort(_CLIENT_ENDED)
        self._hold_requests(has_progressed=has_progressed)
        self._hold_responses(has_progressed=False)
        self.watch()

    def _end(self) -> None:
        """Close the socket; `_end_turn` ends the connection after the last request."""
        self._has_ended = True
        self._host.ended[self] = None
        self._unsent.clear()
        self._unsent_bytes = 0
        self._owner.network.watch(self._carrier, self, readable=False, writable=False)
        self._stream.close()

    def _take_request(self) -> None:
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        self._in_hand_bytes = len(frame)
        self._busy = True
        self._host.take_request(frame, self, self._owner.node_id)

    def _go_on_soon(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._host.soon(self._go_on)

    def _may_take(self) -> bool:
        held = self._busy or self._hung or self._muted or self._closing or self.is_closed
        return bool(self._frames) and not held and self._has_room_for_responses()

    def _has_room_for_responses(self) -> bool:
        if self._owner.is_stalled or self._unsent_bytes > UNSENT_BYTES_MAX:
            return False
        return not (self._unsent and self._host.responses.is_tight)

    def _hold_requests(self, *, has_progressed: bool) -> None:
        if not self.is_closed:
            held_bytes = self._reader.held_bytes + self._waiting_bytes + self._in_hand_bytes
            self._host.requests.hold(self, held_bytes, has_progressed=has_progressed)

    def _hold_responses(self, *, has_progressed: bool) -> None:
        if not self.is_closed:
            self._host.responses.hold(self, self._unsent_bytes, has_progressed=has_progressed)

    def _read(self) -> None:
        for _ in range(_READS_PER_TURN):
            with self._reader.target() as target:
                wanted = len(target)
                count = self._stream.receive_into(target)
            if count is None:
                return
            if count == 0:
                self._end()
                return
            if not self._take(count):
                return
            if count < wanted:
                return

    def _take(self, count: int) -> bool:
        self._owner.touch(self)
        if self._hung or self._closing:
            return True
        try:
            frames = self._reader.received(count)
        except RemoteProtocolError as error:
            self.abort(str(error))
            return False
        self._frames.extend(frames)
        self._waiting_bytes += sum(map(len, frames))
        self._hold_requests(has_progressed=True)
        return not frames and not self.is_closed

    def _queue(self, frame: bytes) -> None:
        self._enqueue(memoryview(_SIZE.pack(len(frame))))
        self._enqueue(memoryview(frame))

    def _enqueue(self, piece: memoryview) -> None:
        if piece and not (self.is_closed or self._has_ended):
            self._unsent.append(piece)
            self._unsent_bytes += len(piece)

    def _write(self) -> None:
        if self._has_ended:
            return
        if self._tls is not None and not self._flush_tls(self._tls):
            return
        while self._unsent and not self._owner.is_stalled:
            pieces = [piece for piece, _ in zip(self._unsent, range(PIECES_MAX), strict=False)]
            try:
                count = self._stream.send(pieces)
            except OSError as error:
                self.abort(f"writing failed: {error}")
                return
            if not count:
                break
            self._written(count)
        if self._closing and not self._unsent:
            self.abort("closed by the broker")

    def _flush_tls(self, tls: "TlsStream") -> bool:
        try:
            return tls.flush()
        except OSError as error:
            self.abort(f"writing failed: {error}")
            return False

    def _written(self, count: int) -> None:
        self._owner.touch(self)
        self._unsent_bytes -= count
        self._hold_responses(has_progressed=True)
        while count:
            piece = self._unsent[0]
            if len(piece) > count:
                self._unsent[0] = piece[count:]
                return
            count -= len(piece)
            self._unsent.popleft()


def _encrypted(stream: Stream, context: "SSLContext", host: Host) -> "TlsStream":
    from kprod.broker.security.tls_stream import TlsStream  # noqa: PLC0415 - loads OpenSSL

    return TlsStream(stream, context, host.security_faults)
