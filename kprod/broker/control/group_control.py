"""What a test may do with consumer groups: look at them, expire members, move coordinators.

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
        """All groups, by id: state, generation, members with their assignments, offsets."""
        return self._kprod.call(self._kprod.engine.state.groups.views)

    def group(self, group_id: str) -> GroupView:
        """One group as it is now; `Refused` is raised if it is unknown."""
        return self._kprod.call(lambda: self._kprod.engine.state.groups.view(group_id))

    def expire_member(self, group_id: str, member: str) -> None:
        """Let a member's session be over now; `member` is its id or its instance id.

        Raises:
            Refused: Group or member is unknown.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.expire_member(group_id, member))

    def rebalance(self, group_id: str) -> None:
        """Let a group rebalance now, as if a member had joined again.

        Raises:
            Refused: It is unknown, or has no members.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.rebalance(group_id))

    def move_coordinator(self, group_id: str, *, to: int) -> None:
        """Let another broker coordinate a group, and all others of its offsets partition.

        Args:
            group_id: Known or not; `__consumer_offsets` is made if it is not there.
            to: A broker that runs; see `move_leader`.

        Raises:
            Refused: The broker does not run.
        """
        groups = self._kprod.engine.state.groups
        self.move_leader(*self._kprod.call(lambda: groups.partition_of(group_id).name), to=to)
