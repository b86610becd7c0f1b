"""The observations of one group's members, judged as they come.

Every value that is committed is another one, so a fetched offset says which commit it is.

Source: C1, C5 and C6 of the invariants of groups; Herlihy and Wing, "Linearizability" (1990), for
what a read of a register may return.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kprod.protocol.error_table import ErrorCode

REJECTED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""Codes of a commit that is in no log; any other error leaves its outcome open."""
_NONE = -1


@dataclass(slots=True)
class Commit:
    """One committed offset.

    Attributes:
        partition: The partition's index.
        value: The offset, unique in its group.
        sent_ns: When the request was made.
        done_ns: When its success was known; 0 before.
        is_rejected: It must never be seen.
        is_stale: Its generation was over, so it must be rejected.
    """

    partition: int
    value: int
    sent_ns: int
    done_ns: int = 0
    is_rejected: bool = False
    is_stale: bool = False


class GroupBook:
    """The book of one group.

    Args:
        name: The group's id.
        find: Takes the invariant's name and the observation.
        now_ns: The present instant.
        initial_ns: How long the first join phase lasts at least.

    Attributes:
        synced: The highest generation that a member has synced in.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[str, str], object],
        now_ns: Callable[[], int],
        initial_ns: int,
    ) -> None:
        self.synced = 0
        self._initial_ns = initial_ns
        self._first_ns: int | None = None  # when the first client asked to join
        self._known: dict[str, int] = {}  # when the coordinator began an id's session, at most
        self._removes = False
        self._name = name
        self._find = find
        self._now_ns = now_ns
        self._commits: list[Commit] = []
        self._owners: dict[tuple[int, int], str] = {}  # of generation and partition
        self._ids: dict[str, dict[str, None]] = {}  # member ids of each instance, in order
        self._ended: dict[str, int] = {}  # when a replaced id was over for good
        self._alive: dict[str, int] = {}  # when the last accepted heartbeat of an id was made
        self._excused: set[str] = set()  # ids that somebody asked to remove

    # Generations.

    def asked_to_join(self) -> None:
        """Note that a client asks to join."""
        if self._first_ns is None:
            self._first_ns = self._now_ns()

    def joined(self, member_id: str, instance: str | None, generation: int, least: int) -> None:
        """G2: a join gets no generation from before a sync that was over when it was made.

        The first generation comes after the initial delay, unless a member was removed meanwhile.
        """
        waited_ns = self._now_ns() - (self._first_ns or 0)
        is_first = generation == 1 and not self._excused
        if is_first and waited_ns < self._initial_ns:
            text = f"joined the first generation of {self._name} after {waited_ns / 1e6:.1f} ms"
            self._find("G2", f"{member_id} {text}")
        if generation < least:
            text = f"joined generation {generation} of {self._name}; {least} was synced before"
            self._find("G2", f"{member_id} {text}")
        if instance is not None:
            self._ids.setdefault(instance, {})[member_id] = None

    def synced_in(
        self, member_id: str, instance: str | None, generation: int, partitions: list[int]
    ) -> None:
        """G1: a partition has one owner in a generation; a static member is its instance."""
        self.synced = max(self.synced, generation)
        owner = instance or member_id
        for partition in partitions:
            other = self._owners.setdefault((generation, partition), owner)
            if other != owner:
                text = f"partition {partition} of {self._name} in generation {generation}"
                self._find("G1", f"{other} and {owner} own {text}")

    # Members.

    def ids_of(self, instance: str | None) -> list[str]:
        """Member ids of an instance that clients know."""
        return list(self._ids.get(instance or "", ()))

    def replaced(self, ids: list[str]) -> None:
        """Note ids that are over, since a later client of their instance has synced."""
        for member_id in ids:
            self._ended.setdefault(member_id, self._now_ns())

    def accepted(self, member_id: str, sent_ns: int) -> None:
        """G4: a heartbeat or commit was accepted; not that of an id that is over."""
        ended_ns = self._ended.get(member_id)
        if ended_ns is not None and sent_ns > ended_ns:
            self._find("G4", f"{member_id} of {self._name} was replaced, and is accepted")

    def heard(self, member_id: str, sent_ns: int) -> None:
        """Note an accepted heartbeat; a commit, accepted in a rebalance too, tells nothing."""
        self.accepted(member_id, sent_ns)
        self._alive[member_id] = max(sent_ns, self._alive.get(member_id, 0))
        self.knows(member_id, sent_ns)

    def knows(self, member_id: str, at_ns: int) -> None:
        """Note that the coordinator knew a member at an instant, or shortly before."""
        self._known[member_id] = max(at_ns, self._known.get(member_id, 0))

    def excuse(self, member_id: str) -> None:
        """Note that somebody asks to remove a member."""
        self._excused.add(member_id)

    def removes(self) -> None:
        """Note that somebody removes a member by its instance, which may have any id."""
        self._removes = True

    def unknown_at(self, member_id: str, asked_ns: int, patience_ns: int) -> None:
        """G4: no session ends while a join or a sync waits; in a run whose network is fast.

        Args:
            member_id: Id in the request; empty for a client that has none yet.
            asked_ns: When the request was made.
            patience_ns: How long the coordinator knows a member at least.
        """
        if self._removes or member_id in self._excused or member_id in self._ended:
            return
        known_ns = self._known.get(member_id, -patience_ns) if member_id else asked_ns
        if asked_ns - known_ns < patience_ns:
            text = f"{(self._now_ns() - asked_ns) / 1e6:.1f} ms after it has asked to join or sync"
            self._find("G4", f"{member_id or 'a new client'} of {self._name} is unknown {text}")

    def removed(self, member_id: str, patience_ns: int) -> None:
        """G4: a member is unknown only after its timeouts, or when somebody wanted it."""
        alive_ns = self._alive.get(member_id)
        if alive_ns is None or member_id in self._excused or member_id in self._ended:
            return
        silent_ns = self._now_ns() - alive_ns
        if silent_ns < patience_ns:
            text = f"{silent_ns / 1e6:.1f} ms after an accepted heartbeat"
            self._find("G4", f"{member_id} of {self._name} is unknown {text}")

    # Offsets.

    def commit(self, partition: int, *, is_stale: bool = False) -> Commit:
        """Make a commit of another value."""
        value = len(self._commits) + 1
        commit = Commit(partition, value, self._now_ns(), is_stale=is_stale)
        self._commits.append(commit)
        return commit

    def committed(self, commit: Commit, code: int) -> None:
        """G3: note what a commit was told; one of a past generation must be rejected."""
        if code == ErrorCode.NONE:
            commit.done_ns = self._now_ns()
            if commit.is_stale:
                self._find("G3", f"{self._name} took {commit.value} from a past generation")
        elif code in REJECTED:
            commit.is_rejected = True

    def fetched(self, partition: int, value: int, sent_ns: int) -> None:
        """G3: a fetched offset is that of the newest acknowledged commit, or of a later one."""
        own = [it for it in self._commits if it.partition == partition]
        found = next((it for it in own if it.value == value), None)
        where = f"partition {partition} of {self._name} has {value}"
        if value != _NONE and found is None:
            self._find("G3", f"{where}, which nobody committed")
            return
        if found is not None and found.is_rejected:
            self._find("G3", f"{where}, which was rejected")
        newer = [it for it in own if it.done_ns and it.done_ns < sent_ns and _follows(it, found)]
        if newer:
            self._find("G3", f"{where}, and {newer[-1].value} was acknowledged")


def _follows(commit: Commit, other: Commit | None) -> bool:
    """Whether a commit was made after another was over."""
    return other is None or bool(other.done_ns and other.done_ns < commit.sent_ns)


def codes_of(answer: Any) -> dict[int, int]:
    """Error codes of an OffsetCommit response, by partition."""
    return {
        it["partition_index"]: it["error_code"]
        for topic in answer["topics"]
        for it in topic["partitions"]
    }
