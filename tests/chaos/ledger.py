"""The records sent, their outcomes as the producer told them, and the log.

Each record carries its number within its partition. The ledger keeps one integer for each, so that
millions fit; callbacks write it.

Thread-safety: `open` by one thread, the callbacks by the producer's; read it when both are done.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kprod.errors import KprodError, Persistence
from kprod.model import RecordMetadata
from tests.checker.checks import Anomaly, check_log, check_order
from tests.checker.history import (
    NOT_PERSISTED,
    OFFSET_UNKNOWN,
    PENDING,
    POSSIBLY_PERSISTED,
    Record,
    RecordResult,
)

EXAMPLES_MAX = 10  # per kind of violation
_LISTS = {
    Anomaly.LOST: "lost",
    Anomaly.MISPLACED: "misplaced",
    Anomaly.OFFSETS: "misplaced",
    Anomaly.DUPLICATE: "doubled",
    Anomaly.UNORDERED: "out_of_order",
    Anomaly.UNTRUE: "untrue",
    Anomaly.PHANTOM: "untrue",
}
"""The verdict's list for each anomaly."""

Callback = Callable[[RecordMetadata | None, KprodError | None], None]


class Verdict(NamedTuple):
    """The result of a comparison with the log; each list has a few examples."""

    sent: int
    acknowledged: int
    possibly_persisted: int
    not_persisted: int
    unresolved: int
    resolved_twice: int
    lost: list[str]
    misplaced: list[str]
    doubled: list[str]
    out_of_order: list[str]
    untrue: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        wrong = self.lost + self.misplaced + self.doubled + self.out_of_order + self.untrue
        return not wrong and not self.unresolved and not self.resolved_twice


class Ledger:
    """One entry for each record."""

    def __init__(self, partition_count: int) -> None:
        """Start empty."""
        self.entries = [array("q") for _ in range(partition_count)]
        self.resolved_twice = 0
        self.reasons: Counter[str] = Counter()  # why records failed

    def open(self, partition: int) -> tuple[int, Callback]:
        """Enter a record that is about to be sent; its number, and its delivery callback."""
        entries = self.entries[partition]
        entries.append(PENDING)
        number = len(entries) - 1
        return number, partial(self._settle, entries, number)

    def take_back(self, partition: int) -> None:
        """Strike the newest record out: `send` raised, so there is no such record."""
        self.entries[partition].pop()

    def _settle(
        self,
        entries: "array[int]",
        number: int,
        metadata: RecordMetadata | None,
        error: KprodError | None,
    ) -> None:
        if entries[number] != PENDING:
            self.resolved_twice += 1
        if metadata is not None:
            entries[number] = metadata.offset
        elif error is not None:
            is_open = error.persistence is Persistence.POSSIBLY_PERSISTED
            entries[number] = POSSIBLY_PERSISTED if is_open else NOT_PERSISTED
            text = re.sub(r"\d+", "N", str(error))  # one reason, whatever its numbers
            self.reasons[f"{type(error).__name__}: {text[:80]}"] += 1

    def compare(self, logs: Iterable[Iterable[tuple[int, int]]]) -> Verdict:
        """Hold each partition's log, as (offset, number) in log order, against the entries."""
        wrong = _Findings()
        for partition, log in enumerate(logs):
            results = _Results(self.entries[partition])
            found = list(log)
            for finding in (*check_log(found, results), *check_order(found, results)):
                wrong.note(finding.anomaly, f"{partition}/{finding.text}")
            there = {number for _, number in found}
            for number, entry in enumerate(self.entries[partition]):
                if entry >= OFFSET_UNKNOWN and number not in there:
                    wrong.note(Anomaly.LOST, f"{partition}/{number}, acknowledged at {entry}")
        everything = Counter(
            entry if entry < OFFSET_UNKNOWN else 0 for entries in self.entries for entry in entries
        )
        return Verdict(
            sent=sum(map(len, self.entries)),
            acknowledged=everything[0],
            possibly_persisted=everything[POSSIBLY_PERSISTED],
            not_persisted=everything[NOT_PERSISTED],
            unresolved=everything[PENDING],
            resolved_twice=self.resolved_twice,
            **wrong.lists,
        )


class _Results:
    """The entries of one partition, as the checker wants them; times are not kept."""

    def __init__(self, entries: "array[int]") -> None:
        self._entries = entries

    def get(self, record: Record) -> RecordResult | None:
        """Return the result of the record of a number."""
        assert isinstance(record, int)
        if not 0 <= record < len(self._entries):
            return None
        return RecordResult(0, record, outcome=self._entries[record])

    def items(self) -> Iterator[tuple[Record, RecordResult]]:
        """Return every number and its result."""
        for number, entry in enumerate(self._entries):
            yield number, RecordResult(0, number, outcome=entry)


class _Findings:
    """A few examples of each kind of wrong."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {name: [] for name in _LISTS.values()}

    def note(self, anomaly: Anomaly, text: str) -> None:
        examples = self.lists[_LISTS[anomaly]]
        if len(examples) < EXAMPLES_MAX:
            examples.append(text)
