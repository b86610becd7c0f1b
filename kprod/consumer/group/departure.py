"""Tells the coordinator that a member has left, until it knows: the others then wait no longer.

A parked JoinGroup or SyncGroup blocks its connection until the other members are there, so the
LeaveGroup request then goes out on another one. If the coordinator has moved, the new one is told.

Thread-safety: the I/O thread.
Source: Kafka AbstractCoordinator.maybeLeaveGroup (clients 4.3.1), which sends it behind the parked
request, and once.
"""

from collections.abc import Callable

from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.coordinator_link import FOREVER_MS, CoordinatorLink
from kprod.consumer.group.member_requests import MemberRequests
from kprod.consumer.group.rounds import Rounds
from kprod.errors import ConnectionFailed, RequestTimeout
from kprod.network.client_request import Outcome
from kprod.protocol.error_table import ErrorCode

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Departure:
    """The newest departure of one consumer."""

    def __init__(
        self,
        settings: GroupSettings,
        link: CoordinatorLink,
        requests: MemberRequests,
        rounds: Rounds,
        *,
        backoff_ms: Callable[[int], int],
    ) -> None:
        """Start with nothing to tell.

        Args:
            settings: The group's settings.
            link: The coordinator.
            requests: Builds the request.
            rounds: The requests that a coordinator parks.
            backoff_ms: Returns the pause after a number of failures, in milliseconds.
        """
        self._settings = settings
        self._link = link
        self._requests = requests
        self._rounds = rounds
        self._backoff_ms = backoff_ms
        self._number = 0
        self._member_id = ""
        self._reason = ""
        self._is_open = False
        self._on_left: list[Callable[[], object]] = []
        self._is_asking = False
        self._lacks_id = False
        self._is_kept = False  # a static member that has ended, but has not told
        self._until_ms = 0
        self._retry_at_ms = 0
        self._failures = 0

    def begin(
        self,
        member_id: str,
        reason: str,
        now_ms: int,
        on_left: Callable[[], object],
        *,
        is_joining: bool,
        tells: bool,
    ) -> None:
        """Tell the coordinator of a member that has left; an earlier departure is told no more.

        A static member may leave without a word, and come back. Until then the coordinator counts
        it, and can be told later: its instance id is enough.

        Args:
            member_id: The member's id; empty before the first response to a join.
            reason: The reason, for the brokers' logs.
            now_ms: Monotonic time.
            on_left: Called once when nothing is to be told: the coordinator knows, has no such
                member, or has expired it.
            is_joining: Whether a join of this member waits for its response; one of an earlier
                membership does not count.
            tells: Whether to tell; otherwise an earlier departure is told still.
        """
        is_counted = bool(member_id) or is_joining or self._is_kept
        self._is_kept = is_counted and not tells and bool(self._settings.group_instance_id)
        if is_counted and tells:
            self._end()
            self._is_open = True
            self._number += 1
            self._member_id, self._reason = member_id, reason
            # Without an instance id, only the response to its join tells which member it is.
            self._lacks_id = not member_id and not self._settings.group_instance_id
            self._until_ms = now_ms + self._settings.session_timeout_ms
            self._retry_at_ms, self._failures = now_ms, 0
        self._on_left.append(on_left)
        if not self._is_open:
            self._end()

    def learn(self, member_id: str) -> None:
        """Take the id out of the response to the join that the member has not waited for.

        Args:
            member_id: The member's id; empty if there was none.
        """
        if self._lacks_id:
            self._lacks_id, self._member_id = False, member_id
            if not member_id:
                self._end()

    def run(self, now_ms: int) -> int:
        """Send the request, if there is one to send.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next action; events may come earlier.
        """
        if not self._is_open:
            return FOREVER_MS
        if now_ms >= self._until_ms:
            self._end()
            return FOREVER_MS
        left_ms = self._until_ms - now_ms
        if self._is_asking or self._lacks_id:
            return left_ms
        if now_ms < self._retry_at_ms:
            return min(left_ms, self._retry_at_ms - now_ms)
        is_aside = self._rounds.is_waiting
        if not self._link.ready(now_ms, is_aside=is_aside):
            return min(left_ms, self._link.wait_ms(now_ms, is_aside=is_aside))
        self._is_asking = True
        number = self._number
        self._link.send(
            self._requests.leave(self._member_id, self._reason),
            lambda outcome: self._complete(outcome, number),
            now_ms,
            is_aside=is_aside,
        )
        return left_ms

    def _complete(self, outcome: Outcome, number: int) -> None:
        self._is_asking = False
        if number != self._number:
            return  # another departure has begun
        if not self._is_open:
            self._end()  # an exception may have interrupted it
            return
        if outcome.body is None:
            is_lost = isinstance(outcome.error, (ConnectionFailed, RequestTimeout))
            is_passing = is_lost
        else:
            code = outcome.body["error_code"]
            is_lost = code in _MOVED
            is_passing = is_lost or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if is_lost:
            self._link.lose(outcome.now_ms)
        if is_passing:
            self._retry_at_ms = outcome.now_ms + self._backoff_ms(self._failures)
            self._failures += 1
        else:
            self._end()

    def _end(self) -> None:
        self._is_open = False
        while self._on_left:
            self._on_left[0]()
            del self._on_left[0]
