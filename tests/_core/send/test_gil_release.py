"""Sends release the GIL while a codec works, and a record is never half there meanwhile."""

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

import kprod.producer.future  # registers what futures need of the layers above
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod.clock import ManualClock
from kprod.producer.send_rules import SendRules
from tests._core.plain_path import PlainPath
from tests.gil_rival import HAS_GIL, rival
from tests.oracle import record_v2

if TYPE_CHECKING:
    from kprod._core.outcome.record_future import RecordFuture

assert kprod.producer.future is not None


class _Batch:
    """A queue's contents: builder and result."""

    def __init__(self, queue: PartitionAppender, chain: ChunkChain) -> None:
        self.builder = BatchBuilder(chain, 1 << 20)
        self.result = BatchResult(queue.topic, queue.partition)


class _Path(PlainPath):
    """A send path with one partition, whose batches stay."""

    def __init__(self) -> None:
        self.queue = PartitionAppender("orders", 0)
        topics = {"orders": TopicRoutes("orders", [self.queue])}
        rules = SendRules(max_block_ms=0, record_bytes_max=1 << 16)
        super().__init__(ChunkPool(64 << 20), ManualClock(), rules, topics)

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        return _Batch(queue, chain)

    def values(self) -> list[bytes | None]:
        """Acknowledge all batches; return the values in the order of their offsets."""
        values: list[bytes | None] = []
        self.queue.seal()
        while self.queue.batches:
            batch = self.queue.batches.popleft()
            batch.result.complete(len(values))
            (decoded,) = record_v2.decode_batches(b"".join(batch.builder.close()))
            values += [record.value for record in decoded.records]
            batch.builder.chain.release()
        return values


@pytest.mark.skipif(not HAS_GIL, reason="no GIL")
def test_another_thread_gets_the_gil_while_a_codec_works() -> None:
    """CPython does not take it from the sending thread meanwhile."""
    path = _Path()
    path.sender_compresses = True
    wrong: Any = 5  # it is rejected, and takes no memory
    with rival() as taken:
        while not taken:  # a release is an offer, which the other thread may miss
            with contextlib.suppress(TypeError):
                path.send("orders", wrong)
        assert taken


def test_records_of_two_threads_are_whole_and_in_order() -> None:
    """Each thread's records keep their order, and each future has its own record's offset."""
    path, both, count = _Path(), threading.Barrier(2), 20_000
    path.sender_compresses = True
    sent: list[list[tuple[bytes, RecordFuture]]] = [[], []]

    def send(number: int) -> None:
        values = [b"%d:%d" % (number, index) for index in range(count)]
        both.wait()
        sent[number] += [(value, path.send("orders", value)) for value in values]

    threads = [threading.Thread(target=send, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = path.values()
    for records in sent:
        offsets = [future.result(0).offset for _, future in records]
        assert [values[offset] for offset in offsets] == [value for value, _ in records]
        assert offsets == sorted(offsets)
    assert len(values) == 2 * count
