"""One client's connection: frames in, requests taken one at a time, answers out in order.

Reading continues while a request is in hand, up to a bound, so that the end of the stream is seen
early and the next requests are there when it is their turn.

No client can hold up the others: a turn ends after `REQUESTS_PER_TURN` requests or
`RESPONSE_BYTES_PER_TURN` bytes of responses, and the rest is taken in the next step.

Invariants.
    At most one request of a connection is in hand.
    Requests that wait hold at most `WAITING_FRAMES_MAX` frames and `WAITING_BYTES_MAX` bytes
    beyond the one that is being read; unsent answers above `UNSENT_BYTES_MAX` stop the taking of
    requests.
    After each turn the cluster's budgets know what this connection holds. When a budget is tight,
    a connection takes nothing more while it holds some of it.

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
UNAUTHENTICATED_FRAME_BYTES_MAX = 512 << 10  # Kafka's: of a client that has not logged in
REQUESTS_PER_TURN = 16
RESPONSE_BYTES_PER_TURN = 256 << 10
# How much one connection may read in a turn before others come by.
_READS_PER_TURN = 8
_SIZE = struct.Struct(">i")


class Host(Scheduler, LoginHost, Protocol):
    """What a broker and its connections need of the cluster that they run in.

    Attributes:
        connection_count: Open connections of all brokers.
        requests: Memory that requests hold.
        responses: Memory that responses hold until they are written.
        notices: Writes warnings about misbehaving clients.
        tls_context: What connections are encrypted with; None for nothing.
    """

    connection_count: int
    requests: MemoryBudget
    responses: MemoryBudget
    notices: Notices
    tls_context: "SSLContext | None"

    def take_request(self, frame: bytearray, connection: "Connection", node_id: int) -> None:
        """Handle one request; the connection is told when it is done."""

    def report(self, error: Exception) -> None:
        """Note a failure of the broker itself."""


class ConnectionOwner(Protocol):
    """The broker that a connection belongs to.

    Attributes:
        node_id: Its id.
        host: The cluster it runs in.
        network: The socket layer.
        is_stalled: It stands still.
    """

    node_id: int
    host: Host
    network: Network
    is_stalled: bool

    def touch(self, connection: "Connection") -> None:
        """Take note that a connection carried something."""

    def forget(self, connection: "Connection", reason: str) -> None:
        """Take note that a connection is closed."""


class Connection:
    """A stream and the requests on it; a `Reply` to the one in hand."""

    __slots__ = (
        "_busy",
        "_carrier",
        "_closing",
        "_frames",
        "_goes_on",
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

    def __init__(
        self,
        stream: Stream,
        owner: ConnectionOwner,
        reader: FrameReader,
    ) -> None:
        """Serve an accepted stream."""
        context = owner.host.tls_context
        self._carrier = stream  # what the network watches
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
        self.is_closed: bool = False
        name = (lambda: None) if self._tls is None else self._tls.certified_name
        self.session: Session = Session(self._host, reader.lift, name)
        if self._host.security.uses_sasl:
            reader.limit(UNAUTHENTICATED_FRAME_BYTES_MAX)
        self.watch()

    @property
    def peer(self) -> str:
        """The client's address, for messages."""
        return self._stream.peer

    def on_ready(self, *, readable: bool, writable: bool) -> None:
        """Read, write, and take requests."""
        if self.is_closed:
            return
        if writable:
            self._write()
        if readable and not self.is_closed:
            self._read()
        self._pump()

    def send(self, frame: bytes) -> None:
        """Queue a response and take the next request."""
        self._queue(frame)
        self._next()

    def skip(self) -> None:
        """Take the next request."""
        self._next()

    def hang(self) -> None:
        """Take no request any more; incoming bytes are read and dropped."""
        self._hung = True
        self._frames.clear()
        self._waiting_bytes = 0
        self._hold_requests(has_progressed=False)

    def mute(self, delay_ms: int) -> None:
        """Take no request for `delay_ms`."""
        self._muted = True
        self._host.after(delay_ms, self._unmute)

    def send_raw(self, piece: bytes) -> None:
        """Queue bytes that are no frame: the beginning of a response that is cut."""
        self._enqueue(memoryview(piece))

    def close(self) -> None:
        """Close once everything queued has left."""
        self._closing = True
        self._write()
        self.watch()

    def report(self, error: Exception) -> None:
        """Report a failure of the broker's own."""
        self._host.report(error)

    def fail(self, error: Exception) -> None:
        """Report a failure of the broker's own, and close."""
        self._host.report(error)
        self.abort(f"the broker failed: {error!r}")

    def abort(self, reason: str) -> None:
        """Close now.

        Args:
            reason: The reason for a log line.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._frames.clear()
        self._unsent.clear()
        self._host.requests.hold(self, 0, has_progressed=False)
        self._host.responses.hold(self, 0, has_progressed=False)
        self._owner.network.watch(self._carrier, self, readable=False, writable=False)
        self._stream.close()
        self._owner.forget(self, reason)

    def watch(self) -> None:
        """Tell the network what this connection waits for."""
        if self.is_closed:
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
        if not self._pumping:
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
        if self._unsent and not self.is_closed:
            self._write()
        self._hold_requests(has_progressed=taken > 0)
        self._hold_responses(has_progressed=False)
        self.watch()

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
                self.abort("the client closed the connection")
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
        if not self.is_closed and piece:
            self._unsent.append(piece)
            self._unsent_bytes += len(piece)

    def _write(self) -> None:
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
