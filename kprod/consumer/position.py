# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""A partition's position, its table of states, and the owner of each field.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Two threads use a partition without a lock, so each field has one owner. The application's threads
set where to read (`start`) and how far records were returned (`handed`). The I/O thread sets the
resolved offset of a start (`resolved`) and the next offset to fetch. Each start has a unique
number. A response, a block or an offset with an older number is ignored when it is looked at; so a
change of position needs no search and no waiting while requests are in flight.

Thread-safety: as documented for each field.
Source: Kafka SubscriptionState and its FetchStates (clients 4.3.1); KIP-320.
"""

import enum
import itertools
from collections.abc import Mapping
from types import MappingProxyType

from kprod.config.consumer_kinds import ResetPolicy
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.record.blocks import PartitionStamp

NO_EPOCH = -1
OFFSET_MAX = 2**63 - 2  # the last offset that a position can be at
DROPPED = -1  # no start has this number
NO_POLICY = ResetPolicy("none")
_numbers = itertools.count(1)


class State(enum.Enum):
    """The state of a partition in the I/O thread."""

    INITIAL = "nothing to fetch from; the application must choose an offset"
    RESETTING = "the cluster is asked for an offset"
    VALIDATING = "the leader is asked whether its log still has the records that were read"
    FETCHING = "records are fetched"
    HALTED = "the application's thread must decide how to continue"


_BY_START = frozenset({State.INITIAL, State.RESETTING, State.VALIDATING, State.FETCHING})
TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.INITIAL: _BY_START,
        State.RESETTING: _BY_START,
        State.VALIDATING: _BY_START | {State.HALTED},
        State.FETCHING: _BY_START | {State.HALTED},
        State.HALTED: _BY_START,
    }
)
"""A start leads to any state except HALTED, which only a broker's response leads to."""


class Start:  # noqa: B903 - a named tuple would be made by Python code
    """A position that the application asks for; immutable.

    Attributes:
        number: A unique number.
        offset: The next offset to return; None if `policy` determines it.
        epoch: Leader epoch of the record before it; −1 if unknown.
        policy: How to find the offset; "none" if it must not be searched.
        reason: The reason for a log line; empty if the application asked for it.
        asks_group: Whether the group's committed offset is asked for before the policy applies.
    """

    def __init__(  # noqa: PLR0917 - its attributes
        self,
        number: int,
        offset: int | None,
        epoch: int = NO_EPOCH,
        policy: ResetPolicy = NO_POLICY,
        reason: str = "",
        asks_group: bool = False,  # noqa: FBT001, FBT002 - an attribute
    ) -> None:
        self.number: int = number
        self.offset: int | None = offset
        self.epoch: int = epoch
        self.policy: ResetPolicy = policy
        self.reason: str = reason
        self.asks_group: bool = asks_group


def group_start(policy: ResetPolicy) -> Start:
    """Create a start at the group's committed offset.

    Args:
        policy: How to find the offset if the group has none.

    Returns:
        The start.
    """
    return Start(next(_numbers), None, policy=policy, asks_group=True)


def new_start(
    offset: int | None,
    epoch: int = NO_EPOCH,
    policy: ResetPolicy = NO_POLICY,
    reason: str = "",
) -> Start:
    """Create a start with a new number.

    Args:
        offset: An offset, at least 0, or None.
        epoch: Leader epoch of the record before it, or −1.
        policy: How to find the offset if it is None.
        reason: The reason for a log line.

    Returns:
        The start.
    """
    return Start(next(_numbers), offset, epoch, policy, reason)


class Place:  # noqa: B903 - a named tuple would be made by Python code
    """An offset that belongs to a start; immutable.

    Attributes:
        number: Number of the start.
        offset: The next offset to return.
        epoch: Leader epoch of the record before it; −1 if unknown.
    """

    def __init__(self, number: int, offset: int, epoch: int = NO_EPOCH) -> None:
        self.number: int = number
        self.offset: int = offset
        self.epoch: int = epoch


