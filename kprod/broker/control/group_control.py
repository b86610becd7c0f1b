"""Controls consumer groups: shows them, expires members, moves coordinators.

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
        """Return the current state of one group; raises `Refused` if it is unknown."""
        return self._kprod.call(lambda: self._kprod.engine.state.groups.view(group_id))

    def expire_member(self, group_id: str, member: str) -> None:
        """Expire a member's session now; `member` is its id or its instance id.

        Raises:
            Refused: The group or the member is unknown.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.expire_member(group_id, member))

    def rebalance(self, group_id: str) -> None:
        """Start a rebalance of a group, as if a member had joined again.

        Raises:
            Refused: The group is unknown or has no members.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.rebalance(group_id))

    def move_coordinator(self, group_id: str, *, to: int) -> None:
        """Move the coordinator of a group, and of all groups in the same offsets partition.

        Args:
            group_id: Id of the group, which need not exist; `__consumer_offsets` is created if
                necessary.
            to: A running broker; see `move_leader`.

        Raises:
            Refused: The broker is not running.
        """
        groups = self._kprod.engine.state.groups
        self.move_leader(*self._kprod.call(lambda: groups.partition_of(group_id).name), to=to)
