"""Judges what a consumer has handed out by what the logs held.

For each partition the judge keeps the offsets from which reading may continue: one behind the last
record; others after a seek of another thread, or a reset that the consumer has told of. A record
must be explained by one of them: nothing between that and the record is a record that may be shown.

Source: R1 to R5, R10 of the invariants of reading; `groups_and_consumer` for what a reset may do.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tests.oracle.record_v2 import DecodedRecord
from tests.sim.log_book import COMMITTED, Entry, History, LogBook
from tests.sim.oracle import Finding
from tests.sim.reader import Seen

if TYPE_CHECKING:
    from kprod.model import TopicPartition


_SHOWN = 5


class Next(NamedTuple):
    """An offset from which reading may continue.

    Attributes:
        offset: It; −1 for one that is not known.
        lowest: The lowest that it can be if it is not known.
        generation: How often the topic had been made again.
        version: How often its log had been cut.
        before: The record that was handed out before it; None after a start.
    """

    offset: int
    lowest: int
    generation: int
    version: int
    before: Entry | None = None


class Judge:
    """Judges one consumer.

    Args:
        book: The logs of the run, at its end.
        name: The consumer's, for texts.
        reads_committed: It must not show records of aborted transactions.
        begins_early: A partition that appears is read from its start.
    """

    def __init__(
        self, book: LogBook, name: str, *, reads_committed: bool, begins_early: bool
    ) -> None:
        self._book = book
        self._name = name
        self._reads_committed = reads_committed
        self._begins_early = begins_early
        self._nexts: dict[TopicPartition, list[Next]] = {}

    def judge(self, seen: Iterable[Seen]) -> Iterator[Finding]:
        """Yield every broken invariant, in order."""
        for each in seen:
            if each.kind in {"record", "peek"}:
                yield from self._judge_record(each)
            elif each.kind == "position":
                yield from self._judge_position(each)
            elif each.kind == "told":
                self._of(each).append(Next(each.offset, 0, each.generation, each.version))
            elif each.kind == "start":
                # Where the topic was made again, it may still read the one that is gone.
                generation = -1 if each.generation else 0
                started = Next(each.offset, each.lowest, generation, each.version)
                before = self._nexts.get(each.place, []) if each.beside else []
                self._nexts[each.place] = [*before, started]
            elif each.kind == "drop" and not each.beside:
                self._nexts.pop(each.place, None)  # a subscription may find it again
            elif not each.beside:  # "none"
                self._nexts[each.place] = []

    def _of(self, seen: Seen) -> list[Next]:
        """Return where a partition's reading may continue; one that nobody named has appeared."""
        if seen.place not in self._nexts:
            offset = 0 if self._begins_early else -1
            self._nexts[seen.place] = [Next(offset, 0, 0, 0)]
        return self._nexts[seen.place]

    def _judge_record(self, seen: Seen) -> Iterator[Finding]:
        found = self._find(seen)
        where = f"{self._name}, {seen.place.topic}-{seen.place.partition} {seen.offset}"
        if found is None:
            yield Finding("R1", f"{where}: no log had {seen.row!r:.200} there")
            return
        generation, history, entry = found
        if self._reads_committed and COMMITTED not in entry.states:
            yield Finding("R5", f"{where} was handed out; its transaction is {entry.states}")
        nexts = self._of(seen)
        at = next(
            (
                index
                for index, it in enumerate(nexts)
                if self._explains(it, seen, generation, history, entry)
            ),
            None,
        )
        if at is None:
            yield self._unexplained(where, seen, nexts, history, entry)
        if seen.kind == "record":
            continued = Next(seen.offset + 1, 0, generation, entry.born, entry)
            self._nexts[seen.place] = [continued, *([] if at is None else nexts[at + 1 :])]

    def _unexplained(
        self, where: str, seen: Seen, nexts: Sequence[Next], history: History, entry: Entry
    ) -> Finding:
        shown = [(it.offset, it.lowest) for it in nexts[:_SHOWN]]
        for it in nexts:
            if it.offset <= seen.offset and self._is_cut_between(it, history, entry):
                text = f"{where} follows {it.offset - 1}, which the log had lost by then"
                return Finding("R10", text)
        missing = [it for each in nexts for it in self._passed_over(each, seen, history, entry)]
        text = f"{where}; reading was to continue at one of {shown}"
        return Finding("R2", f"{text}; skipped: {missing[:_SHOWN]}")

    def _find(self, seen: Seen) -> tuple[int, History, Entry] | None:
        """Return the record that the log had, if it is the same in every field."""
        key, value, headers, timestamp_ms = seen.row
        for generation, history in self._book.of(seen.place):
            entry = history.entry_of(seen.offset, value)
            if entry is not None:
                record = DecodedRecord(seen.offset, timestamp_ms, key, value, headers)
                if entry.record._replace(value=entry.record.value or b"") == record:
                    return generation, history, entry
        return None

    def _explains(
        self, it: Next, seen: Seen, generation: int, history: History, entry: Entry | None
    ) -> bool:
        if it.generation != generation:
            return it.generation < generation  # the topic was made again since
        if it.offset < 0:
            return seen.offset >= it.lowest or history.version > 0
        if entry is not None and self._is_cut_between(it, history, entry):
            return False
        return seen.offset >= it.offset and not self._passed_over(it, seen, history, entry)

    @staticmethod
    def _is_cut_between(it: Next, history: History, entry: Entry) -> bool:
        """Return whether the log lost the record before, and a reader can know it.

        Where the log begins behind it, the leader knows no older epoch than its own.
        """
        return (
            it.before is not None
            and it.offset > history.start
            and not entry.shares_a_version_with(it.before)
        )

    def _passed_over(
        self, it: Next, seen: Seen, history: History, entry: Entry | None
    ) -> list[int]:
        """Return the offsets between that a reader of any version had to show."""
        first, last = it.version, seen.version
        if entry is not None:
            first = max(first, entry.born)
            last = last if entry.died is None else min(last, entry.died)
        return [
            between
            for between in range(max(it.offset, 0), seen.offset)
            if history.must_be_shown(
                between, min(first, last), last, reads_committed=self._reads_committed
            )
        ]

    def _judge_position(self, seen: Seen) -> Iterator[Finding]:
        nexts = self._of(seen)
        history = dict(self._book.of(seen.place))[seen.generation]
        if not any(self._explains(it, seen, seen.generation, history, None) for it in nexts):
            where = f"{self._name}, {seen.place.topic}-{seen.place.partition}"
            shown = [(it.offset, it.lowest) for it in nexts[:_SHOWN]]
            text = f"{where}: the position is {seen.offset}; reading was to continue at {shown}"
            yield Finding("R3", text)
        if len(nexts) == 1 and nexts[0].offset < 0:
            # Where the topic was made again, it may not have heard of it yet.
            self._nexts[seen.place] = [nexts[0]._replace(offset=seen.offset)]
