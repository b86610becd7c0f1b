"""Controls consumer groups: reads their state, expires members, moves coordinators.

Thread-safety: as `EmbeddedCluster`.
"""

from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.control.replica_control import ReplicaControl
from kprod.broker.group.view import GroupView


class GroupControl(ReplicaControl):
    """Methods of an `EmbeddedCluster` about consumer groups."""

    __slots__ = ()

    _kprod: ClusterRunner

    def groups(self) -> list[GroupView]:
        """Return all groups, ordered by id.

        Each has its state, generation, members, assignments and offsets.
        """
        return self._kprod.call(self._kprod.engine.state.groups.views)

    def group(self, group_id: str) -> GroupView:
        """Return the state of one group; raises `Rejected` if it is unknown."""
        return self._kprod.call(lambda: self._kprod.engine.state.groups.view(group_id))

    def expire_member(self, group_id: str, member: str) -> None:
        """Make a member's session expire now; `member` is its id or its instance id.

        Raises:
            Rejected: The group or the member is unknown.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.expire_member(group_id, member))

    def rebalance(self, group_id: str) -> None:
        """Start a rebalance of a group, as if a member had joined again.

        Raises:
            Rejected: The group is unknown, or has no members.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.rebalance(group_id))

    def move_coordinator(self, group_id: str, *, to: int) -> None:
        """Make another broker the coordinator of a group, and of all groups of the same partition.

        Args:
            group_id: Id of a group, which need not exist; `__consumer_offsets` is created if it
                does not exist.
            to: Id of a running broker, as for `move_leader`.

        Raises:
            Rejected: The broker does not run.
        """
        groups = self._kprod.engine.state.groups
        self.move_leader(*self._kprod.call(lambda: groups.partition_of(group_id).name), to=to)
