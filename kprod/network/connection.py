# cython: annotation_typing=False, nonecheck=True
"""The connection to one node: its state, its requests in flight, and its end.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

    set-up → handshake → READY → requests and responses → lost → back-off

`ConnectionSetup` handles names, sockets and TLS; `NodeSession` the handshake and further logins;
`RequestDeadlines` and `IdleTimeout` time; `connection_loss` failures.

Every failure ends in `drop`: it closes the socket, completes every request in flight with an error
that says whether it was written, and delays the next attempt. As there is no other way to end,
nothing can remain half closed.

Invariants.
    The selector watches a socket exactly while `channel` is set. `requests` is empty without a
    channel. Every deadline is a timer task and is cancelled together with its cause.

Thread-safety: one thread.
Source: Kafka's NetworkClient and ClusterConnectionStates (clients 4.3.1); KIP-219.
"""

from typing import TYPE_CHECKING, Any

from kprod._core.wire.frames import correlation_id_of
from kprod.cluster.metadata_response import MetadataResponse
from kprod.errors import AuthenticationFailed, KprodError, without_frames
from kprod.model import Node
from kprod.network.channel import Channel
from kprod.network.client_request import ClientRequest
from kprod.network.connection_context import ConnectionContext
from kprod.network.connection_errors import error_for_request, is_rejection, lost_error
from kprod.network.connection_log import ConnectionLog
from kprod.network.connection_loss import error_in_state, fail_later, fail_now
from kprod.network.connection_setup import ConnectionSetup
from kprod.network.framing import Frame
from kprod.network.idle_timeout import IdleTimeout
from kprod.network.in_flight import InFlightRequest, InFlightRequests
from kprod.network.node_session import NodeSession
from kprod.network.node_state import ConnectionState, NodeState
from kprod.network.request_deadlines import RequestDeadlines
from kprod.network.resolver import Resolution
from kprod.network.selector import EVENT_READ, EVENT_WRITE
from kprod.network.throttle import THROTTLE_MS_MAX, requested_throttle_ms
from kprod.protocol.headers import decode_response_header

if TYPE_CHECKING:
    from kprod.network.negotiation import BrokerFeatures

# Cached: looked up for each request, and attribute access on an enum class is slow.
_CONNECTING = ConnectionState.CONNECTING
_TLS_HANDSHAKE = ConnectionState.TLS_HANDSHAKE
_READY = ConnectionState.READY
# C integers: see the `.pxd`
_READ = EVENT_READ
_PREFIX_BYTES = 4  # a frame is passed without its length prefix