def new_place(number: int, offset: int, epoch: int) -> Place:
    """Return a position, as `Place` does, but in C.

    Args:
        number: As the attribute of `Place`, and the others, too.
        offset: The next offset to return.
        epoch: Leader epoch of the record before it; −1 if unknown.

    Returns:
        The position.
    """
    place = Place.__new__(Place)
    place.number = number
    place.offset = offset
    place.epoch = epoch
    return place


class AssignedPartition:
    """An assigned partition.

    Attributes:
        key: Topic and partition.
        stamp: The same, as records hold it.
        start: The requested position. Set by any thread.
        handed: The position after the returned records; None before the first. Set by the polling
            thread.
        paused: Whether no records are returned. Set by any thread.
        stored: The offset that the application has stored for the next commit; None if there is
            none, or it is committed. Set by any thread of the application.
        consumed_count: Number of blocks that were returned completely or dropped. Set by the
            polling thread.
        state: The state. This and the following are set by the I/O thread.
        number: Number of the start that the I/O thread has processed.
        fetch_offset: The next offset to fetch.
        fetch_epoch: Leader epoch of the record before it; −1 if unknown.
        leader_epoch: Epoch of the leader that the position was validated against; −1 if unknown.
        resolved: The offset that was found for the start.
        fetched_count: Number of blocks passed to the polling thread.
        retry_at_ms: Earliest time of the next attempt after an error.
        failures: Number of consecutive failed attempts.
        high_watermark: High watermark in the newest response; −1 before the first.
        last_stable_offset: Last stable offset in the newest response; −1 before the first.
        log_start_offset: Log start offset in the newest response; −1 before the first.
        cut_off_count: Consecutive responses with only a part of a batch.
    """

    def __init__(self, key: TopicPartition, start: Start) -> None:
        """Create a partition of which nothing was read.

        Args:
            key: Topic and partition.
            start: The initial position.
        """
        self.key: TopicPartition = key
        self.stamp: PartitionStamp = PartitionStamp(key.topic, key.partition)
        self.start: Start = start
        self.handed: Place | None = None
        self.paused: bool = False
        self.stored: OffsetAndMetadata | None = None
        self.consumed_count: int = 0
        self.state: State = State.INITIAL
        self.number: int = 0
        self.fetch_offset: int = -1
        self.fetch_epoch: int = NO_EPOCH
        self.leader_epoch: int = NO_EPOCH
        self.resolved: Place | None = None
        self.fetched_count: int = 0
        self.retry_at_ms: int = 0
        self.failures: int = 0
        self.high_watermark: int = -1
        self.last_stable_offset: int = -1
        self.log_start_offset: int = -1
        self.cut_off_count: int = 0

    @property
    def place(self) -> Place | None:
        """The next offset to return; None while it is unknown. Any thread."""
        start = self.start
        for place in (self.handed, self.resolved):
            if place is not None and place.number == start.number:
                return place
        return None if start.offset is None else Place(start.number, start.offset, start.epoch)

    @property
    def has_no_offset(self) -> bool:
        """Whether the application must `seek`: there is no offset, and no policy to find one."""
        start = self.start
        if start.asks_group:
            return False  # the group may have one
        return start.offset is None and start.policy.name == "none"

    @property
    def ahead_count(self) -> int:
        """Number of blocks that wait for the polling thread."""
        return self.fetched_count - self.consumed_count

    def move_to(self, state: State) -> None:
        """Change the state; the I/O thread.

        Args:
            state: A state that `TRANSITIONS` allows.

        Raises:
            AssertionError: The transition is not allowed; a bug in kprod.
        """
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self.key}: from {self.state.name} to {state.name}")
        self.state = state

    def fetch_from(self, offset: int, epoch: int) -> None:
        """Set the next offset to fetch; the I/O thread."""
        self.fetch_offset = offset
        self.fetch_epoch = epoch

    def note_fetched(
        self, high_watermark: int, last_stable_offset: int, log_start_offset: int
    ) -> None:
        """Set the offsets that a broker has told without an error; the I/O thread."""
        self.failures = 0
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    def __repr__(self) -> str:
        place = self.place
        offset = None if place is None else place.offset
        return f"<{self.key.topic}-{self.key.partition} {self.state.name} at {offset}>"
