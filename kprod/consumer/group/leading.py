"""The leader of a group computes the assignments, and checks what the assignor returns.

Thread-safety: pure functions.
Source: Kafka ConsumerCoordinator.onLeaderElected, validateCooperativeAssignment (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from kprod.cluster.snapshot import ClusterSnapshot
from kprod.consumer.group.assignments import TopicRacks
from kprod.consumer.group.assignors import is_built_in
from kprod.consumer.group.protocol_data import decode_subscription, encode_assignment
from kprod.error_text import error_text
from kprod.errors import KprodError, RemoteProtocolError, without_frames
from kprod.guarded_log import guarded_logger
from kprod.interfaces import GroupMember, PartitionAssignor
from kprod.model import TopicPartition
from kprod.topic_name import name_fault

_logger = guarded_logger(__name__)


def members_of(entries: Iterable[Mapping[str, Any]]) -> list[GroupMember]:
    """Decode the members of a JoinGroup response.

    Args:
        entries: The response's `members`.

    Returns:
        The members that can be decoded; others are logged, and get no partitions.
    """
    found = []
    for each in entries:
        member_id, instance_id = each["member_id"], each["group_instance_id"]
        try:
            found.append(decode_subscription(member_id, instance_id, each["metadata"]))
        except KprodError as error:
            _logger.warning("member %.100r has no readable subscription: %s", member_id, error)
    return found


def topics_of(members: Iterable[GroupMember]) -> list[str]:
    """Return the topics that any member subscribes to.

    Args:
        members: All members.

    Returns:
        The topics, sorted.
    """
    return sorted({topic for each in members for topic in each.topics})


def topic_racks(
    snapshot: ClusterSnapshot, topics: Iterable[str]
) -> dict[str, Sequence[frozenset[str]]]:
    """Return the racks of the replicas of topics.

    Args:
        snapshot: The cluster.
        topics: Any topics.

    Returns:
        For each existing topic, the racks of each partition's replicas, by partition number.
    """
    rack_of = {node_id: node.rack for node_id, node in snapshot.nodes.items() if node.rack}
    found: dict[str, Sequence[frozenset[str]]] = {}
    for name in topics:
        entry = snapshot.topics.get(name)
        if entry is not None and entry.partition_count:
            found[name] = [
                frozenset(rack_of[it] for it in replicas if it in rack_of)
                for replicas in entry.replicas
            ] or [frozenset()] * entry.partition_count
    return found


def assignments_or_error(
    assignor: PartitionAssignor, members: Sequence[GroupMember], topics: TopicRacks
) -> dict[str, bytes] | KprodError:
    """Compute the assignments of all members; never raises.

    Args:
        assignor: The group's assignor; may be the application's.
        members: All members.
        topics: The racks of each partition's replicas, by topic.

    Returns:
        Encoded assignments by member id, or an error that names the assignor and its fault.
    """
    try:
        assigned = {
            member: list(starmap(TopicPartition, keys))
            for member, keys in assignor.assign(members, topics).items()
        }
        fault = _fault_of(assigned, members, topics)
    except Exception as error:  # noqa: BLE001 - the application's code
        found = _unusable(assignor, f"failed: {error_text(error)}")
        found.__cause__ = without_frames(error)
        return found
    if not fault and assignor.is_cooperative and not is_built_in(assignor):
        fault = _early_move(assigned, members)
    if fault:
        return _unusable(assignor, fault)
    return {each.member_id: encode_assignment(assigned.get(each.member_id, ())) for each in members}


def check_assigned(keys: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
    """Check an assignment from a leader, which may be another client.

    Args:
        keys: The assigned partitions.

    Returns:
        The same.

    Raises:
        RemoteProtocolError: A partition cannot exist.
    """
    for key in keys:
        fault = name_fault(key.topic)
        if fault is not None:
            raise RemoteProtocolError(
                f"the group's leader assigned a topic without a name: {fault}"
            )
        if key.partition < 0:
            raise RemoteProtocolError(
                f"the group's leader assigned partition {key.partition} of topic {key.topic!r};"
                " partitions are numbered from 0"
            )
    return keys


def _fault_of(
    assigned: Mapping[str, Sequence[TopicPartition]],
    members: Iterable[GroupMember],
    topics: TopicRacks,
) -> str:
    """Return the fault of assignments; empty without one."""
    topics_of_member = {each.member_id: frozenset(each.topics) for each in members}
    seen: set[TopicPartition] = set()
    for member_id, keys in assigned.items():
        if member_id not in topics_of_member:
            return f"knows a member {member_id!r:.80}, which the group has not"
        for key in keys:
            if key.partition not in range(len(topics.get(key.topic, ()))):
                return f"assigns {key.topic}-{key.partition}, which does not exist"
            if key.topic not in topics_of_member[member_id]:
                return f"assigns {key.topic}-{key.partition} to a member without that topic"
            if key in seen:
                return f"assigns {key.topic}-{key.partition} twice"
            seen.add(key)
    return ""


def _early_move(
    assigned: Mapping[str, Sequence[TopicPartition]], members: Sequence[GroupMember]
) -> str:
    """Return the fault of a partition that moves before its owner has given it up (KIP-429)."""
    owned_by = {each.member_id: frozenset(each.owned) for each in members}
    added = {
        key for member, keys in assigned.items() for key in keys if key not in owned_by[member]
    }
    for member, owned in owned_by.items():
        for key in sorted(owned.difference(assigned.get(member, ())) & added):
            return f"moves {key.topic}-{key.partition} before its owner has given it up"
    return ""


def _unusable(assignor: PartitionAssignor, fault: str) -> KprodError:
    return KprodError(f"the assignor {assignor.name!r:.80} {fault}")
