"""Sends a member's JoinGroup and SyncGroup requests, one at a time.

A coordinator parks both until the other members are there, so neither has a usual time.

Thread-safety: the I/O thread.
Source: Kafka AbstractCoordinator.sendJoinGroupRequest, onLeaderElected (clients 4.3.1).
"""

from collections.abc import Callable

from kprod.consumer.group.coordinator_link import (
    FOREVER_MS,
    CoordinatorLink,
    CoordinatorRequest,
)
from kprod.network.client_request import Outcome


class Rounds:
    """The requests of one member.

    Attributes:
        is_waiting: Whether a request waits for its response.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        ticket: Callable[[], int],
        on_answer: Callable[[Outcome, int], object],
    ) -> None:
        """Start without a request.

        Args:
            link: The coordinator.
            ticket: Returns the member's present ticket.
            on_answer: Called with each outcome, and the ticket at the time of the request.
        """
        self._link = link
        self._ticket = ticket
        self._on_answer = on_answer
        self.is_waiting: bool = False
        self._is_present = False  # whether that request is the present membership's

    def end_membership(self) -> bool:
        """Return whether a request of the membership that ends waits for its response."""
        was_present, self._is_present = self._is_present, False
        return was_present

    def send(self, make: Callable[[], CoordinatorRequest], now_ms: int) -> int:
        """Send a request, unless one waits for its response.

        Args:
            make: Returns the request.
            now_ms: Monotonic time.

        Returns:
            Milliseconds until it can be sent; events may come earlier.
        """
        if self.is_waiting:
            return FOREVER_MS
        if not self._link.ready(now_ms):
            return self._link.wait_ms(now_ms)
        ticket = self._ticket()
        self.is_waiting = self._is_present = True

        def complete(outcome: Outcome) -> None:
            self.is_waiting = self._is_present = False
            self._on_answer(outcome, ticket)

        self._link.send(make(), complete, now_ms)
        return FOREVER_MS
