"""A classic consumer group: its members, its generation, and its protocol.

This class changes the parts of a group together. The modules named after events decide when to
change it.

Invariants.
    `state` changes only along `MOVES`.
    `awaiting_join_count` members have a parked join; a member is static or it is in no entry of
    `static_members`; `supported` counts how many members have a protocol.
    The leader is a member, as long as there is one.
    Until `release`, the metadata of its members is counted in the memory of all groups.

Thread-safety: the broker's thread.
Source: Kafka ClassicGroup (4.3.1).
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kprod.broker.group.member import NO_ASSIGNMENT, Member, Protocols
from kprod.broker.group.member_memory import MemberMemory
from kprod.broker.group.state import MOVES, GroupState
from kprod.broker.group.subscription import CONSUMER_TYPE, subscribed_topics
from kprod.broker.rejection import Rejected
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode

if TYPE_CHECKING:
    from kprod.timer.purgatory import DelayedOperation

# All groups belong to one thread, so their delayed operations need no lock.
GROUP_LOCK: AbstractContextManager[object] = nullcontext()


class IllegalMove(RuntimeError):
    """A forbidden transition of a group's state: a bug in the coordinator."""


class Group:  # noqa: PLR0904 - the parts of a group that change together
    """A group.

    Attributes:
        group_id: The group's id.
        state: The current state.
        previous_state: The previous state.
        state_since_ms: Wall clock time of the last change; −1 if the log does not have it.
        protocol_type: The members' protocol type; None for a group that only has offsets.
        protocol: The protocol chosen for this generation.
        generation: Number of the generation; 0 before the first.
        leader_id: Id of the member that computes the assignment.
        members: Members by id, in order of joining.
        static_members: Member id by instance id.
        pending_joins: Session timers of member ids that were assigned and not used yet.
        pending_syncs: Members of this generation that have not synced yet.
        awaiting_join_count: Number of members with a parked join.
        new_member_added: Whether a member has joined since the initial delay began.
        subscribed_topics: Topics of all members; None if they cannot be parsed.
        delayed_join: The end of the join phase.
        delayed_sync: The end of the wait for syncs.
    """

    __slots__ = (
        "_memory",
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

    def __init__(
        self, group_id: str, timestamp_ms: int, memory: MemberMemory | None = None
    ) -> None:
        """Create an empty group.

        Args:
            group_id: The group's id.
            timestamp_ms: Wall clock time.
            memory: The memory of all groups' members; None if its members are not counted.
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
        self._memory = memory
        self._supported: Counter[str] = Counter()

    @property
    def is_consumers(self) -> bool:
        """Whether the members are consumers, so that their metadata can be parsed."""
        return self.protocol_type == CONSUMER_TYPE

    @property
    def has_all_joined(self) -> bool:
        """Whether every member waits in JoinGroup, and everyone who got an id has joined; O(1)."""
        return self.awaiting_join_count == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members."""
        return max((it.rebalance_timeout_ms for it in self.members.values()), default=0)

    def move(self, state: GroupState, timestamp_ms: int) -> None:
        """Change the state.

        Args:
            state: The next state.
            timestamp_ms: Wall clock time.

        Raises:
            IllegalMove: The current state does not allow this transition.
        """
        if state not in MOVES[self.state]:
            raise IllegalMove(
                f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}"
            )
        self.previous_state, self.state = self.state, state
        self.state_since_ms = timestamp_ms

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supported[name] == len(self.members) for name, _ in protocols)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member by its ids.

        Args:
            member_id: Id that the coordinator assigned.
            instance_id: Instance id of a static member; None skips the check.

        Returns:
            The member.

        Raises:
            Rejected: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise Rejected(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        """Check that a request is of this generation.

        Raises:
            Rejected: ILLEGAL_GENERATION.
        """
        if generation != self.generation:
            raise Rejected(ErrorCode.ILLEGAL_GENERATION)

    def add(self, member: Member, protocol_type: str, join: Request | None = None) -> None:
        """Add a member; the first member becomes the leader and sets the group's protocol type.

        Args:
            member: A member with a new id and protocols that the group supports.
            protocol_type: The group's protocol type, if it has members.
            join: The member's request, to be parked.
        """
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._supported.update(_names(member.protocols))
        self._count(member.metadata_bytes)
        self.park_join(member, join)

    def update(self, member: Member, protocols: Protocols) -> None:
        """Change a member's protocols."""
        self._supported.subtract(_names(member.protocols))
        before_bytes = member.metadata_bytes
        member.protocols = protocols
        self._count(member.metadata_bytes - before_bytes)
        self._supported.update(_names(protocols))

    def remove(self, member_id: str) -> None:
        """Remove a member; if it was the leader, the oldest other member becomes leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(_names(member.protocols))
            self._supported = +self._supported
            self._count(-member.metadata_bytes)
            self.park_join(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_syncs.discard(member_id)

    def release(self) -> None:
        """Count its members no longer, since the group ends; idempotent."""
        if self._memory is not None:
            self._memory.used_bytes -= sum(it.metadata_bytes for it in self.members.values())
            self._memory = None

    def _count(self, size_bytes: int) -> None:
        if self._memory is not None:
            self._memory.used_bytes += size_bytes

    def replace(self, old: Member, new: Member) -> None:
        """Replace the static member that had an instance id by a new one."""
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
        """Park a member's join, or remove its parked join."""
        self.awaiting_join_count += (join is not None) - (member.parked_join is not None)
        member.parked_join = join

    def select_protocol(self) -> str | None:
        """Choose a protocol: each member votes for its first among those that all members support.

        Returns:
            The protocol with most votes; at a tie the one that the leader prefers. None without
            members.
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
        """Make sure that the leader has joined, by electing another member if necessary.

        Returns:
            False if no member has joined.
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
        """End the join phase; the next state is Completing, or Empty if no member has joined."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self.learn_subscriptions()
        self.move(
            GroupState.COMPLETING if self.members else GroupState.EMPTY, timestamp_ms=timestamp_ms
        )
        self.pending_syncs = set(self.members)

    def learn_subscriptions(self) -> None:
        """Parse the topics that the members subscribe to."""
        if not self.is_consumers:
            self.subscribed_topics = None
        else:
            metadata = [it.metadata(self.protocol) for it in self.members.values()]
            self.subscribed_topics = subscribed_topics(metadata)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may subscribe to a topic; True if a subscription cannot be parsed."""
        if self.subscribed_topics is None:
            return self.is_consumers
        return topic in self.subscribed_topics

    def assignments(self) -> dict[str, bytes]:
        """The assignment of each member."""
        return {it.member_id: it.assignment for it in self.members.values()}

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Set the members' assignments; members that are not named get none."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)


def _names(protocols: Protocols) -> list[str]:
    """The protocols' names, each once, whatever a request lists."""
    return list(dict.fromkeys(name for name, _ in protocols))
