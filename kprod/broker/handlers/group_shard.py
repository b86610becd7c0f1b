"""Finds the coordinator shard for a request about a group.

Thread-safety: the broker's thread.
Source: Kafka GroupCoordinatorService (4.3.1) for the order of the checks.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.rejection import Rejected
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode


def shard_of(state: ClusterState, request: Request) -> CoordinatorShard:
    """Return the shard of the request's group, which must have a name.

    Args:
        state: The cluster.
        request: A request with `group_id`.

    Returns:
        The shard, loaded.

    Raises:
        Rejected: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR or
            COORDINATOR_LOAD_IN_PROGRESS.
    """
    group_id: str = request.body["group_id"]
    request.access.check("READ", "group", group_id)
    if not group_id:
        raise Rejected(ErrorCode.INVALID_GROUP_ID)
    return state.groups.shard(request.node_id, group_id)
