"""A partition as plain lists: the records sent to it, and the log with Kafka's rules for sequences.

Slow and literal. It knows nothing of queues, indices or chunks: it is told of each accepted send,
is given the batches that arrive, and afterwards compares.
"""

from dataclasses import dataclass, field

from tests.oracle import record_v2

NONE = 0
OUT_OF_ORDER_SEQUENCE = 45
DUPLICATE_SEQUENCE = 46
STALE_EPOCH = 47
REMEMBERED_BATCHES = 5
SEQUENCE_COUNT = 1 << 31


@dataclass
class Appended:
    """A batch that the log remembers."""

    first: int
    last: int
    base_offset: int


@dataclass
class PartitionModel:
    """One partition.

    Attributes:
        sent: Values in the order in which `send` accepted them.
        outcomes: Per value, how often and in which order it was settled: "ok" with its offset, or
            the error's persistence.
        log: Values by offset.
    """

    sent: list[bytes] = field(default_factory=list)
    outcomes: list[tuple[bytes, object]] = field(default_factory=list)
    log: list[bytes] = field(default_factory=list)
    epoch: int = -1
    remembered: list[Appended] = field(default_factory=list)
    is_ordered: bool = True

    def append(self, batch: bytes) -> tuple[int, int]:
        """Append a batch as a leader would; return error code and base offset."""
        (decoded,) = record_v2.decode_batches(batch)
        first = decoded.base_sequence
        if first >= 0:
            code, offset = self._check(decoded)
            if code != NONE:
                return code, offset
        base_offset = len(self.log)
        self.log += [record.value or b"" for record in decoded.records]
        if first >= 0:
            if decoded.producer_epoch != self.epoch:
                self.remembered = []
            self.epoch = decoded.producer_epoch
            last = (first + len(decoded.records) - 1) % SEQUENCE_COUNT
            self.remembered.append(Appended(first, last, base_offset))
            del self.remembered[:-REMEMBERED_BATCHES]
        return NONE, base_offset

    def _check(self, batch: record_v2.DecodedBatch) -> tuple[int, int]:
        first = batch.base_sequence
        last = (first + len(batch.records) - 1) % SEQUENCE_COUNT
        if self.epoch == -1:
            return NONE, -1
        if batch.producer_epoch < self.epoch:
            return STALE_EPOCH, -1
        if batch.producer_epoch > self.epoch:
            return (NONE if first == 0 else OUT_OF_ORDER_SEQUENCE), -1
        for known in self.remembered:
            if (known.first, known.last) == (first, last):
                return DUPLICATE_SEQUENCE, known.base_offset
        wanted = (self.remembered[-1].last + 1) % SEQUENCE_COUNT
        return (NONE if first == wanted else OUT_OF_ORDER_SEQUENCE), -1

    def check_so_far(self) -> None:
        """No record twice in the log, none out of order, no outcome twice or out of order."""
        position = {value: index for index, value in enumerate(self.sent)}
        in_log = [position[value] for value in self.log]
        assert in_log == sorted(set(in_log)), "the log is the send order, without some"
        settled = [position[value] for value, _ in self.outcomes]
        assert len(settled) == len(set(settled)), "outcomes come once"
        assert not self.is_ordered or settled == sorted(settled), "outcomes come in send order"

    def check_at_the_end(self) -> None:
        """Every record has one outcome, and it is true."""
        self.check_so_far()
        assert sorted(value for value, _ in self.outcomes) == sorted(self.sent)
        for value, outcome in self.outcomes:
            if outcome == "NOT_PERSISTED":
                assert value not in self.log
            elif isinstance(outcome, int) and outcome >= 0:
                assert self.log[outcome] == value
            elif isinstance(outcome, int):
                assert value in self.log
