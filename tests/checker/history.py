"""A history of records: an append-only list of events, and the result of each record.

An outcome is one number, so that millions fit into an array: an offset, or one of the constants.

Thread-safety: one thread.
Source: Jepsen's histories of invocations and completions; Herlihy and Wing, "Linearizability"
(1990), for what a completion before an invocation means.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

PENDING = -9
NOT_PERSISTED = -3
POSSIBLY_PERSISTED = -2
OFFSET_UNKNOWN = -1  # acknowledged as a duplicate
NEVER = 1 << 62

Record = int | bytes
"""The identity of a record, in a history and in a log."""


class Invoke(NamedTuple):
    """A send begins, which is accepted."""

    at: int
    caller: int
    record: Record


class Settle(NamedTuple):
    """An observer is told: an offset, or one of the constants, in a partition."""

    at: int
    record: Record
    partition: int
    outcome: int


class Logged(NamedTuple):
    """A record of a log, in log order."""

    partition: int
    offset: int
    record: Record


@dataclass(slots=True)
class RecordResult:
    """The result of one record.

    Attributes:
        caller: The caller that sent it; the records of one caller keep their order.
        order: Among the records of its caller.
        invoked: When its send began.
        settled: When it was settled; `NEVER` for not at all.
        partition: Partition that acknowledged it; −1 for none.
        outcome: An offset, or one of the constants.
        repeats: Outcomes that came after the first.
    """

    caller: int
    order: int
    invoked: int = 0
    settled: int = NEVER
    partition: int = -1
    outcome: int = PENDING
    repeats: list[int] = field(default_factory=list)

    @property
    def is_acknowledged(self) -> bool:
        """Whether a broker said that it has the record."""
        return self.outcome >= OFFSET_UNKNOWN


class RecordResults(Protocol):
    """The result of every record, by its identity."""

    def get(self, record: Record) -> RecordResult | None:
        """Return a record's result; None if nobody has sent it."""

    def items(self) -> Iterable[tuple[Record, RecordResult]]:
        """Return every record and its result."""


def results_of(events: Iterable[Invoke | Settle]) -> dict[Record, RecordResult]:
    """Read a history.

    Args:
        events: In order of time.

    Returns:
        The result of each record that was sent.
    """
    results: dict[Record, RecordResult] = {}
    sent: dict[int, int] = {}
    for event in events:
        if isinstance(event, Invoke):
            order = sent.get(event.caller, 0)
            sent[event.caller] = order + 1
            results[event.record] = RecordResult(event.caller, order, event.at)
            continue
        result = results[event.record]
        if result.outcome == PENDING:
            result.settled, result.outcome = event.at, event.outcome
            result.partition = event.partition
        else:
            result.repeats.append(event.outcome)
    return results


def by_partition(logged: Iterable[Logged]) -> Iterator[tuple[int, list[tuple[int, Record]]]]:
    """Sort the records of logs by partition, each in its order."""
    logs: dict[int, list[tuple[int, Record]]] = {}
    for entry in logged:
        logs.setdefault(entry.partition, []).append((entry.offset, entry.record))
    yield from sorted(logs.items())
