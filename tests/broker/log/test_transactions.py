"""Transactions in a partition's log: the last stable offset, aborted records, markers."""

import operator
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprod.broker.log.open_transactions import OpenTransactions
from kprod.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from kprod.broker.partition_transactions import append_marker, last_stable_offset
from kprod.broker.rejection import RejectedByLog
from kprod.errors import CorruptRecord
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import ControlType, EndMarker
from kprod.record.reader import read_batches
from tests.broker.world import TIMESTAMP_MS, World, batch, part

if TYPE_CHECKING:
    from kprod.broker.replication import Partition

COMMITTED = 1


class Scene:
    """A world whose partition takes transactional batches and markers at the log's face."""

    def __init__(self) -> None:
        """Make a world with three brokers."""
        self.world = World()
        self.partition: Partition = self.world.cluster.call(
            lambda: self.world.cluster._kprod.engine.partition("orders", 0)
        )
        self.client = self.world.client()
        self.sequences: dict[int, int] = {}

    def write(self, producer_id: int, count: int = 1, *, is_transactional: bool = True) -> None:
        """Append a batch, as if a client had sent it."""
        sequence = self.sequences.get(producer_id, 0)
        encoded = batch(
            count,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self.sequences[producer_id] = sequence + count
        self.append(encoded)

    def append(self, encoded: bytes) -> None:
        """Append a batch at the log's face."""
        view = memoryview(bytearray(encoded))
        self.partition.append(next(read_batches(view)), view, TIMESTAMP_MS, acks=1)

    def end(self, producer_id: int, *, commit: bool, coordinator_epoch: int = 0) -> None:
        """Append a marker."""
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        append_marker(
            self.partition,
            EndMarker(kind, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=TIMESTAMP_MS,
        )

    def fetched(self, offset: int, level: int = COMMITTED, **fields: int) -> dict[str, Any]:
        """Fetch with an isolation level."""
        entry = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        body = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "isolation_level": level,
            **fields,
            "topics": [{"topic": "orders", "partitions": [entry]}],
        }
        return part(self.client.ask(ApiKey.FETCH, 12, body))

    def offset(self, timestamp: int, level: int = COMMITTED) -> int:
        """Ask ListOffsets with an isolation level."""
        entry = {"partition_index": 0, "timestamp": timestamp}
        topics = [{"name": "orders", "partitions": [entry]}]
        body = {"isolation_level": level, "topics": topics}
        (topic,) = self.client.ask(ApiKey.LIST_OFFSETS, 7, body)["topics"]
        return int(topic["partitions"][0]["offset"])


def test_readers_of_committed_records_stop_at_an_open_transaction() -> None:
    """Others do not; and both get the same last stable offset."""
    scene = Scene()
    scene.write(1)
    scene.end(1, commit=True)
    scene.write(2, 3)
    scene.write(1)

    committed, uncommitted = scene.fetched(0), scene.fetched(0, 0)

    assert [it.base_offset for it in read_batches(committed["records"])] == [0, 1]
    assert [it.base_offset for it in read_batches(uncommitted["records"])] == [0, 1, 2, 5]
    assert committed["last_stable_offset"] == uncommitted["last_stable_offset"] == 2
    assert uncommitted["aborted_transactions"] is None
    assert (scene.offset(-1), scene.offset(-1, 0)) == (2, 6)
    assert (scene.offset(TIMESTAMP_MS), scene.offset(-3)) == (0, 0)


def test_a_time_is_not_told_before_its_record_is_committed() -> None:
    """By time and by the largest timestamp alike, as in Kafka."""
    scene = Scene()
    scene.write(1)

    assert (scene.offset(TIMESTAMP_MS), scene.offset(-3)) == (-1, -1)
    assert (scene.offset(TIMESTAMP_MS, 0), scene.offset(-3, 0)) == (0, 0)
    scene.end(1, commit=True)
    assert (scene.offset(TIMESTAMP_MS), scene.offset(-3)) == (0, 0)


def test_aborted_transactions_are_told_with_their_records() -> None:
    """Those whose records are in the response, not others."""
    scene = Scene()
    scene.write(1)
    scene.write(2)
    scene.end(2, commit=False)
    scene.end(1, commit=True)
    scene.write(1)
    scene.end(1, commit=False)

    first, second = ({"producer_id": 2, "first_offset": 1}, {"producer_id": 1, "first_offset": 4})
    assert scene.fetched(0)["aborted_transactions"] == [first, second]
    assert scene.fetched(3)["aborted_transactions"] == [second]
    assert scene.fetched(6)["aborted_transactions"] == []


def test_a_waiting_fetch_is_answered_when_a_transaction_ends() -> None:
    """Its bytes do not count before."""
    scene = Scene()
    scene.write(1)
    entry = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    body = {
        "max_wait_ms": 60_000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "isolation_level": COMMITTED,
        "topics": [{"topic": "orders", "partitions": [entry]}],
    }
    scene.client.send(ApiKey.FETCH, 12, body)

    assert not scene.client.answers()
    scene.end(1, commit=True)
    scene.world.step()
    (answer,) = scene.client.answers().values()
    assert len(list(read_batches(part(answer)["records"]))) == 2


def test_a_marker_above_the_high_watermark_keeps_its_transaction_unstable() -> None:
    """It may still be lost, and with it the transaction's end."""
    scene = Scene()
    scene.write(1)
    scene.world.cluster.set_follower_lag("orders", 0, 1, None)
    scene.end(1, commit=True)

    assert (scene.partition.high_watermark, last_stable_offset(scene.partition)) == (1, 0)
    scene.world.cluster.catch_up("orders", 0, 1)
    assert (scene.partition.high_watermark, last_stable_offset(scene.partition)) == (2, 2)


def test_truncation_within_a_transaction_opens_it_again() -> None:
    """State and offsets move together (KAFKA-12153), and the index forgets the marker."""
    scene = Scene()
    scene.write(1, 2)
    scene.end(1, commit=False)
    scene.world.cluster.truncate("orders", 0, 2)

    assert (scene.partition.high_watermark, last_stable_offset(scene.partition)) == (2, 0)
    assert scene.fetched(0)["aborted_transactions"] == []
    scene.end(1, commit=True)
    assert last_stable_offset(scene.partition) == 3
    assert scene.fetched(0)["aborted_transactions"] == []


def test_a_batch_outside_of_the_open_transaction_is_rejected() -> None:
    """As Kafka rejects it: INVALID_TXN_STATE, and nothing is written."""
    scene = Scene()
    scene.write(1)

    with pytest.raises(RejectedByLog) as caught:
        scene.write(1, is_transactional=False)

    assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    assert scene.partition.log.log_end_offset == 1


def test_a_stale_coordinator_is_fenced() -> None:
    """A marker of an older coordinator, and one of an older producer epoch, change nothing."""
    scene = Scene()
    scene.write(1)
    scene.end(1, commit=True, coordinator_epoch=4)
    scene.append(batch(producer_id=2, producer_epoch=3, base_sequence=0))

    with pytest.raises(RejectedByLog) as caught:
        scene.end(1, commit=False, coordinator_epoch=3)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(RejectedByLog) as caught:
        scene.end(2, commit=False, coordinator_epoch=3)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert scene.partition.log.log_end_offset == 3


def test_a_marker_without_a_transaction_is_written_and_ends_nothing() -> None:
    """A coordinator may write it twice after a crash of its own."""
    scene = Scene()
    scene.end(7, commit=False)

    assert scene.fetched(0)["aborted_transactions"] == []
    assert last_stable_offset(scene.partition) == 1


class Written(NamedTuple):
    """One entry of a history: whose, and a marker's kind or None for a batch."""

    producer_id: int
    commits: bool | None


HISTORIES = st.lists(
    st.builds(Written, st.integers(1, 3), st.sampled_from([None, None, True, False])), max_size=25
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(history=HISTORIES, offset=st.integers(0, 25), max_bytes=st.integers(1, 600))
def test_a_reader_passes_over_exactly_the_aborted_records(
    history: list[Written], offset: int, max_bytes: int
) -> None:
    """Read as a consumer does, with the told list; beside a scan of the whole history."""
    scene = Scene()
    outcomes: dict[int, bool | None] = {}  # by offset; None while the transaction is open
    open_offsets: dict[int, list[int]] = {}
    for at, it in enumerate(history):
        if it.commits is None:
            scene.write(it.producer_id)
            outcomes[at] = None
            open_offsets.setdefault(it.producer_id, []).append(at)
        else:
            scene.end(it.producer_id, commit=it.commits)
            for ended in open_offsets.pop(it.producer_id, []):
                outcomes[ended] = it.commits
    stable = min((it[0] for it in open_offsets.values()), default=len(history))

    assert last_stable_offset(scene.partition) == stable
    if offset > len(history):
        return
    told = scene.fetched(offset, max_bytes=max_bytes)
    batches = list(read_batches(told["records"]))
    seen = consumed(batches, told["aborted_transactions"])
    end = batches[-1].last_offset + 1 if batches else offset
    assert seen == [at for at in range(offset, end) if outcomes.get(at)]
    assert end <= stable or not batches


def consumed(batches: list[Any], aborted: list[dict[str, int]] | None) -> list[int]:
    """The offsets that a consumer of committed records sees, by KIP-98's rule."""
    waiting = sorted(aborted or [], key=operator.itemgetter("first_offset"))
    passed_over: set[int] = set()
    seen: list[int] = []
    for it in batches:
        while waiting and waiting[0]["first_offset"] <= it.last_offset:
            passed_over.add(waiting.pop(0)["producer_id"])
        if it.is_control:
            passed_over.discard(it.producer_id)
        elif it.producer_id not in passed_over:
            seen += range(it.base_offset, it.last_offset + 1)
    return seen


def test_the_index_file_is_kafkas() -> None:
    """Version, producer, first and last offset, last stable offset: 34 bytes."""
    index = TransactionIndex()
    index.append(AbortedTransaction(7, 10, 15, 12))
    index.append(AbortedTransaction(8, 12, 20, 21))

    content = index.encoded()

    assert content == struct.pack(">hqqqqhqqqq", 0, 7, 10, 15, 12, 0, 8, 12, 20, 21)
    assert list(TransactionIndex.decoded(content)) == list(index)


@pytest.mark.parametrize(
    "content",
    [
        bytes(33),
        struct.pack(">hqqqq", 1, 7, 10, 15, 12),
        struct.pack(">hqqqq", 0, 7, 16, 15, 12),
        struct.pack(">hqqqq", 0, 7, 10, 15, 12) * 2,
    ],
)
def test_a_malformed_index_file_is_rejected(content: bytes) -> None:
    """Cut off, another version, offsets that do not rise."""
    with pytest.raises(CorruptRecord, match="transaction index"):
        TransactionIndex.decoded(content)


def test_the_last_stable_offset_of_an_entry_is_the_next_open_transaction() -> None:
    """The next open transaction's start; without one, the offset after the marker."""
    transactions = OpenTransactions()
    transactions.begin(1, 3)
    transactions.begin(2, 5)

    first = transactions.end(1, 8, is_aborted=True)
    second = transactions.end(2, 9, is_aborted=True)

    assert first is not None
    assert second is not None
    assert (first.last_stable_offset, second.last_stable_offset) == (5, 10)
    assert transactions.first_unstable_offset == 3
    transactions.note_high_watermark(9)
    assert transactions.first_unstable_offset == 5
    transactions.note_high_watermark(10)
    assert transactions.first_unstable_offset is None
