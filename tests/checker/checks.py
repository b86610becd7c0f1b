"""Compares a history with the logs: one checker for simulation and chaos.

A partition is a register that is only appended to, so its linearizability wants no search: one walk
through the log in its order, and one back.

Thread-safety: pure functions.
Source: Jepsen's names of anomalies; Adya, "Weak Consistency" (1999), for G1a; the promises P1 to P5
of the guarantees page.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.checker.history import (
    NEVER,
    NOT_PERSISTED,
    OFFSET_UNKNOWN,
    PENDING,
    Logged,
    Record,
    RecordResult,
    RecordResults,
    by_partition,
)

Log = Iterable[tuple[int, Record]]
"""Offsets and records of one partition, in log order."""


class Anomaly(enum.Enum):
    """The kinds of anomalies."""

    UNSETTLED = "unsettled record"
    SETTLED_TWICE = "record with two outcomes"
    LOST = "lost write"
    DUPLICATE = "duplicate"
    MISPLACED = "inconsistent offset"
    SHARED = "two records acknowledged at one offset"
    UNTRUE = "aborted write in the log (G1a)"
    PHANTOM = "write from nowhere"
    UNORDERED = "non-monotonic sends"
    STALE = "order against real time"
    OFFSETS = "offsets that do not rise"


class Finding(NamedTuple):
    """An anomaly, and the two things that contradict each other."""

    anomaly: Anomaly
    text: str


class Promises(NamedTuple):
    """The guarantees of the settings.

    Attributes:
        is_idempotent: A record is in a log at most once.
        keeps_order: The records of one caller are in the order of their sends.
    """

    is_idempotent: bool = True
    keeps_order: bool = True


def check_history(
    results: RecordResults, logged: Iterable[Logged], promises: Promises | None = None
) -> Iterator[Finding]:
    """Compare a whole history with all logs.

    Args:
        results: Those of all records.
        logged: Every record of every log, each log in its order.
        promises: Promises of all producers; None for the default settings.

    Yields:
        The findings.
    """
    promises = promises or Promises()
    found: dict[Record, tuple[int, int]] = {}
    for partition, log in by_partition(logged):
        is_idempotent = promises.is_idempotent
        yield from check_log(log, results, is_idempotent=is_idempotent, partition=partition)
        if promises.keeps_order:
            yield from check_order(log, results)
        yield from check_real_time(log, results)
        for offset, record in log:
            found.setdefault(record, (partition, offset))
    yield from check_outcomes(results)
    for record, result in results.items():
        if result.is_acknowledged and (found.get(record) or (-1,))[0] != result.partition:
            text = f"{record!r} was acknowledged in {result.partition} at {result.outcome}"
            yield Finding(Anomaly.LOST, f"{text}; it is in {found.get(record)}")


def check_outcomes(results: RecordResults) -> Iterator[Finding]:
    """See that each record has one outcome, and no two the same place."""
    places: dict[tuple[int, int], Record] = {}
    for record, result in results.items():
        if result.outcome == PENDING:
            yield Finding(Anomaly.UNSETTLED, f"{record!r} is not settled")
        for repeat in result.repeats:
            yield Finding(Anomaly.SETTLED_TWICE, f"{record!r}: {result.outcome}, then {repeat}")
        if result.outcome > OFFSET_UNKNOWN:
            place = result.partition, result.outcome
            other = places.setdefault(place, record)
            if other != record:
                yield Finding(Anomaly.SHARED, f"{other!r} and {record!r} at {place}")


def check_log(
    log: Log, results: RecordResults, *, is_idempotent: bool = True, partition: int = -1
) -> Iterator[Finding]:
    """See that one log has what it must have, and where.

    Args:
        log: In its order; read once.
        results: Those of all records.
        is_idempotent: A record is there at most once.
        partition: The log's; −1 where all records are known to have gone to it.

    Yields:
        The findings.
    """
    found: dict[Record, int] = {}
    last_offset = -1
    for offset, record in log:
        if offset <= last_offset:
            yield Finding(Anomaly.OFFSETS, f"{record!r} at {offset} behind {last_offset}")
        last_offset = max(last_offset, offset)
        result = results.get(record)
        if result is None:
            yield Finding(Anomaly.PHANTOM, f"{record!r} at {offset} was never sent")
        elif record not in found:
            found[record] = offset
            yield from _check_place(result, record, offset, partition)
        elif is_idempotent:
            yield Finding(Anomaly.DUPLICATE, f"{record!r} at {offset} and at {found[record]}")


def _check_place(
    result: RecordResult, record: Record, offset: int, partition: int
) -> Iterator[Finding]:
    if result.outcome == NOT_PERSISTED:
        yield Finding(Anomaly.UNTRUE, f"{record!r} at {offset} was said not to be persisted")
    is_elsewhere = partition not in {-1, result.partition}  # which is told as a lost write
    if result.outcome > OFFSET_UNKNOWN and result.outcome != offset and not is_elsewhere:
        text = f"{record!r} at {offset} was acknowledged at {result.outcome}"
        yield Finding(Anomaly.MISPLACED, text)


def check_order(log: Log, results: RecordResults) -> Iterator[Finding]:
    """See that one log has the records of each caller in the order of their sends.

    Args:
        log: In its order; read once.
        results: Those of all records.

    Yields:
        The findings.
    """
    newest: dict[int, tuple[int, Record]] = {}
    for offset, record in log:
        result = results.get(record)
        if result is None:
            continue
        order, before = newest.get(result.caller, (-1, record))
        if result.order < order:
            yield Finding(Anomaly.UNORDERED, f"{record!r} at {offset} is behind {before!r}")
        else:
            newest[result.caller] = result.order, record


def check_real_time(log: Sequence[tuple[int, Record]], results: RecordResults) -> Iterator[Finding]:
    """See that a record acknowledged before another send began is before that record.

    Args:
        log: One partition's, in its order.
        results: Those of all records, with times.

    Yields:
        The findings.
    """
    earliest, first = NEVER, None
    for offset, record in reversed(log):
        result = results.get(record)
        if result is None:
            continue
        if earliest < result.invoked:
            text = f"{record!r} at {offset}, sent at {result.invoked}, is before {first!r}"
            yield Finding(Anomaly.STALE, f"{text}, which was acknowledged at {earliest}")
        if result.outcome == offset and result.settled < earliest:
            earliest, first = result.settled, record
