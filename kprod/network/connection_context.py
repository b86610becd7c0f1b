# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The state that the connections of one client share, including their I/O.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Tests and the simulation replace selector, resolver and sockets by a `NetworkIO` and run the rest
unchanged.

Thread-safety: the client's thread.
"""

import functools
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kprod.clock import Clock
from kprod.config import NetworkSettings
from kprod.errors import KprodError
from kprod.metrics.recorder import Recorder
from kprod.metrics.state_log import StateLog
from kprod.model import Node
from kprod.network import epoll_selector
from kprod.network.attempts import ConnectionAttempts
from kprod.network.channel import RECEIVE_BUFFER_BYTES
from kprod.network.epoll_selector import EpollSelector
from kprod.network.framing import RESPONSE_BYTES_MAX
from kprod.network.in_flight import CORRELATION_ID_MAX
from kprod.network.resolver import Resolver, ThreadResolver
from kprod.network.sasl.login_support import LoginSupport
from kprod.network.sasl.login_thread import InlineJobs, LoginJobs, LoginThread
from kprod.network.security import Security
from kprod.network.selector import Selector, SystemSelector
from kprod.network.socket_wait import EpollSocketWait, SocketWait
from kprod.network.transport import Connect, connect_plain
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from kprod.network.client_request import ClientRequest, Outcome

DEFAULT_CLIENT_ID = "kprod"
# size of a response without its records: names, aborted transactions
FETCH_OVERHEAD_BYTES_MAX = 16 << 20
_CORRELATION_ID_MAX = CORRELATION_ID_MAX  # a C integer: see the `.pxd`


class NetworkIO(NamedTuple):
    """The I/O of a client; tests replace it.

    Attributes:
        selector: Waits for socket events.
        resolver: Resolves names.
        connect: Opens sockets.
        make_socket_wait: Creates a wait for one socket; called only if `selector.can_pause`.
        logins: Runs the blocking parts of logins; None runs them inline, where they must not block.
    """

    selector: Selector
    resolver: Resolver
    connect: Connect
    make_socket_wait: Callable[[], SocketWait] = EpollSocketWait
    logins: LoginJobs | None = None


def system_io(settings: NetworkSettings) -> NetworkIO:
    """Create a client's I/O on the operating system.

    Args:
        settings: Socket buffer sizes.

    Returns:
        The I/O; `NetworkClient.close` closes it.
    """
    selector = EpollSelector() if epoll_selector.IS_AVAILABLE else SystemSelector()
    return NetworkIO(
        selector=selector,
        logins=LoginThread(selector.wakeup),
        resolver=ThreadResolver(selector.wakeup),
        connect=functools.partial(
            connect_plain,
            send_buffer_bytes=settings.send_buffer_bytes,
            receive_buffer_bytes=settings.receive_buffer_bytes,
        ),
    )


class ConnectionListener(Protocol):
    """Called when connections change state."""

    def on_connection_ready(self, node: Node) -> None:
        """Called when requests may be sent to a node."""

    def on_connection_down(self, node: Node, error: KprodError, failures: int) -> None:
        """Process a failed connection or attempt; `failures` counts consecutive ones."""


class ConnectionContext:
    """The state that the connections of one client share."""

    def __init__(  # noqa: PLR0913 - what connections need of their client
        self,
        settings: NetworkSettings,
        io: NetworkIO,
        *,
        timer: Timer,
        rng: random.Random,
        listener: ConnectionListener,
        recorder: Recorder,
        state_log: StateLog | None = None,
        security: Security | None = None,
    ) -> None:
        """Create the context of one client.

        Args:
            settings: Network settings.
            io: Selector, resolver and sockets.
            timer: Timer for all deadlines.
            rng: Random numbers for jitter.
            listener: The client.
            recorder: Called with requests, responses and connections.
            state_log: Logs changes for an operator; None creates one.
            security: TLS and SASL settings of all connections; None for plain connections.
        """
        self.security: Security = security or Security()
        self.settings = settings
        self.in_flight_max: int = settings.max_in_flight_requests_per_connection
        self.request_timeout_ms: int = settings.request_timeout_ms
        self.response_bytes_max: int = max(
            RESPONSE_BYTES_MAX, settings.fetch_max_bytes + FETCH_OVERHEAD_BYTES_MAX
        )
        self.io = io
        # The same selector, if its methods can be called in C.
        self.epoll: EpollSelector | None = (
            io.selector if isinstance(io.selector, EpollSelector) else None
        )
        self.timer = timer
        self.rng = rng
        self.listener = listener
        self.recorder = recorder
        self.client_id: str = settings.client_id or DEFAULT_CLIENT_ID
        self.state_log: StateLog = state_log or StateLog(self.client_id)
        self.completions: deque[tuple[ClientRequest, Outcome]] = deque()
        self.receive_buffer: bytearray = bytearray(RECEIVE_BUFFER_BYTES)
        self.attempts: ConnectionAttempts = ConnectionAttempts(settings, rng)
        self.logins: LoginJobs = io.logins or InlineJobs(io.selector.wakeup)
        # Cached: checked in each turn.
        self.login_outcomes: deque[Callable[[], None]] = self.logins.outcomes
        self._correlation_id = -1

    def attach_logins(self, clock: Clock, is_connected: Callable[[], bool]) -> None:
        """Connect the client's logins with clock and connections.

        Args:
            clock: Monotonic and wall clock.
            is_connected: Whether the client has a connection.
        """
        self.security.attach(
            LoginSupport(self.logins, self.timer, clock, self.rng, self.state_log, is_connected)
        )

    def close(self) -> None:
        """Close the I/O and free its memory."""
        self.io.resolver.close()
        self.logins.close()
        self.io.selector.close()
        self.receive_buffer = bytearray()

    def next_correlation_id(self) -> int:
        """Return the next correlation id.

        Returns:
            0, 1, …, and 0 again before the range that Kafka reserves for SASL.
        """
        is_last = self._correlation_id >= _CORRELATION_ID_MAX
        self._correlation_id = 0 if is_last else self._correlation_id + 1
        return self._correlation_id
