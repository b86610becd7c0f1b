"""Sends a member's heartbeats, and notices a coordinator that does not respond.

Thread-safety: the I/O thread.
Source: Kafka Heartbeat, AbstractCoordinator.HeartbeatThread (clients 4.3.1).
"""

from collections.abc import Callable

from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.coordinator_link import CoordinatorLink
from kprod.consumer.group.member_requests import Identity, MemberRequests
from kprod.errors import KprodError
from kprod.network.client_request import Outcome
from kprod.protocol.denials import denial_or_error


class Heartbeats:
    """The heartbeats of one member.

    Attributes:
        answered_ms: Monotonic time of the newest answer that confirmed the member.
        count: Number of heartbeats that were answered.
    """

    def __init__(
        self,
        settings: GroupSettings,
        link: CoordinatorLink,
        requests: MemberRequests,
        on_error: Callable[[KprodError, Identity, int], object],
    ) -> None:
        """Start without heartbeats.

        Args:
            settings: The group's settings.
            link: The coordinator.
            requests: Builds the requests.
            on_error: Called with the error of a heartbeat, the identity that it was sent for, and
                the time.
        """
        self._settings = settings
        self._link = link
        self._requests = requests
        self._on_error = on_error
        self._is_asking = False
        self._due_ms = 0
        self.answered_ms: int = 0
        self.count: int = 0

    def begin(self, now_ms: int) -> None:
        """Count the session from now: the coordinator has answered the member.

        Args:
            now_ms: Monotonic time.
        """
        self.answered_ms = now_ms
        self._due_ms = now_ms + self._settings.heartbeat_interval_ms

    def run(self, identity: Identity, now_ms: int) -> int:
        """Send a heartbeat if one is due.

        Args:
            identity: The member's.
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next.
        """
        if now_ms - self.answered_ms >= self._settings.session_timeout_ms:
            self.answered_ms = now_ms
            self._link.lose(now_ms)  # without a response; another broker may coordinate
        if not self._link.ready(now_ms):
            return self._link.wait_ms(now_ms)
        session_ms = self.answered_ms + self._settings.session_timeout_ms - now_ms
        if self._is_asking:
            return session_ms
        if now_ms < self._due_ms:
            return min(session_ms, self._due_ms - now_ms)
        self._is_asking = True
        self._due_ms = now_ms + self._settings.heartbeat_interval_ms
        self._link.send(
            self._requests.heartbeat(identity),
            lambda outcome: self._complete(outcome, identity),
            now_ms,
        )
        return session_ms

    def _complete(self, outcome: Outcome, identity: Identity) -> None:
        self._is_asking = False
        body = outcome.body
        if body is None:
            error = outcome.error or KprodError("no response")
            self._due_ms = outcome.now_ms  # at once, when the coordinator is found
            self._on_error(error, identity, outcome.now_ms)
        elif body["error_code"]:
            error = denial_or_error(body["error_code"], "READ", self._settings.group_id)
            self._on_error(error, identity, outcome.now_ms)
        else:
            self.answered_ms = outcome.now_ms
            self.count += 1
            self._link.works()
