"""The position of reading in one partition: one table of states, and the owner of each field.

Two threads use a partition without a lock, so each field has one owner. The application's side says
where to read (`start`) and notes how far it was handed out (`handed`); the I/O side notes the
offset of a start (`resolved`) and the next one to fetch. A start has a number that no other start
has. A response, a block of records or an offset that belongs to an older number is dropped when it
is looked at, so nothing must be searched or waited for when a position changes while requests are
out.

Thread-safety: as the fields say.
Source: Kafka SubscriptionState and its FetchStates (clients 4.3.1); KIP-320.
"""

import enum
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kprod.config.consumer_kinds import ResetPolicy
from kprod.model import TopicPartition
from kprod.record.blocks import PartitionStamp

NO_EPOCH = -1
NO_POLICY = ResetPolicy("none")
_numbers = itertools.count(1)


class State(enum.Enum):
    """What the I/O thread does about a partition."""

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
"""A start leads to any state but HALTED; only what a broker says of the log leads there."""


class Start(NamedTuple):
    """Where the application wants to read from.

    Attributes:
        number: Of no other start.
        offset: The next one to hand out; None while it must be found by `policy`.
        epoch: Leader epoch of the record before it; −1 if unknown.
        policy: How to find the offset; "none" for not at all.
        reason: Why, for the line in the log; empty for the application's own wish.
    """

    number: int
    offset: int | None
    epoch: int = NO_EPOCH
    policy: ResetPolicy = NO_POLICY
    reason: str = ""


def new_start(
    offset: int | None,
    epoch: int = NO_EPOCH,
    policy: ResetPolicy = NO_POLICY,
    reason: str = "",
) -> Start:
    """Make a start with a number of its own.

    Args:
        offset: At least 0, or None.
        epoch: Leader epoch, or −1.
        policy: How to find the offset, if it is None.
        reason: For the log.

    Returns:
        The start.
    """
    return Start(next(_numbers), offset, epoch, policy, reason)


class Place(NamedTuple):
    """An offset under a start.

    Attributes:
        number: Of the start.
        offset: The next one to hand out.
        epoch: Leader epoch of the record before it; −1 if unknown.
    """

    number: int
    offset: int
    epoch: int = NO_EPOCH


class AssignedPartition:
    """One partition of the assignment.

    Attributes:
        key: Topic and partition.
        stamp: The same, for the records.
        start: Where to read from. Any thread.
        handed: How far records were handed out; None before the first. The application's thread.
        paused: Whether nothing is handed out. Any thread.
        consumed_count: Blocks that were handed out whole, or dropped. The application's thread.
        state: See `State`. The rest is the I/O thread's.
        number: Of the start that the I/O thread works for.
        fetch_offset: The next one to fetch.
        fetch_epoch: Leader epoch of the record before it; −1 if unknown.
        leader_epoch: Of the leader that the position was last validated against; −1 if unknown.
        resolved: What offset the start became.
        fetched_count: Blocks that were given to the application's thread.
        retry_at_ms: When to try again after an error.
        failures: In a row.
        high_watermark: As of the newest response; −1 before.
        last_stable_offset: Likewise.
        log_start_offset: Likewise.
        cut_off_count: Responses in a row with nothing but a part of a batch.
    """

    __slots__ = (
        "consumed_count",
        "cut_off_count",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "fetched_count",
        "handed",
        "high_watermark",
        "key",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "number",
        "paused",
        "resolved",
        "retry_at_ms",
        "stamp",
        "start",
        "state",
    )

    def __init__(self, key: TopicPartition, start: Start) -> None:
        """Make a partition that nothing was read from.

        Args:
            key: Topic and partition.
            start: Where to begin.
        """
        self.key: TopicPartition = key
        self.stamp: PartitionStamp = PartitionStamp(key.topic, key.partition)
        self.start: Start = start
        self.handed: Place | None = None
        self.paused: bool = False
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
        """The next offset to hand out; None while it is not known. Any thread."""
        start = self.start
        for place in (self.handed, self.resolved):
            if place is not None and place.number == start.number:
                return place
        return None if start.offset is None else Place(start.number, start.offset, start.epoch)

    @property
    def has_no_offset(self) -> bool:
        """Whether the application must choose one: there is none, and no way to find it."""
        start = self.start
        return start.offset is None and start.policy.name == "none"

    @property
    def ahead_count(self) -> int:
        """How many blocks wait for the application's thread."""
        return self.fetched_count - self.consumed_count

    def move_to(self, state: State) -> None:
        """Change the state; the I/O thread.

        Args:
            state: One that `TRANSITIONS` allows.

        Raises:
            AssertionError: It does not; a fault of kprod.
        """
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self.key}: from {self.state.name} to {state.name}")
        self.state = state

    def fetch_from(self, offset: int, epoch: int) -> None:
        """Note the next offset to fetch; the I/O thread."""
        self.fetch_offset = offset
        self.fetch_epoch = epoch

    def __repr__(self) -> str:
        return f"<{self.key.topic}-{self.key.partition} {self.state.name} {self.place}>"
