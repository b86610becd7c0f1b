"""Random histories of a log, and what must be left of them: an oracle of a few lines.

The oracle knows nothing of segments, batches or maps: it is a list of records with their outcomes.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.cleaning.picker import Cleanable, Lags, cleanable
from kprod.broker.log.cleaning.round import CleaningRound, RoundSettings, RoundSummary
from kprod.broker.log.cleaning.survivors import Horizon
from kprod.broker.log.partition_log import PartitionLog
from kprod.model import Record
from kprod.record.control import ControlType, EndMarker, encode_marker_batch
from kprod.record.reader import read_batches
from tests.oracle.record_v2 import encode_batch

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1_000
CODECS = (0, 0, 0, 1, 2, 3, 4)
BUFFER_BYTES = 1 << 16
SEGMENT_BYTES = 3_000


class Sent(NamedTuple):
    """A record as it was sent.

    Attributes:
        record: With its offset.
        producer_id: −1 for none.
        is_transactional: Whether its outcome is decided by a marker.
    """

    record: Record
    producer_id: int
    is_transactional: bool


class Producer:
    """An idempotent producer, perhaps with a transaction."""

    def __init__(self, producer_id: int, *, is_transactional: bool) -> None:
        """Start without records."""
        self.producer_id = producer_id
        self.is_transactional = is_transactional
        self.next_sequence = 0
        self.open_offsets: list[int] = []
        self.last_batch = b""


class History:
    """A log that is written at random, and everything that was ever sent to it.

    Attributes:
        log: The log.
        sent: All records, by offset.
        aborted: Offsets of records whose transaction was aborted.
        batch_of: First offset of each record's batch, by the record's offset.
        horizon_ms: Time at which the tombstones of a batch may be removed, by the batch's first
            offset.
    """

    def __init__(self, log: PartitionLog, seed: int) -> None:
        """Take an empty log."""
        self.rng = random.Random(seed)
        self.log = log
        log.rules = log.rules._replace(segment_bytes=SEGMENT_BYTES)
        self.now_ms = NOW_MS
        self.sent: dict[int, Sent] = {}
        self.aborted: set[int] = set()
        self.batch_of: dict[int, int] = {}
        self.horizon_ms: dict[int, int] = {}
        keys = self.rng.choice([2, 5, 30])
        self.keys = [b"key-%d" % number for number in range(keys)]
        self.producers = [
            Producer(number + 1, is_transactional=number % 2 == 1)
            for number in range(self.rng.choice([0, 2, 4]))
        ]

    def write(self, batch_count: int) -> None:
        """Append batches, rolling now and then."""
        for _ in range(batch_count):
            producer = self.rng.choice([None, None, *self.producers])
            if producer is not None and producer.open_offsets and self.rng.random() < 0.3:
                self.end(producer, commit=self.rng.random() < 0.5)
            else:
                self.append(producer)
            self.now_ms += self.rng.choice([0, 1, 10])
            if self.rng.random() < 0.2:
                self.log.roll(self.now_ms)

    def append(self, producer: Producer | None = None, *rows: tuple[bytes, bytes | None]) -> None:
        """Append a batch, of random records if none are given."""
        rng = self.rng
        made = list(rows) or [self._row() for _ in range(rng.choice([1, 1, 2, 5, 40]))]
        fields = {
            "producer_id": producer.producer_id if producer else -1,
            "producer_epoch": 0 if producer else -1,
            "base_sequence": producer.next_sequence if producer else -1,
            "is_transactional": bool(producer and producer.is_transactional),
        }
        stamped = [
            (self.now_ms + rng.randint(-50, 50), key, value, (("h", b"x"),) if value else ())
            for key, value in made
        ]
        encoded = encode_batch(stamped, codec=rng.choice(CODECS), **fields)  # type: ignore[arg-type]
        base_offset = store(self.log, encoded)
        for index, (timestamp_ms, key, value, headers) in enumerate(stamped):
            record = Record(base_offset + index, timestamp_ms, key, value, headers)  # type: ignore[arg-type]
            is_transactional = bool(producer and producer.is_transactional)
            self.batch_of[record.offset] = base_offset
            self.sent[record.offset] = Sent(record, fields["producer_id"], is_transactional)
        if producer is not None:
            producer.next_sequence += len(made)
            producer.last_batch = bytes(encoded)
            if producer.is_transactional:
                producer.open_offsets += range(base_offset, base_offset + len(made))

    def end(self, producer: Producer, *, commit: bool) -> None:
        """Append a marker."""
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        store(
            self.log,
            encode_marker_batch(
                EndMarker(kind, 0),
                producer_id=producer.producer_id,
                producer_epoch=0,
                timestamp_ms=self.now_ms,
            ),
        )
        if not commit:
            self.aborted.update(producer.open_offsets)
        producer.open_offsets = []

    @property
    def stable_offset(self) -> int:
        """End of the committed records."""
        unstable = self.log.producers.transactions.first_unstable_offset
        return self.log.log_end_offset if unstable is None else unstable

    def part(self, lags: Lags = Lags(0, dirty_ratio=0.0)) -> Cleanable:  # noqa: B008 - a tuple
        """The batches that may be compacted now."""
        self.log.producers.transactions.note_high_watermark(self.log.log_end_offset)
        return cleanable(self.log, lags, limit_offset=self.stable_offset, now_ms=self.now_ms)

    def round(self, buffer_bytes: int = BUFFER_BYTES) -> CleaningRound:
        """Start a round."""
        horizon = Horizon(self.now_ms, RETENTION_MS)
        return CleaningRound(self.log, self.part(), RoundSettings(buffer_bytes, horizon))

    def clean(self, buffer_bytes: int = BUFFER_BYTES) -> RoundSummary:
        """Run a round to its end; check the retained records, and those seen between two slices."""
        before = visible(self.log)
        end = self.log.log_end_offset
        part = self.part()
        cleaning = self.round(buffer_bytes)
        seen = [visible(self.log) for _ in cleaning.run()]
        end_offset = cleaning.summary.end_offset
        expected = self.expected(before, end_offset)
        assert self.decided(visible(self.log), end_offset) == expected
        for records in seen:
            assert set(expected) <= set(records) <= set(before)
        assert end_offset <= part.end_offset
        assert self.log.log_end_offset == end
        assert self.log.size_bytes == sum(it.size_bytes for it in self.log.segments)
        self.check_producers()
        return cleaning.summary

    def decided(self, records: list[Record], end_offset: int) -> list[Record]:
        """Leave out aborted records at or beyond a round's end: they may go with their segment."""
        aborted = self.aborted
        return [it for it in records if it.offset < end_offset or it.offset not in aborted]

    def expected(self, before: list[Record], end_offset: int) -> list[Record]:
        """The records that a round must keep.

        Args:
            before: Records of the log before the round.
            end_offset: Offset at which the round ended.

        Returns:
            Records in order.
        """
        newest = {
            it.record.key: offset
            for offset, it in self.sent.items()
            if offset < end_offset and offset not in self.aborted
        }
        left = []
        for record in self.decided(before, end_offset):
            offset = record.offset
            assert record == self.sent[offset].record
            if offset >= end_offset or newest.get(record.key) == offset:
                left.append(record)
        for record in [it for it in left if it.value is None]:
            batch = self.batch_of[record.offset]
            is_over = self.horizon_ms.get(batch, self.now_ms + 1) <= self.now_ms
            if is_over and record.offset < end_offset:
                left.remove(record)
            elif batch < end_offset:
                self.horizon_ms.setdefault(batch, self.now_ms + RETENTION_MS)
        return left

    def check_producers(self, log: PartitionLog | None = None) -> None:
        """The next batch of each producer is accepted, one that leaves a gap is not.

        Its last batch is a duplicate.

        Args:
            log: Another one that was loaded from the same files.
        """
        states = (log or self.log).producers
        for producer in (it for it in self.producers if it.next_sequence):
            assert states.duplicate_of(next(read_batches(producer.last_batch))) is not None
            for gap in (0, 3):
                fields = {
                    "producer_id": producer.producer_id,
                    "producer_epoch": 0,
                    "base_sequence": producer.next_sequence + gap,
                    "is_transactional": producer.is_transactional,
                }
                rows = [(self.now_ms, b"k", b"v", ())]
                batch = next(read_batches(encode_batch(rows, **fields)))  # type: ignore[arg-type]
                code, _ = states.check(batch)
                assert (code != 0) == (gap > 0)

    def _row(self) -> tuple[bytes, bytes | None]:
        rng = self.rng
        value = None if rng.random() < 0.2 else rng.randbytes(rng.choice([0, 5, 100]))
        return rng.choice(self.keys), value


def store(log: PartitionLog, encoded: bytes | bytearray) -> int:
    """Append a batch as a partition does."""
    view = memoryview(bytearray(encoded))
    batch = next(read_batches(view, check_crc=False))
    base_offset = log.append(batch, view, leader_epoch=0)
    ended = log.producers.remember(batch, base_offset)
    if ended is not None:
        log.note_ended(ended)
    return base_offset


def visible(log: PartitionLog) -> list[Record]:
    """All records but markers; their offsets rise, batches do not overlap, checksums are right."""
    records: list[Record] = []
    next_offset = 0
    for batch in batches(log):
        assert batch.base_offset >= next_offset
        next_offset = batch.last_offset + 1
        if not batch.is_control:
            records += batch
    offsets = [it.offset for it in records]
    assert offsets == sorted(set(offsets))
    return records


def batches(log: PartitionLog) -> Iterator[RecordBatch]:
    """All batches, each checked."""
    for batch in log.batches():
        yield next(read_batches(bytes(batch.view), check_crc=True))
