"""Observations of a crew: owners, records and commits, and the promises that they must keep."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kprod.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from tests.sim.crew_tap import CrewTap


class CrewBook:
    """The observations of one group's members.

    Args:
        find: Takes the invariant's name and the observation.

    Attributes:
        undone: By partition, the lowest offset whose record no application has processed.
        taps: Those of the members.
    """

    def __init__(self, find: Callable[[str, str], object]) -> None:
        self._find = find
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._beyond: dict[TopicPartition, set[int]] = defaultdict(set)
        self.taps: list[CrewTap] = []
        self.undone: dict[TopicPartition, int] = defaultdict(int)

    def owns(self, member: str, generation: int, places: Iterable[TopicPartition]) -> None:
        """C1: in one generation no partition has two owners."""
        for place in places:
            owner = self._owners.setdefault((generation, place), member)
            if owner != member:
                text = f"{_shown(place)} is {member}'s in generation {generation}, and {owner}'s"
                self._find("C1", text)

    def owner(self, generation: int, place: TopicPartition) -> str:
        """Return the owner of a partition in a generation; empty while nobody knows."""
        return self._owners.get((generation, place), "")

    def begins(self, member: str, place: TopicPartition, offset: int) -> None:
        """C2: a member begins behind no record that nobody has processed."""
        if offset > self.undone[place]:
            text = f"{member} begins to read {_shown(place)} at {offset}"
            self._find("C2", f"{text}; {self.undone[place]} was processed by nobody")

    def done(self, place: TopicPartition, offset: int) -> None:
        """An application has processed a record."""
        beyond = self._beyond[place]
        if offset >= self.undone[place]:
            beyond.add(offset)
        while self.undone[place] in beyond:
            beyond.remove(self.undone[place])
            self.undone[place] += 1

    def look(self, offsets: Mapping[TopicPartition, int]) -> None:
        """C2, C5: committed records were processed, and no older commit replaces a newer one."""
        for place, offset in offsets.items():
            if offset > self.undone[place]:
                text = f"{_shown(place)} is committed at {offset}"
                self._find("C2", f"{text}; {self.undone[place]} was processed by nobody")
            before = self._committed.get(place, 0)
            if offset < before and not self.may_be_late(place, offset):
                self._find("C5", f"{_shown(place)} is committed at {offset}, after {before}")
            self._committed[place] = offset

    def confirmed(
        self,
        member: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        known: Mapping[TopicPartition, int],
    ) -> None:
        """C5: a commit that was confirmed is there, or a newer one."""
        for place, it in offsets.items():
            found = known.get(place, -1)
            if known and found < it.offset and not self.may_be_late(place, found):
                text = f"{member} was told that {_shown(place)} is committed at {it.offset}"
                self._find("C5", f"{text}; it is {found}")

    def may_be_late(self, place: TopicPartition, offset: int) -> bool:
        """Whether a commit of an offset was not answered, so it may come after newer ones."""
        commits = [commit for tap in self.taps for commit in tap.unanswered.values()]
        return any(commit.get(place) == offset for commit in commits)


def _shown(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