class NodeConnection:
    """The connection to one node; exists longer than its sockets.

    Attributes:
        channel: The channel of the current socket; None without a socket.
        events: The events that the selector watches the socket for.
    """

    def __init__(self, node: Node, context: ConnectionContext) -> None:
        """Start disconnected.

        Args:
            node: The node to connect to.
            context: The state that the client's connections share.
        """
        self.node = node
        self.state: NodeState = NodeState(context.settings, context.rng)
        self.requests: InFlightRequests = InFlightRequests()
        self.features: BrokerFeatures | None = None
        self._context = context
        self._setup = ConnectionSetup(self, context)
        self.channel: Channel | None = None
        self.events: int = 0
        self._session = NodeSession(self, context)
        self._deadlines: RequestDeadlines = RequestDeadlines(context.timer, self)
        self._idle_timeout = IdleTimeout(context, self._idle_ms, self._retire)
        self._log = ConnectionLog(node, self.state, context)
        self._last_active_ms = 0

    def can_send(self, now_ms: int) -> bool:
        """Whether a request may be sent.

        Args:
            now_ms: Monotonic time.

        Returns:
            True if READY, not throttled, not close to the end of its session, and below the limit
            of requests in flight.
        """
        return self.state.sends(now_ms) and self.requests.has_room(self._context.in_flight_max)

    def connect(self, now_ms: int) -> None:
        """Start an attempt; the caller has checked `state.can_connect`.

        Args:
            now_ms: Monotonic time.
        """
        allowed_ms = self.state.begin_connect(now_ms)
        self._context.attempts.begin(self.node, now_ms)
        self._setup.begin(allowed_ms, now_ms)

    def on_resolution(self, resolution: Resolution, now_ms: int) -> None:
        """See `ConnectionSetup.on_resolution`."""
        self._setup.on_resolution(resolution, now_ms)

    def serve(self, events: int, now_ms: int) -> None:
        """Process socket events.

        Args:
            events: `EVENT_READ`, `EVENT_WRITE` or both.
            now_ms: Monotonic time.
        """
        if self.channel is None:
            return
        try:
            self._take_events(self.channel, events, now_ms)
        except OSError as error:
            self.drop(lost_error(self.node, error), now_ms)
        except KprodError as error:
            # The error is kept for texts; its frames hold the response that cannot be decoded.
            self.drop(without_frames(error), now_ms)
        except Exception as error:  # noqa: BLE001 - most likely a MemoryError
            fail_now(self, error, now_ms)

    def send(self, request: ClientRequest, version: int, now_ms: int) -> None:
        """Send a request; the caller has checked `can_send`.

        Args:
            request: A request for this node.
            version: The negotiated version.
            now_ms: Monotonic time.

        Raises:
            KprodError: The request cannot be encoded; nothing was sent.
        """
        channel = self.channel
        assert channel is not None  # noqa: S101 - READY implies a channel
        correlation_id = self._context.next_correlation_id()
        frame = request.encode(version, correlation_id, self._context.client_id)
        in_flight = InFlightRequest(request, frame, version, correlation_id, now_ms)
        timeout_ms = request.timeout_ms or self._context.request_timeout_ms
        in_flight.deadline_ms = now_ms + timeout_ms
        self._last_active_ms = now_ms
        self.requests.add(in_flight)
        try:
            channel.send(frame)  # before the bookkeeping, so that the broker can already work
            self._note_written(channel, now_ms)
            if self.requests.newest is in_flight:
                self._deadlines.arm(in_flight)
            self._context.recorder.requested(self.node.node_id, frame.size_bytes)
        except Exception as error:  # noqa: BLE001 - in flight already: its connection tells of it
            fail_later(self, error)

    def next_correlation_id(self) -> int:
        """Return a correlation id for `send_again`."""
        return self._context.next_correlation_id()

    def send_again(
        self, in_flight: InFlightRequest, frame: bytes, number: int, now_ms: int
    ) -> None:
        """Send the only request in flight once more, in place of a new one like it.

        Its response was processed elsewhere, and a request may be sent. The task of its timeout
        stays, and begins again when it is due.

        Args:
            in_flight: The request, which gets the response to this frame.
            frame: Its new bytes.
            number: The correlation id in them.
            now_ms: Monotonic time.
        """
        channel = self.channel
        assert channel is not None  # noqa: S101 - a request is in flight
        timeout_ms = in_flight.request.timeout_ms or self._context.request_timeout_ms
        in_flight.deadline_ms = now_ms + timeout_ms
        in_flight.sent_at_ms = self._last_active_ms = now_ms
        in_flight.correlation_id = number
        in_flight.frame.renew(frame)
        try:
            channel.send(in_flight.frame)
            self.watch_channel(channel)
            self._context.recorder.requested(self.node.node_id, len(frame))
        except Exception as error:  # noqa: BLE001 - as in `send`
            fail_later(self, error)

    def drop(self, error: KprodError, now_ms: int) -> None:
        """Close the connection, or abort the attempt, because of an error.

        Args:
            error: The reason; requests in flight complete with it, or as disconnected because of
                it.
            now_ms: Monotonic time.
        """
        if self.state.is_down:
            return
        was_connecting = self.state.current is _CONNECTING
        error = error_in_state(error, self.state.current, uses_tls=self._setup.tls is not None)
        if isinstance(error, AuthenticationFailed):
            is_again = self.state.is_connected
            self._context.recorder.login_failed(is_again=is_again)
        self._close_channel()
        if self.state.is_connected:
            self._context.recorder.disconnected()
        self._setup.end(tries_next=was_connecting)
        self.state.fail(now_ms, authentication=is_rejection(error))
        failures = self._context.attempts.fail(self.node, self.state.retry_at_ms, now_ms)
        self._log.disconnected(error, failures)
        self._context.listener.on_connection_down(self.node, error, failures)
        self._fail_requests(error, now_ms)

    def close_after_fork(self) -> None:
        """Close this process's copy of the socket, in a forked child.

        The selector is not called, since it is shared with the parent's.
        """
        if self._setup.tls is not None:
            self._setup.tls.close_after_fork()
        elif self.channel is not None:
            self.channel.transport.close()

    def _take_events(self, channel: Channel, events: int, now_ms: int) -> None:
        if self.state.current is _CONNECTING or self.state.current is _TLS_HANDSHAKE:
            self._setup.go_on(channel, now_ms)
            return
        if events & EVENT_WRITE:
            channel.flush()
            self._note_written(channel, now_ms)
        if events & EVENT_READ and self.channel is channel:
            self._receive(channel, now_ms)
        while channel.has_input and self.channel is channel:
            self._receive(channel, now_ms)

    def _close_channel(self) -> None:
        self._setup.stop_clock()
        self._session.end()
        self._idle_timeout.end()
        self.release_channel()
        self.features = None

    def attach(self, channel: Channel) -> None:
        """Implement `ConnectionOwner.attach`."""
        self.channel = channel
        self.events = EVENT_WRITE
        self._context.io.selector.register(channel.transport, EVENT_WRITE, self)

    def release_channel(self) -> None:
        """Implement `ConnectionOwner.attach`."""
        if self.channel is not None:
            self._context.io.selector.unregister(self.channel.transport)
            self.channel.close()
            self.channel = self._setup.tls = None

    def _fail_requests(self, error: KprodError, now_ms: int) -> None:
        # completed already, before `take_frame` was interrupted
        told = [request for request, _ in self._context.completions]
        for in_flight in self.requests.take_all():
            if in_flight.request not in told:
                self._complete(in_flight, now_ms, error=error_for_request(error, self.node))

    def begin_check(self, now_ms: int) -> None:
        """Implement `ConnectionOwner.attach`."""
        self._setup.stop_clock()
        self.state.begin_check()
        self.watch(EVENT_READ)
        self._session.begin(self._setup.address, now_ms)

    def log_in_again(self, now_ms: int) -> None:
        """Start another login; the caller has checked `state.must_log_in_again`.

        Args:
            now_ms: Monotonic time.
        """
        try:
            self._session.begin_again(now_ms)
        except KprodError as error:
            self.drop(error, now_ms)

    def on_let_in(self, now_ms: int, *, is_again: bool) -> None:
        """Implement `SessionOwner.on_let_in`."""
        if is_again:
            self._log.logged_in_again(now_ms)
            return
        self.features = self._session.features
        if self.channel is not None:
            self.channel.reader.bytes_max = self._context.response_bytes_max
        self._context.attempts.succeed(self.node, now_ms)
        assert self._session.handshake is not None  # noqa: S101 - it is just over
        self._throttle(self._session.handshake.api_versions.throttle_ms)
        self._last_active_ms = now_ms
        self._idle_timeout.begin(now_ms)
        tls = None if self._setup.tls is None else self._setup.tls.description
        self._log.connected(self._setup.address, tls, now_ms)
        self._context.listener.on_connection_ready(self.node)

    def _note_written(self, channel: Channel, now_ms: int) -> None:
        """Update the selector's interest; complete requests that have no response."""
        self.watch_channel(channel)
        newest = self.requests.newest
        if newest is not None and not newest.request.expects_response:
            for in_flight in self.requests.take_written_without_response():
                self._complete(in_flight, now_ms)

    def watch_channel(self, channel: Channel) -> None:
        """Watch the socket for responses, and for what the channel waits for.

        Input that has left the socket already is processed as soon as the socket is writable.
        """
        self.watch(EVENT_READ | EVENT_WRITE if channel.is_busy() else _READ)

    def watch(self, events: int) -> None:
        """Watch the socket for these events, if there is a socket."""
        channel, epoll = self.channel, self._context.epoll
        if events == self.events or channel is None:
            return
        if epoll is not None:
            epoll.change(channel.transport.fileno(), events)
        else:
            self._context.io.selector.modify(channel.transport, events, self)
        self.events = events

    def _receive(self, channel: Channel, now_ms: int) -> None:
        for frame in channel.receive(self._context.receive_buffer):
            self.take_frame(frame, now_ms)
            if self.channel is not channel:
                return
        if channel.reader.error is not None:
            raise channel.reader.error

    def count_response(self, frame: Frame) -> None:
        """Tell the recorder of a response, given without its length prefix."""
        self._context.recorder.responded(self.node.node_id, len(frame) + _PREFIX_BYTES)

    def take_frame(self, frame: Frame, now_ms: int) -> None:
        """Match a response, given without its length prefix, with the oldest request."""
        self._last_active_ms = now_ms
        self.count_response(frame)
        in_flight = self.requests.oldest(correlation_id_of(frame))
        api_key, version = in_flight.request.api_key, in_flight.version
        if self.state.current is not _READY and self._session.awaits(in_flight.request):
            _, body_offset = decode_response_header(api_key, version, frame)
            self._session.take(memoryview(frame)[body_offset:])
            self.requests.complete_oldest()
            self._session.go_on(now_ms)
            return
        body = in_flight.request.decode(version, frame)
        # first: if memory is short, it stays in flight
        self._complete(in_flight, now_ms, body=body)
        self.requests.complete_oldest()
        if not isinstance(body, list):
            fields = body.fields if isinstance(body, MetadataResponse) else body
            if isinstance(fields, dict) and fields.get("throttle_time_ms"):
                self._throttle(requested_throttle_ms(api_key, version, fields))

    def _throttle(self, throttle_ms: int) -> None:
        """Send nothing for a while, and give the requests in flight that much more time.

        Throttles that overlap count once, and one ends after `THROTTLE_MS_MAX`.
        """
        if throttle_ms <= 0:
            return
        if throttle_ms > THROTTLE_MS_MAX:
            self._log.throttled(throttle_ms)
            throttle_ms = THROTTLE_MS_MAX
        added_ms = self.state.throttle(throttle_ms, self._last_active_ms)
        self._deadlines.delay(self.requests, added_ms)

    def _complete(
        self,
        in_flight: InFlightRequest,
        now_ms: int,
        body: Any = None,  # noqa: ANN401 - each request's own
        error: KprodError | None = None,
    ) -> None:
        outcome = in_flight.outcome(self.node.node_id, now_ms, body, error)
        self._context.completions.append((in_flight.request, outcome))

    def _idle_ms(self, now_ms: int) -> int:
        if len(self.requests):
            self._last_active_ms = now_ms
        return now_ms - self._last_active_ms

    def _retire(self, now_ms: int) -> None:
        self._log.idle_closed()
        self._context.recorder.disconnected()
        self._close_channel()
        self._context.attempts.forget(self.node)
        self.state.retire(now_ms)
