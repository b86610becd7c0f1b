"""The past contents of a run's logs: every record at each offset, and the cuts.

A log is looked at before and after each cut, when its topic goes, and at the end. Between two cuts
it only grows, so a *version* of a log is what it was between two of them.

Source: the oracle's own decoder; nothing of kprod is asked but the stored bytes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from tests.oracle import record_v2

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
Place = tuple[str, int]
"""Topic and partition."""


class Entry:
    """One record of a log.

    Attributes:
        record: As it was stored.
        born: The first version of the log that had it.
        died: The last one; None if no cut took it.
        states: States of its transaction, one for each look; committed if it has none.
    """

    __slots__ = ("born", "died", "record", "states")

    def __init__(self, record: record_v2.DecodedRecord, born: int) -> None:
        self.record = record
        self.born = born
        self.died: int | None = None
        self.states: set[str] = set()

    def shares_a_version_with(self, other: "Entry") -> bool:
        """Return whether a log had both at one time."""
        first, second = sorted((self, other), key=lambda it: it.born)
        return first.died is None or first.died >= second.born


@dataclass(slots=True)
class History:
    """All that one log has held.

    Attributes:
        entries: By offset, in order of their versions.
        version: Cuts so far.
        start: The log's start offset.
        end: The offset behind the last batch, at the last look.
    """

    entries: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    version: int = 0
    start: int = 0
    end: int = 0

    def look(self, batches: Iterable[bytes]) -> None:
        """Note what the log has now."""
        decoded = [
            batch
            for encoded in batches
            for batch in record_v2.decode_batches(encoded, checksum=crc32c)
        ]
        states = _states(decoded)
        for batch, state in zip(decoded, states, strict=True):
            self.end = batch.base_offset + batch.last_offset_delta + 1
            if batch.attributes & record_v2.CONTROL_BIT:
                continue
            for record in batch.records:
                self._entry(record).states.add(state)

    def cut(self, batches: Sequence[bytes]) -> None:
        """Note that the log was cut, and has these batches since."""
        left = {
            record.offset: record
            for encoded in batches
            for batch in record_v2.decode_batches(encoded, checksum=crc32c)
            for record in batch.records
        }
        for offset, versions in self.entries.items():
            newest = versions[-1]
            is_gone = offset >= self.start and left.get(offset) != newest.record
            if newest.died is None and is_gone:
                newest.died = self.version
        self.version += 1
        self.end = 0
        self.look(batches)

    def entry_of(self, offset: int, value: bytes) -> Entry | None:
        """Return the newest record at an offset that has a value; None if there never was one."""
        for entry in reversed(self.entries.get(offset, ())):
            if (entry.record.value or b"") == value:
                return entry
        return None

    def must_be_shown(self, offset: int, first: int, last: int, *, reads_committed: bool) -> bool:
        """Return whether a reader may not skip an offset.

        Args:
            offset: It.
            first: The oldest version of the log that it may have read.
            last: The newest one.
            reads_committed: It shows no records but committed ones.
        """
        if offset < self.start:
            return False
        return any(
            entry.born <= first
            and (entry.died is None or entry.died >= last)
            and (not reads_committed or entry.states == {COMMITTED})
            for entry in self.entries.get(offset, ())
        )

    def _entry(self, record: record_v2.DecodedRecord) -> Entry:
        versions = self.entries[record.offset]
        if not versions or versions[-1].died is not None:
            versions.append(Entry(record, self.version))
        return versions[-1]


def _states(batches: Sequence[record_v2.DecodedBatch]) -> list[str]:
    """Return what became of each batch: its producer's next marker says so."""
    states = [COMMITTED] * len(batches)
    open_ones: dict[int, list[int]] = defaultdict(list)
    for place, batch in enumerate(batches):
        if batch.attributes & record_v2.CONTROL_BIT:
            is_commit = (batch.records[0].key or b"")[2:4] == b"\0\1"
            for other in open_ones.pop(batch.producer_id, []):
                states[other] = COMMITTED if is_commit else ABORTED
        elif batch.attributes & record_v2.TRANSACTIONAL_BIT:
            open_ones[batch.producer_id].append(place)
            states[place] = OPEN
    return states


class LogBook:
    """The logs of all topics that a reader may read.

    Attributes:
        generations: How often each topic has been made again.
    """

    def __init__(self) -> None:
        self.generations: dict[str, int] = defaultdict(int)
        self._histories: dict[tuple[str, int, int], History] = defaultdict(History)

    def now(self, place: Place) -> History:
        """Return the history of the partition that is there now."""
        topic, partition = place
        return self._histories[topic, partition, self.generations[topic]]

    def of(self, place: Place) -> Sequence[tuple[int, History]]:
        """Return every history of a partition's name, the newest first, with its generation."""
        topic, partition = place
        newest = self.generations[topic]
        return [
            (number, self._histories[topic, partition, number]) for number in range(newest, -1, -1)
        ]

    def look(self, topic: str, partitions: Mapping[int, Sequence[bytes]]) -> None:
        """Note what a topic's logs have now."""
        for partition, batches in partitions.items():
            self.now((topic, partition)).look(batches)

    def retire(self, topic: str, partitions: Mapping[int, Sequence[bytes]]) -> None:
        """Note what a topic has that is about to be deleted and made again."""
        self.look(topic, partitions)
        self.generations[topic] += 1
