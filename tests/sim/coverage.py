"""Rare states that the runs must have shown: where a counter stays 0, a weight is wrong.

Most counters are made from the product's own tables, so that a new state, event or code wants a
fault that leads to it, or a line here that says why there is none.
"""

from collections.abc import Callable, Container, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kprod.consumer import position
from kprod.metrics.state_log import Event
from kprod.network import node_state
from kprod.producer import produce_response
from kprod.producer.transaction import transaction_state
from kprod.protocol.error_table import ErrorCode
from tests.sim.crew import SHIFTS
from tests.sim.faults import FAULTS
from tests.sim.groups import ACTS

NOT_SIMULATED = {
    Event.REAUTHENTICATED: "the simulated brokers ask for no login",
    Event.TOKEN_REFRESHED: "the simulated brokers ask for no login",
    Event.TOKEN_FAILED: "the simulated brokers ask for no login",
    Event.THROTTLED: "no broker asks for a silence of more than three seconds",
}
"""Events that no run shows, and why."""

SECURED = frozenset(
    {"TLS_HANDSHAKE", "AUTHENTICATING", "REAUTHENTICATING", "AUTHENTICATION_FAILED"}
)
"""States that no run shows: the simulated brokers ask neither for TLS nor for a login."""

GROUP_CODES = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)

NO_MOVES = {
    ("UNINITIALIZED", "FATAL"): "an error is fatal in response to a request, which changes state",
    ("VALIDATING", "INITIAL"): "an error that leaves no offset halts the partition first",
}
"""Other moves of the product's tables that no run shows, and why."""

_TABLES: tuple[Any, ...] = (node_state, transaction_state, position)


def _moves() -> list[str]:
    moves = [
        (present.name, following.name)
        for module in _TABLES
        for present, followers in module.TRANSITIONS.items()
        for following in followers
    ]
    return [
        f"move {' '.join(move)}"
        for move in sorted(moves)
        if move not in NO_MOVES and not SECURED & set(move)
    ]


def _codes() -> Iterator[str]:
    codes = (
        produce_response.MAYBE_PERSISTED_CODES
        | produce_response.TAKEN_CODES
        | produce_response.FATAL_CODES
        | produce_response.SEQUENCE_CODES
    )
    for code in sorted(codes):
        yield f"response {int(code)}"


READING = (
    "aborted transactions were told",
    "batch was corrupted",
    "block is shared by several partitions",
    "epochs were asked for",
    "fetch found another epoch",
    "fetch response 1",
    "fetch response 74",
    "interceptor was closed",
    "interceptor: ConcurrentPoll",
    "interceptor: closes",
    "interceptor: raises",
    "interceptor: re-enters",
    "prefetched records of a paused partition are kept",
    "reader gave up a connection",
    "reader has read everything",
    "reader raised TopicAuthorizationFailed",
    "reader raised ClosedError",
    "reader raised ConcurrentPoll",
    "reader raised CorruptRecord",
    "reader raised DeserializationFailed",
    "reader raised KprodTimeout",
    "reader raised LogTruncated",
    "reader raised NoOffset",
    "reader raised UnknownPartition",
    "reader raised WakeupError",
    "reader told of a cut",
    "reader told of a reset",
    "reader was closed in the middle",
    "reader was frozen",
    "reader: columns",
    "reader: ends of a log",
    "reader: offset for a time",
    "reader: pause in a loop",
    "reader: position",
    "reader: record",
    "reader: reset by_duration",
    "reader: reset earliest",
    "reader: reset latest",
    "reader: no offset",
    "reader: seek beyond the log",
    "reader: skip",
    "response was read by the polling thread",
    "session was closed",
    "session was lost",
    "stream lost its oldest records",
    "stream was cut",
    "transaction aborted",
    "transaction committed",
)
"""States of consumers and of what they read."""

GROUPS = (
    *(f"group act {kind}" for kind in sorted({"start", "replace", *ACTS})),
    *(f"group code {int(code)}" for code in GROUP_CODES),
    "group offsets were fetched",
)
"""Acts of groups' members, and errors that they met."""

CREW = (
    *(f"crew act {kind}" for kind in sorted({"start", "grow", "write", *SHIFTS})),
    "crew: commit ended CommitRetriable",
    "crew: commit ended NoneType",
    "crew: generation",
    "crew: lost",
    "crew: poll raised FencedInstanceId",
    "crew: record",
    "crew: revoked",
)
"""Acts of a crew, and the events of its members."""

EXPECTED = (
    *(f"fault {kind}" for kind in FAULTS),
    *(f"event {event.text}" for event in Event if event not in NOT_SIMULATED),
    *_moves(),
    *_codes(),
    "NOT_PERSISTED",
    "POSSIBLY_PERSISTED",
    "acknowledged",
    "asked at once",
    "brokers were killed",
    "callback closes",
    "callback flushes",
    "callback purges",
    "callback raises",
    "callback sends",
    "callback sends again",
    "callback sleeps",
    "close in the middle",
    "compression beside the sender let other threads run",
    "compression on the sender's thread let other threads run",
    "crash took written batches",
    "cut with a request in flight",
    "failed",
    "flush left none",
    "flush left records",
    "freeze",
    "log handler raises",
    "partitions wait for an epoch",
    "pipelined",
    "power went off in a call of the disk",
    "power went off in close",
    "power went off while loading",
    "producer replaced after a fatal error",
    "purge",
    "request of a closed connection arrives",
    "response None",
    "rest",
    "response that does not fit",
    "result failed",
    "result raised KprodTimeout",
    "result waited",
    "send raised BufferTimeout",
    "send raised ClosedError",
    "send raised MetadataTimeout",
    "send raised RecordTooLarge",
    "send raised UnknownPartition",
    "sequences wrap",
    "task was cancelled",
    "task: flush left none",
    "task: flush left records",
    "task: send raised BufferTimeout",
    "task: send was cancelled",
    "torn batch was cut off",
    "wait for a lock",
    *READING,
    *GROUPS,
    *CREW,
)


def missing(counts: Mapping[str, int]) -> list[str]:
    """Return the expected counters that are 0."""
    return [name for name in EXPECTED if not counts.get(name)]


class _CountedMoves:
    """The states that may follow one; counts each that is asked for."""

    def __init__(
        self, name: str, followers: Container[Any], count: Callable[[str], object]
    ) -> None:
        self._name = name
        self._followers = followers
        self._count = count

    def __contains__(self, following: Any) -> bool:
        self._count(f"move {self._name} {following.name}")
        return following in self._followers


@contextmanager
def counted_moves(count: Callable[[str], object]) -> Generator[None]:
    """Have the product's tables of states count the moves that are made."""
    tables = [(module, module.TRANSITIONS) for module in _TABLES]
    for module, table in tables:
        module.TRANSITIONS = {
            present: _CountedMoves(present.name, followers, count)
            for present, followers in table.items()
        }
    try:
        yield
    finally:
        for module, table in tables:
            module.TRANSITIONS = table
