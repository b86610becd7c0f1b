# cython: annotation_typing=False, nonecheck=True
"""The deadlines of one connection's requests in flight.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A request that is sent again, or that a throttle delays, gets a later deadline. Its timer task may
stay: a task that is due too early begins again.

Thread-safety: the client's thread.
"""

from typing import Protocol

from kprod.errors import KprodError
from kprod.model import Node
from kprod.network.connection_errors import request_timeout_error
from kprod.network.in_flight import InFlightRequest, InFlightRequests
from kprod.network.request_task import RequestTask
from kprod.timer.timer import Timer


class WaitingConnection(Protocol):
    """The connection, as the deadlines of its requests see it."""

    node: Node

    def drop(self, error: KprodError, now_ms: int) -> None:
        """Close the connection because of an error."""


class RequestDeadlines:
    """Drops one connection when a request is not answered in time."""

    def __init__(self, timer: Timer, connection: WaitingConnection) -> None:
        """Start without requests.

        Args:
            timer: The client's timer.
            connection: The connection of the requests.
        """
        self._timer = timer
        self._connection = connection
        self._on_due = self._look  # bound once, not for each request

    def arm(self, in_flight: InFlightRequest) -> None:
        """Watch the deadline of a request that is being sent.

        Args:
            in_flight: A request without a timer task.
        """
        in_flight.timeout = RequestTask(in_flight, self._on_due)
        self._timer.add_at(in_flight.deadline_ms, in_flight.timeout)

    def delay(self, requests: InFlightRequests, added_ms: int) -> None:
        """Give requests more time.

        Args:
            requests: The connection's requests.
            added_ms: Milliseconds to add to each deadline, at least 0.
        """
        for in_flight in requests:
            in_flight.cancel_timeout()
            in_flight.deadline_ms += added_ms
            self.arm(in_flight)

    def _look(self, in_flight: InFlightRequest) -> None:
        if in_flight.deadline_ms > self._timer.now_ms:  # it was sent again meanwhile
            self.arm(in_flight)
            return
        connection = self._connection
        connection.drop(request_timeout_error(connection.node, in_flight), self._timer.now_ms)
