"""Chooses the replica that serves a consumer: the leader, or an in-sync follower in its rack.

A follower's records end where it has copied to, and at the high watermark. Without racks only
leaders serve, as in a Kafka whose `replica.selector.class` is not set.

Thread-safety: the broker's thread.
Source: KIP-392; Kafka RackAwareReplicaSelector and ReplicaManager.findPreferredReadReplica.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.replication import Partition


def nearest_follower(
    state: ClusterState, partition: Partition, rack: str, offset: int
) -> int | None:
    """Find the replica that a consumer should read instead of the leader.

    Args:
        state: State of the cluster.
        partition: The partition to read; it has a leader.
        rack: The consumer's; empty if it does not say.
        offset: The first one wanted; the replica must reach to it.

    Returns:
        The in-sync replica of that rack which is furthest ahead; None if the leader is as near as
        any.
    """
    nodes = state.nodes
    if not rack or nodes[partition.leader_id].rack == rack:
        return None
    near = [
        replica
        for node_id, replica in partition.replicas.items()
        if node_id in partition.isr
        and state.is_alive(node_id)
        and nodes[node_id].rack == rack
        and replica.log_end_offset >= offset
    ]
    return max(near, key=lambda it: it.log_end_offset).node_id if near else None


def serves_as_follower(state: ClusterState, partition: Partition, node_id: int) -> bool:
    """Whether a broker may serve consumers of a partition that it does not lead.

    Args:
        state: State of the cluster.
        partition: The partition to read.
        node_id: The broker that is asked.

    Returns:
        True if it has a replica on a directory that works, and racks are set.
    """
    is_follower = node_id in partition.replicas and node_id != partition.leader_id
    return is_follower and not partition.is_offline and state.nodes[node_id].rack is not None
