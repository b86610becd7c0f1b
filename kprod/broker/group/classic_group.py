"""One group: its members, its generation, and what they agreed on.

Here is what a group is, and how its parts change together. When it changes is decided by the
modules named after events.

Invariants.
    `state` changes only along `MOVES`.
    `awaiting_join_count` members have a parked join; a member is static or it is in no entry of
    `static_members`; `supported` counts how many members have a protocol.
    The leader is a member, as long as there is one.

Thread-safety: the broker's thread.
Source: Kafka ClassicGroup (4.3.1).
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kprod.broker.group.member import NO_ASSIGNMENT, Member, Protocols
from kprod.broker.group.state import MOVES, GroupState
from kprod.broker.group.subscription import CONSUMER_TYPE, subscribed_topics
from kprod.broker.rejection import Refused
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode

if TYPE_CHECKING:
    from kprod.timer.purgatory import DelayedOperation

# One thread has all groups, so their delayed operations need no lock that locks.
GROUP_LOCK: AbstractContextManager[object] = nullcontext()


class IllegalMove(RuntimeError):
    """The coordinator moved a group where its state does not lead: a mistake of kprod's own."""


class Group:
    """A group.

    Attributes:
        group_id: Its name.
        state: Its state.
        previous_state: The state before.
        state_since_ms: Wall clock of the last change; −1 if the log does not say.
        protocol_type: Of its members; None for a group that only has offsets.
        protocol: Chosen for this generation.
        generation: 0 before the first.
        leader_id: The member that assigns.
        members: By id, in order of joining.
        static_members: Member id by instance id.
        pending_joins: Session timers of ids that were given out and are not used yet.
        pending_syncs: Members of this generation that have not synced yet.
        awaiting_join_count: Members whose join is parked.
        new_member_added: Whether somebody came since the initial delay began.
        subscribed_topics: Of all members together; None if it cannot be known.
        delayed_join: The end of the join phase.
        delayed_sync: The end of the wait for syncs.
    """

    __slots__ = (
        "_supported",
        "awaiting_join_count",
        "delayed_join",
        "delayed_sync",
        "generation",
        "group_id",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, timestamp_ms: int) -> None:
        """Make an empty group.

        Args:
            group_id: Its name.
            timestamp_ms: Wall clock time.
        """
        self.group_id: str = group_id
        self.state: GroupState = GroupState.EMPTY
        self.previous_state: GroupState = GroupState.EMPTY
        self.state_since_ms: int = timestamp_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation: int = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, DelayedOperation] = {}
        self.pending_syncs: set[str] = set()
        self.awaiting_join_count: int = 0
        self.new_member_added: bool = False
        self.subscribed_topics: frozenset[str] | None = None
        self.delayed_join: DelayedOperation | None = None
        self.delayed_sync: DelayedOperation | None = None
        self._supported: Counter[str] = Counter()

    @property
    def is_consumers(self) -> bool:
        """Whether its members are consumers, so that their metadata can be read."""
        return self.protocol_type == CONSUMER_TYPE

    @property
    def has_all_joined(self) -> bool:
        """Whether every member's join is parked and no id is out; a count, no search."""
        return self.awaiting_join_count == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members'; 0 without members."""
        return max((it.rebalance_timeout_ms for it in self.members.values()), default=0)

    def move(self, state: GroupState, timestamp_ms: int) -> None:
        """Change the state.

        Args:
            state: The next one.
            timestamp_ms: Wall clock time.

        Raises:
            IllegalMove: The present state does not lead there.
        """
        if state not in MOVES[self.state]:
            raise IllegalMove(
                f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}"
            )
        self.previous_state, self.state = self.state, state
        self.state_since_ms = timestamp_ms

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supported[name] == len(self.members) for name, _ in protocols)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Find a member that names itself.

        Args:
            member_id: What the coordinator called it.
            instance_id: Of a static member; None does not ask for it.

        Returns:
            The member.

        Raises:
            Refused: With UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        """Check that a request is of this generation.

        Raises:
            Refused: With ILLEGAL_GENERATION.
        """
        if generation != self.generation:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)

    def add(self, member: Member, protocol_type: str, join: Request | None = None) -> None:
        """Take a member in; the first one leads and says what type the group is of.

        Args:
            member: With an id that no member has, and protocols that the group supports.
            protocol_type: The group's, if there are members.
            join: Its request, to be parked.
        """
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._supported.update(name for name, _ in member.protocols)
        self.park_join(member, join)

    def update(self, member: Member, protocols: Protocols) -> None:
        """Give a member other protocols."""
        self._supported.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._supported.update(name for name, _ in protocols)

    def remove(self, member_id: str) -> None:
        """Take a member out; the oldest of the others leads in its place."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(name for name, _ in member.protocols)
            self._supported = +self._supported
            self.park_join(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_syncs.discard(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member in the place of the one that had its instance id before."""
        self.park_join(old, None)
        self.members = {
            (new.member_id if key == old.member_id else key): (new if it is old else it)
            for key, it in self.members.items()
        }
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id
        if old.member_id in self.pending_syncs:
            self.pending_syncs.remove(old.member_id)
            self.pending_syncs.add(new.member_id)

    def park_join(self, member: Member, join: Request | None) -> None:
        """Let a member wait for the join phase's end, or no longer."""
        self.awaiting_join_count += (join is not None) - (member.parked_join is not None)
        member.parked_join = join

    def select_protocol(self) -> str | None:
        """Vote: among the protocols that all members have, each votes for its first.

        Returns:
            The one with most votes; of two with as many the one that the leader likes better. None
            if there are no members.
        """
        if not self.members:
            return None
        common = {name for name, count in self._supported.items() if count == len(self.members)}
        votes = Counter(
            next(name for name, _ in member.protocols if name in common)
            for member in self.members.values()
        )
        leader = self.members[self.leader_id] if self.leader_id else None
        order = [name for name, _ in leader.protocols] if leader else []
        return max(
            votes,
            key=lambda name: (votes[name], -order.index(name) if name in order else -len(order)),
        )

    def elect_joined_leader(self) -> bool:
        """See that the leader is one that has joined.

        Returns:
            False if none of the members has.
        """
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.parked_join is not None:
            return True
        joined = next((it for it in self.members.values() if it.parked_join is not None), None)
        if leader is None or joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def begin_generation(self, timestamp_ms: int) -> None:
        """End the join phase with the members that are here: Completing, or Empty without any."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self.learn_subscriptions()
        self.move(
            GroupState.COMPLETING if self.members else GroupState.EMPTY, timestamp_ms=timestamp_ms
        )
        self.pending_syncs = set(self.members)

    def learn_subscriptions(self) -> None:
        """Read which topics the members want."""
        if not self.is_consumers:
            self.subscribed_topics = None
        else:
            metadata = [it.metadata(self.protocol) for it in self.members.values()]
            self.subscribed_topics = subscribed_topics(metadata)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may want a topic; so it is taken for consumers that cannot be read."""
        if self.subscribed_topics is None:
            return self.is_consumers
        return topic in self.subscribed_topics

    def assignments(self) -> dict[str, bytes]:
        """What each member has."""
        return {it.member_id: it.assignment for it in self.members.values()}

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Give each member what it is to have; nothing for one that is not named."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
