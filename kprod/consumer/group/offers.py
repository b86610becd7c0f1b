"""The offers of a member to its group: its assignors, and a subscription for each.

Thread-safety: the I/O thread; `last` and `own` from any thread.
Source: Kafka ConsumerCoordinator.metadata (clients 4.3.1).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.assignors import assignors_of, is_built_in, is_cooperative
from kprod.consumer.group.protocol_data import NO_GENERATION, encode_subscription
from kprod.interfaces import GroupMember, PartitionAssignor
from kprod.model import TopicPartition

NO_BYTES: Mapping[str, bytes | None] = MappingProxyType({})
_NOTHING: tuple[Sequence[TopicPartition], int] = ((), NO_GENERATION)


class Offers:
    """The offers of one member.

    Attributes:
        is_cooperative: Whether the member keeps its partitions during a rebalance.
        own: The application's assignors, which only its thread may call.
        own_bytes: Bytes of those assignors for the group's leader, by name.
        last: The last assignment and its generation.
    """

    def __init__(self, settings: GroupSettings) -> None:
        """Start without an assignment.

        Args:
            settings: The group's settings.
        """
        self._rack = settings.client_rack
        self._assignors = assignors_of(settings.partition_assignment_strategy)
        self.is_cooperative: bool = is_cooperative(self._assignors)
        self.own: tuple[PartitionAssignor, ...] = tuple(
            each for each in self._assignors if not is_built_in(each)
        )
        self.own_bytes: Mapping[str, bytes | None] = NO_BYTES
        self.last: tuple[Sequence[TopicPartition], int] = _NOTHING

    def forget(self) -> None:
        """Forget the last assignment, which others may have."""
        self.last = _NOTHING

    def assignor(self, name: object) -> PartitionAssignor | None:
        """Return an assignor by its name; None if the member did not offer it."""
        return next((each for each in self._assignors if each.name == name), None)

    def encoded(
        self, topics: tuple[str, ...], owned: Sequence[TopicPartition], generation: int
    ) -> list[tuple[str, bytes]]:
        """Return the offers of a JoinGroup request.

        Args:
            topics: The subscribed topics.
            owned: The partitions that the member keeps.
            generation: The generation in which it got them.

        Returns:
            Name and encoded subscription of each assignor, in order of preference.
        """
        me = GroupMember("", None, topics, tuple(owned), generation, self._rack)
        offers = []
        for each in self._assignors:
            if is_built_in(each):
                own_bytes = each.assignor_bytes(*self.last)
            else:
                own_bytes = self.own_bytes.get(each.name)
            offers.append((each.name, encode_subscription(me._replace(assignor_bytes=own_bytes))))
        return offers
