"""The application's side of a membership, as the I/O thread sees it.

Thread-safety: the I/O thread calls it; no call blocks or runs the application's code.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kprod.errors import KprodError
from kprod.interfaces import GroupMember, PartitionAssignor
from kprod.model import TopicPartition


class Application(Protocol):
    """The application's side of a membership."""

    def owned(self) -> Sequence[TopicPartition]:
        """Return the assigned partitions."""

    def prepare(self, ticket: int, *, is_lost: bool) -> None:
        """Make the application's thread give up partitions, and call `Membership.prepared`."""

    def lead(
        self,
        ticket: int,
        assignor: PartitionAssignor,
        members: Sequence[GroupMember],
        topics: Mapping[str, Sequence[frozenset[str]]],
    ) -> None:
        """Make the application's thread compute assignments, and call `Membership.led`."""

    def assign(self, ticket: int, partitions: Sequence[TopicPartition]) -> None:
        """Make the application's thread take over partitions, and call `Membership.assigned`."""

    def idle_ms(self, now_ms: int) -> int:
        """Return for how long the application has asked for nothing."""

    def fail(self, error: KprodError) -> None:
        """Make `poll` raise an error, until the coordinator works; the member continues to try."""
