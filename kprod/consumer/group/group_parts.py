"""The parts of a consumer that belong to its group, and their turn in the loop.

Thread-safety: the I/O thread; `check` any thread.
"""

from kprod.consumer.group.auto_commit import AutoCommit
from kprod.consumer.group.commits import Commits
from kprod.consumer.group.committed_offsets import CommittedOffsets
from kprod.consumer.group.group_starts import GroupStarts
from kprod.consumer.group.membership import Membership
from kprod.errors import own_copy


class GroupParts:
    """The group parts of one consumer.

    Attributes:
        membership: The consumer's membership.
        commits: Commits offsets.
        committed: Asks for committed offsets.
        starts: Starts partitions at committed offsets.
        auto_commit: Commits in intervals.
    """

    def __init__(
        self,
        membership: Membership,
        commits: Commits,
        *,
        committed: CommittedOffsets,
        starts: GroupStarts,
        auto_commit: AutoCommit,
    ) -> None:
        """Keep the parts."""
        self.membership: Membership = membership
        self.commits: Commits = commits
        self.committed: CommittedOffsets = committed
        self.starts: GroupStarts = starts
        self.auto_commit: AutoCommit = auto_commit

    def run(self, now_ms: int) -> int:
        """Send the due requests.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next action; events may come earlier.
        """
        return min(
            self.membership.run(now_ms),
            self.auto_commit.run(now_ms),
            self.commits.run(now_ms),
            self.committed.run(now_ms),
        )

    def check(self) -> None:
        """Raise if the consumer can be no member any more; any thread.

        Raises:
            KprodError: Another member uses the same `group_instance_id`.
        """
        if self.membership.error is not None:
            error = own_copy(self.membership.error)
            raise error
