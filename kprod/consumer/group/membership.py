"""Drives a member of a group through joins, heartbeats and rebalances.

The I/O thread owns the member's state. What concerns the application (to give up partitions, to
take over new ones, to run the application's assignor) is handed to its thread as a step; each step
has a ticket, and one whose ticket is no longer the newest changes nothing. Heartbeats continue
while a step waits.

Thread-safety: the I/O thread, apart from `ticket`, `identity` and `error`, which any thread reads.
Source: AbstractCoordinator, ConsumerCoordinator (clients 4.3.1); KIP-62, 345, 394, 429, 814.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kprod.cluster.metadata import Metadata
from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.application import Application
from kprod.consumer.group.assignors import is_built_in
from kprod.consumer.group.coordinator_link import FOREVER_MS, CoordinatorLink, CoordinatorRequest
from kprod.consumer.group.departure import Departure
from kprod.consumer.group.group_shares import GroupShares
from kprod.consumer.group.heartbeats import Heartbeats
from kprod.consumer.group.leadership import Leadership
from kprod.consumer.group.leading import assignments_or_error, check_assigned, members_of
from kprod.consumer.group.member_requests import Identity, MemberRequests
from kprod.consumer.group.member_state import ASKING, MemberEvent, MemberState, next_state
from kprod.consumer.group.member_texts import fenced_error, stalled_text, unoffered_error
from kprod.consumer.group.offers import NO_BYTES, Offers
from kprod.consumer.group.protocol_data import decode_assignment
from kprod.consumer.group.rounds import Rounds
from kprod.errors import BrokerError, ConnectionFailed, KprodError, RequestTimeout
from kprod.guarded_log import guarded_logger
from kprod.network.client_request import Outcome
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode

if TYPE_CHECKING:
    from kprod.interfaces import PartitionAssignor

_logger = guarded_logger(__name__)
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Membership:
    """The membership of one consumer.

    Attributes:
        state: The member's state.
        identity: Member id and generation.
        offers: The member's offers to its group.
        topics: The subscribed topics.
        ticket: Number of the newest step.
        error: Why the member is FENCED; None if it is not.
        heartbeats: The member's heartbeats.
        rebalance_count: Number of assignments that were taken over.
    """

    def __init__(
        self,
        settings: GroupSettings,
        link: CoordinatorLink,
        metadata: Metadata,
        application: Application,
        *,
        backoff_ms: Callable[[int], int],
    ) -> None:
        """Start outside of the group.

        Args:
            settings: The group's settings.
            link: The coordinator.
            metadata: Provides the topics' partitions.
            application: The application's side.
            backoff_ms: Returns the milliseconds to wait after a number of failures, at least 1.
        """
        self._settings = settings
        self._link = link
        self._application = application
        self._backoff_ms = backoff_ms
        self._requests = MemberRequests(settings)
        self.heartbeats: Heartbeats = Heartbeats(settings, link, self._requests, self.take_error)
        self.state: MemberState = MemberState.LEFT
        self.identity: Identity = Identity()
        self.offers: Offers = Offers(settings)
        self.topics: tuple[str, ...] = ()
        self.ticket: int = 0
        self.error: KprodError | None = None
        self.rebalance_count: int = 0
        self._rounds = Rounds(link, lambda: self.ticket, self._take_answer)
        self._departure = Departure(
            settings, link, self._requests, self._rounds, backoff_ms=self._backoff_ms
        )
        self._failures = 0
        self._retry_at_ms = 0
        self._reason = ""
        self._must_rejoin = False
        self._assignor: PartitionAssignor | None = None
        self._led_ticket = -1
        self._leadership = Leadership(metadata, GroupShares(settings, link, self._requests))
        self._assignments: dict[str, bytes] = {}

    @property
    def wanted_topics(self) -> set[str]:
        """The topics whose metadata is needed: the group's, in its leader."""
        return {*self.topics, *self._leadership.topics}

    @property
    def is_between_generations(self) -> bool:
        """Whether the coordinator accepts no commits, since members are joining."""
        return self.state in {MemberState.JOINING, MemberState.LEADING, MemberState.SYNCING}

    def subscribe(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Become a member, or change the member's topics.

        Args:
            topics: The topics; at least one.
            now_ms: Monotonic time.
        """
        self.topics = topics
        if self.state is MemberState.LEFT:
            self._reason = ""
            self._prepare(MemberEvent.SUBSCRIBED, now_ms)
        else:
            self.rejoin("the subscription has changed")

    def rejoin(self, reason: str) -> None:
        """Start a rebalance, as soon as the member is STABLE.

        Args:
            reason: The reason, for the brokers' logs.
        """
        self._must_rejoin, self._reason = True, reason

    def leave(
        self, reason: str, now_ms: int, on_left: Callable[[], object], *, tells: bool
    ) -> None:
        """Cease to be a member; the partitions must have been given up.

        Args:
            reason: The reason, for the brokers' logs.
            now_ms: Monotonic time.
            on_left: Called when the coordinator has answered, or is not told.
            tells: Whether to tell the coordinator, so that others get the partitions at once.
        """
        if self.state is MemberState.LEFT:
            self._leave_group(reason, now_ms, on_left, tells=tells)  # a static one may be counted
            return
        self._move(MemberEvent.UNSUBSCRIBED)
        self.ticket += 1
        self.topics, self.error = (), None
        self._leadership.resign()
        self._leave_group(reason, now_ms, on_left, tells=tells)

    def prepared(
        self, ticket: int, now_ms: int, own_bytes: Mapping[str, bytes | None] = NO_BYTES
    ) -> None:
        """Join the group: the application's thread has given up partitions.

        Args:
            ticket: The step's.
            now_ms: Monotonic time.
            own_bytes: Bytes of the application's assignors for the group's leader, by name.
        """
        if ticket == self.ticket and self.state is MemberState.PREPARING:
            self.offers.own_bytes = own_bytes
            self._move(MemberEvent.PREPARED)
            self._retry_at_ms = now_ms

    def led(self, ticket: int, result: "dict[str, bytes] | KprodError", now_ms: int) -> None:
        """Send the computed assignments to the group."""
        if ticket != self.ticket or self.state is not MemberState.LEADING:
            return
        if isinstance(result, KprodError):
            self._application.fail(result)
            self._join_again(now_ms)
        else:
            self._assignments = result
            self._move(MemberEvent.LED)

    def assigned(self, ticket: int, *, has_revoked: bool) -> None:
        """Settle in the generation: the application's thread has taken over the assignment."""
        if ticket != self.ticket or self.state is not MemberState.ASSIGNING:
            return
        self._move(MemberEvent.ASSIGNED)
        self.rebalance_count += 1
        if has_revoked:
            self.rejoin("partitions were given up")

    def take_error(self, error: KprodError, identity: Identity, now_ms: int) -> None:
        """Act on the error of a request of the member.

        Args:
            error: The error.
            identity: The identity that the request was sent for.
            now_ms: Monotonic time.
        """
        if identity != self.identity or self.state in {MemberState.LEFT, MemberState.FENCED}:
            return  # the member has moved on
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self._fence(error)
        elif code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}:
            is_known = code == ErrorCode.ILLEGAL_GENERATION
            self._lose(Identity(identity.member_id) if is_known else Identity(), now_ms)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rebalance(now_ms)
        else:
            if code in _MOVED or isinstance(error, (ConnectionFailed, RequestTimeout)):
                self._link.lose(now_ms)
            elif not error.retriable:
                self._application.fail(error)
            if self.state in ASKING:
                self._join_again(now_ms)

    def run(self, now_ms: int) -> int:
        """Send the due requests.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next action; events may come earlier.
        """
        wait_ms = self._departure.run(now_ms)
        if self.state in {MemberState.LEFT, MemberState.FENCED}:
            return wait_ms
        if self.state is MemberState.STABLE and self._leadership.has_changed(now_ms):
            self.rejoin("the partitions of the group's topics have changed")
        if self._must_rejoin and self.state is MemberState.STABLE:
            self._prepare(MemberEvent.REBALANCE, now_ms)
        wait_ms = min(wait_ms, self._look_at_application(now_ms))
        if self.state is MemberState.LEADING:
            wait_ms = min(wait_ms, self._lead(now_ms))
        if self.state in ASKING:
            return min(wait_ms, self._ask(now_ms))
        if self.identity.is_member:
            return min(wait_ms, self.heartbeats.run(self.identity, now_ms))
        return wait_ms

    def _move(self, event: MemberEvent) -> None:
        self.state = next_state(self.state, event)

    def _look_at_application(self, now_ms: int) -> int:
        """Leave if the application asked for nothing for too long."""
        limit_ms = self._settings.max_poll_interval_ms
        if not self.identity.is_member or self.is_between_generations:
            return FOREVER_MS
        idle_ms = self._application.idle_ms(now_ms)
        if idle_ms < limit_ms:
            return limit_ms - idle_ms
        _logger.warning("%s", stalled_text(self._settings, idle_ms))
        tells = not self._settings.group_instance_id  # a static member keeps its place
        self._leave_group("consumer poll timeout has expired", now_ms, lambda: None, tells=tells)
        self._move(MemberEvent.LOST)
        self.ticket += 1
        self._application.prepare(self.ticket, is_lost=True)  # joins with the next poll
        return FOREVER_MS

    def _prepare(self, event: MemberEvent, now_ms: int, *, is_lost: bool = False) -> None:
        """Make the application give up partitions, unless it has none."""
        self.ticket += 1
        has_some = bool(self._application.owned() or self.offers.own)
        if has_some:
            self._application.prepare(self.ticket, is_lost=is_lost)
        self._move(event)  # late: a loss is noticed again after an exception before
        self._must_rejoin = False
        if not has_some:
            self.prepared(self.ticket, now_ms)

    def _lose(self, identity: Identity, now_ms: int) -> None:
        before, self.identity = self.identity, identity
        try:
            self._prepare(MemberEvent.LOST, now_ms, is_lost=True)
        except Exception:
            self.identity = before  # its next heartbeat is rejected, too
            raise

    def _join_again(self, now_ms: int, *, has_failed: bool = True) -> None:
        """Join again, after a pause if an attempt has failed; nothing has to be given up."""
        self._move(MemberEvent.REBALANCE)
        self.ticket += 1
        self._retry_at_ms = now_ms + (self._backoff_ms(self._failures) if has_failed else 0)
        self._failures += has_failed

    def _leave_group(
        self, reason: str, now_ms: int, on_left: Callable[[], object], *, tells: bool
    ) -> None:
        member_id, self.identity = self.identity.member_id, Identity()
        is_joining = self._rounds.end_membership()
        self.offers.forget()
        self._departure.begin(
            member_id, reason, now_ms, on_left, is_joining=is_joining, tells=tells
        )

    def _ask(self, now_ms: int) -> int:
        """Send JoinGroup or SyncGroup, if it was not sent yet."""
        if now_ms < self._retry_at_ms:
            return self._retry_at_ms - now_ms
        return self._rounds.send(self._request, now_ms)

    def _request(self) -> CoordinatorRequest:
        if self.state is MemberState.SYNCING:
            protocol = "" if self._assignor is None else self._assignor.name
            return self._requests.sync(self.identity, protocol, self._assignments)
        owned = self._application.owned()
        encoded = self.offers.encoded(self.topics, owned, self.identity.generation)
        return self._requests.join(self.identity.member_id, encoded, self._reason)

    def _take_answer(self, outcome: Outcome, ticket: int) -> None:
        """Take the response to JoinGroup or SyncGroup, unless the member has moved on."""
        body, now_ms = outcome.body, outcome.now_ms
        if ticket != self.ticket:
            self._departure.learn("" if body is None else body.get("member_id", ""))
        elif body is None:
            self.take_error(outcome.error or KprodError("no response"), self.identity, now_ms)
        elif body["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
            self.identity = Identity(body["member_id"])
        elif body["error_code"]:
            error = denial_or_error(body["error_code"], "READ", self._settings.group_id)
            self.take_error(error, self.identity, now_ms)
        else:
            self._failures = 0
            self._link.works()
            if self.state is MemberState.JOINING:
                self._joined(body, now_ms)
            else:
                self._synced(body, now_ms)

    def _joined(self, body: Mapping[str, Any], now_ms: int) -> None:
        assignor = self.offers.assignor(body["protocol_name"])
        self.identity = Identity(body["member_id"], body["generation_id"])
        if assignor is None or not self.identity.is_member:
            error = unoffered_error(self._settings, body["protocol_name"])
            self.take_error(error, self.identity, now_ms)
            return
        self.heartbeats.begin(now_ms)
        self._assignor, self._assignments = assignor, {}
        if body["leader"] != self.identity.member_id:
            self._leadership.resign()
            self._move(MemberEvent.FOLLOWED)
            return
        members, has_returned = members_of(body["members"]), body["skip_assignment"]
        self._leadership.begin(members, now_ms, has_returned=has_returned)
        self._move(MemberEvent.ELECTED)

    def _lead(self, now_ms: int) -> int:
        """Compute the assignments, or make the application's thread do it."""
        wait_ms = self._leadership.wait_ms(now_ms)
        if wait_ms or self._led_ticket == self.ticket:
            return wait_ms or FOREVER_MS
        self.ticket += 1
        self._led_ticket = self.ticket
        assignor = self._assignor
        assert assignor is not None  # noqa: S101 - the member was elected by it
        members, topics = self._leadership.members, self._leadership.watch()
        if self._leadership.has_returned:  # the members keep what they have
            self.led(self.ticket, {}, now_ms)
        elif is_built_in(assignor):
            self.led(self.ticket, assignments_or_error(assignor, members, topics), now_ms)
        else:
            self._application.lead(self.ticket, assignor, members, topics)
        return FOREVER_MS

    def _synced(self, body: Mapping[str, Any], now_ms: int) -> None:
        try:
            keys = check_assigned(decode_assignment(body["assignment"]))
        except KprodError as error:
            self.take_error(error, self.identity, now_ms)
            return
        if any(key.topic not in self.topics for key in keys):
            self.rejoin("the assignment is of an older subscription")
            keys = [key for key in keys if key.topic in self.topics]
        self.heartbeats.begin(now_ms)
        self.offers.last = (keys, self.identity.generation)
        self.ticket += 1
        self._application.assign(self.ticket, keys)
        self._move(MemberEvent.SYNCED)  # last: after an exception before, it is asked again

    def _rebalance(self, now_ms: int) -> None:
        """Join again, since a member has joined or left; the coordinator knows this one."""
        self.heartbeats.begin(now_ms)
        if self.state in ASKING:
            self._join_again(now_ms, has_failed=False)
        elif self.state is not MemberState.PREPARING:
            self.rejoin("the group is rebalancing")

    def _fence(self, error: KprodError) -> None:
        """Stop for good: another process uses this member's `group_instance_id`."""
        reason = fenced_error(self._settings, error)
        nobody, fenced = Identity(), next_state(self.state, MemberEvent.FENCED)
        self.ticket += 1
        self.error = reason  # before the step: `poll` looks at it once, after the step
        try:
            self._application.prepare(self.ticket, is_lost=True)
        except Exception:
            self.error = None  # its next heartbeat is rejected, too
            raise
        self.identity, self.state = nobody, fenced  # last, and without an allocation
