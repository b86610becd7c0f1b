"""Measures the cost of one `send` for its caller; instead of the sender, a drain discards records.

Beside it an empty method call, which is the floor of what a call from Python can cost, and
confluent-kafka's `produce`, which fills librdkafka's queue; that is purged between rounds. Its
broker is librdkafka's own mock, so that the topic is known and partitions are chosen.

The figure is CPU time of the calling thread, so that a busy machine does not count as a slow call.

100-byte values, with and without a key of 16 bytes. kprod makes a future for each record; it is
dropped at once, or all of a batch's worth are kept.

Thread-safety: one thread, the caller's.
"""

import functools
import gc
import itertools
import time
from collections import deque
from collections.abc import Callable

import confluent_kafka
from report import Contestant, Report, main
from report_values import Metric

from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod._core.send.send_hooks import SendHooks
from kprod._core.send.send_path import SendMethod, SendPath
from kprod.clock import SystemClock
from kprod.producer.send_rules import SendRules

CALLS = 1_000_000  # a round; five rounds are the five million
CALLS_QUICK = 200_000
VALUE = b"v" * 100
KEY = b"k" * 16
PARTITION_COUNT = 6
BATCH_SIZE = 1_000_000


class _Batch:
    """A queue's contents."""

    __slots__ = ("builder", "result")

    def __init__(self, queue: PartitionAppender, chain: ChunkChain) -> None:
        self.builder = BatchBuilder(chain, BATCH_SIZE)
        self.result = BatchResult(queue.topic, queue.partition)


class DiscardingPath(SendPath, SendHooks):
    """A send path whose full batches give their memory back unsent."""

    def __init__(self) -> None:
        queues = [PartitionAppender("bench", partition) for partition in range(PARTITION_COUNT)]
        rules = SendRules(max_block_ms=0, record_bytes_max=1 << 20)
        pool = ChunkPool(64 << 20)
        topics = {"bench": TopicRoutes("bench", queues)}
        super().__init__(self, pool, SystemClock(), deque(), topics, rules)
        self.send = SendMethod(self, None).send

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        """Discard the full batch, then begin another."""
        self.inbox.clear()
        while queue.batches:
            batch = queue.batches.popleft()
            batch.result.complete(0)
            batch.builder.chain.release()
        return _Batch(queue, chain)

    def roll_sticky(self, head: TopicRoutes) -> None:
        """Go to the next partition."""
        head.sticky = (head.sticky + 1) % PARTITION_COUNT

    def check_signals(self) -> None:
        """Do nothing; a bulk send asks for it."""

    def nothing(self, topic: str, value: bytes) -> None:
        """Cost what a call costs."""


def _thread_cost_ns(prepare: Callable[[], Callable[[], int]]) -> Callable[[], float]:
    def measure() -> float:
        work = prepare()
        gc.collect()  # garbage of the contestant before is not ours to pay for
        started_ns = time.thread_time_ns()
        count = work()
        return (time.thread_time_ns() - started_ns) / count

    return measure


def _keeping(call: Callable[[], object], count: int) -> Callable[[], int]:
    def work() -> int:
        kept: deque[object] = deque(maxlen=100_000)
        keep = kept.append
        for _ in itertools.repeat(None, count):
            keep(call())
        return count

    return work


def _empty(count: int) -> Callable[[], int]:
    path = DiscardingPath()

    def work() -> int:
        nothing = path.nothing
        for _ in itertools.repeat(None, count):
            nothing("bench", VALUE)
        return count

    return work


def _kprod(key: bytes | None, count: int) -> Callable[[], int]:
    send = DiscardingPath().send

    def work() -> int:
        if key is None:
            for _ in itertools.repeat(None, count):
                send("bench", VALUE)
        else:
            for _ in itertools.repeat(None, count):
                send("bench", VALUE, key)
        return count

    return work


def _kprod_keeping(count: int) -> Callable[[], int]:
    return _keeping(functools.partial(DiscardingPath().send, "bench", VALUE), count)


def _confluent(
    producer: confluent_kafka.Producer, key: bytes | None, count: int
) -> Callable[[], int]:
    producer.purge()
    producer.poll(0)
    produce = producer.produce

    def work() -> int:
        if key is None:
            for _ in itertools.repeat(None, count):
                produce("bench", VALUE)
        else:
            for _ in itertools.repeat(None, count):
                produce("bench", VALUE, key)
        return count

    return work


def benchmark(report: Report) -> None:
    """Compare calls without and with a key."""
    count = report.pick(CALLS, CALLS_QUICK)
    peer = confluent_kafka.Producer(
        {
            "test.mock.num.brokers": 1,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "log_level": 0,
            "delivery.report.only.error": True,
        }
    )
    peer.produce("bench", VALUE)
    peer.flush(30)
    for name, key in (("no key", None), ("key of 16 bytes", KEY)):
        contestants = [
            Contestant("empty call", _thread_cost_ns(functools.partial(_empty, count))),
            Contestant("kprod", _thread_cost_ns(functools.partial(_kprod, key, count))),
            Contestant(
                "confluent-kafka", _thread_cost_ns(functools.partial(_confluent, peer, key, count))
            ),
        ]
        if key is None:
            contestants.append(
                Contestant(
                    "kprod, futures kept", _thread_cost_ns(functools.partial(_kprod_keeping, count))
                )
            )
        metric = Metric(f"one call, {name}", "ns")
        report.compare(contestants, metric=metric, baseline="confluent-kafka", rounds=5)
    peer.purge()


if __name__ == "__main__":
    main("One send of 100 bytes, the sender replaced by a drain that discards", benchmark)
