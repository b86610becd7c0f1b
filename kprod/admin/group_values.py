"""Groups, members and offsets as a cluster tells them, as values.

Thread-safety: immutable.
Source: ListGroupsResponse, DescribeGroupsResponse, OffsetFetchResponse (Kafka 4.3.1).
"""

from typing import NamedTuple

from kprod.errors import KprodError
from kprod.model import Node, TopicPartition

CLASSIC, CONSUMER = "classic", "consumer"
"""Types of groups: with JoinGroup, and with KIP-848's heartbeats."""
EMPTY, DEAD = "Empty", "Dead"
STATES = (
    "Stable",
    EMPTY,
    DEAD,
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""States of groups, as brokers write them; the last three are of types other than classic."""


class GroupListing(NamedTuple):
    """A group in the list of its coordinator.

    Attributes:
        group_id: The group; any text, also an empty one.
        protocol_type: "consumer" for a consumer group, another client's own text, or empty for a
            group of offsets alone.
        state: One of `STATES`; empty if the broker is older than Kafka 2.6.
        group_type: `CLASSIC`, `CONSUMER`, or another; empty if the broker is older than Kafka 3.8.
        coordinator_id: Id of the coordinator's node.
    """

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


class FoundGroups(NamedTuple):
    """The groups of a cluster, as far as its brokers have told them.

    Attributes:
        groups: The groups, sorted by id.
        errors: Errors of the brokers that have not told theirs, by node id.
    """

    groups: list[GroupListing]
    errors: dict[int, KprodError]


class MemberDescription(NamedTuple):
    """A member of a group.

    Attributes:
        member_id: The id that the coordinator has given.
        instance_id: The `group_instance_id` of a static member; None for a dynamic one.
        client_id: The client's id.
        client_host: The client's address, as the coordinator writes it.
        topics: The subscribed topics; None if the group's protocol is not a consumer's, if the
            bytes are no subscription, or if the coordinator does not tell it, as in a rebalance.
        assignment: The assigned partitions; None for the same reasons.
        metadata_bytes: Size of what the member tells the leader; 0 in a group of consumers.
        assignment_bytes: Size of what the leader tells the member; 0 in a group of consumers.
        epoch: The member's epoch in a group of consumers (KIP-848); None in a classic one.
        pattern: The regular expression that it subscribes to there; None without one.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None
    assignment: tuple[TopicPartition, ...] | None
    metadata_bytes: int
    assignment_bytes: int
    epoch: int | None = None
    pattern: str | None = None


class GroupDescription(NamedTuple):
    """A group.

    Attributes:
        group_id: The group.
        state: One of `STATES`.
        group_type: `CLASSIC`, or the type of the listing.
        protocol_type: As in `GroupListing`.
        assignor: Name of the chosen protocol, such as `range`; empty outside `Stable`.
        coordinator: The coordinator.
        members: The members; None for a group of another type, such as share, whose members need
            requests that this client does not have.
    """

    group_id: str
    state: str
    group_type: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...] | None

    @property
    def may_have_members(self) -> bool:
        """Whether offsets cannot be set: the group has members, or may have some."""
        return bool(self.members) if self.members is not None else self.state not in {EMPTY, DEAD}


class CommittedOffset(NamedTuple):
    """A committed offset.

    Attributes:
        offset: Offset of the next record.
        leader_epoch: Leader epoch of the record before it; −1 if it is not known.
        metadata: The text that the client has added; usually empty.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
