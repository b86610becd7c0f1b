"""The assignors by name, and which of them a member may mix.

Thread-safety: pure functions.
Source: Kafka ConsumerCoordinator's constructor (clients 4.3.1), for the mixing of protocols.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kprod.consumer.group.range_assignor import RangeAssignor
from kprod.consumer.group.round_robin import RoundRobinAssignor
from kprod.consumer.group.sticky import CooperativeStickyAssignor, StickyAssignor
from kprod.interfaces import PartitionAssignor

BUILT_IN: Mapping[str, PartitionAssignor] = MappingProxyType(
    {
        each.name: each
        for each in (
            RangeAssignor(),
            RoundRobinAssignor(),
            StickyAssignor(),
            CooperativeStickyAssignor(),
        )
    }
)
"""kprod's assignors, by the names that they have in every client."""


def assignors_of(given: Sequence[str | PartitionAssignor]) -> tuple[PartitionAssignor, ...]:
    """Return the assignors of a setting.

    Args:
        given: Names of kprod's, or objects of the application.

    Returns:
        The assignors, in order of preference.
    """
    return tuple(BUILT_IN[each] if isinstance(each, str) else each for each in given)


def is_cooperative(assignors: Sequence[PartitionAssignor]) -> bool:
    """Whether a member keeps its partitions during a rebalance.

    Args:
        assignors: All assignors of a member; at least one.

    Returns:
        True if all are cooperative: the group may choose any of them, and a member must know before
        it joins whether to give up its partitions.
    """
    return all(each.is_cooperative for each in assignors)


def is_built_in(assignor: PartitionAssignor) -> bool:
    """Whether an assignor is one of kprod's, which any thread may call.

    Args:
        assignor: Any assignor.

    Returns:
        False for one of the application's.
    """
    return BUILT_IN.get(assignor.name) is assignor
