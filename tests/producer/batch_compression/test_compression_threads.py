"""A producer whose batches are compressed by several threads, and what may happen meanwhile."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.compression import Buffer
from kprod.errors import (
    ClosedError,
    DeliveryTimeout,
    KprodError,
    Persistence,
    ProducerForked,
    Purged,
)
from tests.producer.batch_compression.codecs import (
    WAIT_S,
    Codecs,
    check_no_worker_is_left,
    is_worker,
)

ROOT = Path(__file__).parents[3]
TOPIC = "orders"
PARTITIONS = 4
CHILD_OK = 7


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers, one topic."""
    with EmbeddedCluster(brokers=2, topics={TOPIC: PARTITIONS}) as running:
        yield running


class _Stall:
    """Codecs that stop a compression beside the sender's until they are released."""

    def __init__(self) -> None:
        self.codecs = Codecs()
        self.codecs.on_call = self._wait
        self.entered, self.released = threading.Event(), threading.Event()

    def _wait(self, _: Buffer) -> None:
        if is_worker():
            self.entered.set()
            assert self.released.wait(WAIT_S)
        else:
            assert self.entered.wait(WAIT_S) or self.released.is_set()


@pytest.fixture
def stall() -> Iterator[_Stall]:
    """Is released at the end."""
    made = _Stall()
    yield made
    made.released.set()


def _producer(cluster: EmbeddedCluster, codecs: Codecs, **settings: Any) -> kprod.Producer:
    return kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        environment=codecs.environment(),
        **{"compression_type": "gzip", "compression_threads": 2, "linger_ms": 60_000, **settings},
    )


def _send_all(producer: kprod.Producer) -> list[kprod.RecordFuture]:
    return [producer.send(TOPIC, b"%d" % index, partition=index) for index in range(PARTITIONS)]


def _stalled(producer: kprod.Producer, stall: _Stall) -> list[kprod.RecordFuture]:
    """Send a record to each partition; returns when one of them is being compressed."""
    futures = _send_all(producer)
    producer.flush(0)
    assert stall.entered.wait(WAIT_S)
    return futures


def _values(cluster: EmbeddedCluster) -> list[bytes]:
    return sorted(
        record.value or b"" for records in cluster.records(TOPIC).values() for record in records
    )


def _check_over(producer: kprod.Producer) -> None:
    """Closed, with all its memory and without a thread."""
    assert producer._kprod.thread.has_ended
    assert producer._kprod.pool.available_bytes == producer._kprod.pool.capacity_bytes
    check_no_worker_is_left()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_everything_arrives_once_and_in_order(
    cluster: EmbeddedCluster, codec: str, threads: int
) -> None:
    """Batches are full in each partition's queue, so that they are compressed ahead of time."""
    codecs, count = Codecs(), 2_000
    with _producer(
        cluster, codecs, compression_type=codec, compression_threads=threads, batch_size=500
    ) as producer:
        futures = [
            producer.send(TOPIC, b"%06d" % index, partition=index % PARTITIONS)
            for index in range(count)
        ]
        assert producer.flush(WAIT_S) == 0
        batches = producer.metrics()["producer-metrics"]["batch-send-total"]
    assert len(codecs.calls) == batches > count / 40  # each batch once
    assert threads > 1 or not codecs.workers
    for partition, records in cluster.records(TOPIC).items():
        expected = [b"%06d" % index for index in range(partition, count, PARTITIONS)]
        assert [record.value for record in records] == expected
    assert [future.result(0).partition for future in futures[:PARTITIONS]] == [0, 1, 2, 3]
    _check_over(producer)


def test_batches_of_one_partition_are_compressed_at_once(cluster: EmbeddedCluster) -> None:
    """Those that follow it and are full, while they wait for their turn."""
    codecs, together = Codecs(), threading.Barrier(3)
    entered, released = threading.Event(), threading.Event()

    def hold_up(*_: object) -> None:
        entered.set()
        released.wait(WAIT_S)

    def meet(_: Buffer) -> None:
        if len(codecs.calls) <= 1 + 3:  # the first and three together; then the last one
            together.wait(WAIT_S)

    with _producer(cluster, codecs, compression_threads=3, batch_size=100) as producer:
        producer.send(TOPIC, b"first", partition=0, on_delivery=hold_up)
        producer.flush(0)
        assert entered.wait(WAIT_S)
        codecs.on_call = meet
        for _ in range(4):
            producer.send(TOPIC, b"v" * 90, partition=0)
        released.set()
        assert producer.flush(WAIT_S) == 0
    assert len(codecs.workers) == 2
    assert len(cluster.records(TOPIC)[0]) == 5


def test_a_batch_that_cannot_be_compressed_fails_alone(cluster: EmbeddedCluster) -> None:
    """Whatever thread has met it; those after it in its partition follow."""
    codecs = Codecs()

    def fail(plain: Buffer) -> None:
        if b"faulty" in bytes(plain):
            raise MemoryError("planted")

    codecs.on_call = fail
    with _producer(cluster, codecs, compression_threads=3, batch_size=100) as producer:
        futures = [
            producer.send(TOPIC, b"%d faulty" % index if index == 5 else b"%d" % index, partition=0)
            for index in range(10)
            for _ in range(4)  # a few batches
        ]
        producer.flush(WAIT_S)
        errors = [future.exception(WAIT_S) for future in futures]
    failed = [index for index, error in enumerate(errors) if error is not None]
    assert set(range(20, 24)) <= set(failed)
    assert all("planted" in str(errors[index]) for index in range(20, 24))
    assert all(errors[index].persistence is Persistence.NOT_PERSISTED for index in failed)  # type: ignore[union-attr]
    values = [record.value for record in cluster.records(TOPIC)[0]]
    assert values == [b"%d" % (index // 4) for index in range(40) if index not in failed]
    _check_over(producer)


def test_close_in_time_while_a_thread_compresses(cluster: EmbeddedCluster, stall: _Stall) -> None:
    """It returns; the records end with the sender, and no thread is left."""
    producer = _producer(cluster, stall.codecs)
    futures = _stalled(producer, stall)
    assert producer.close(0.05) == PARTITIONS
    assert not any(future.done() for future in futures)
    stall.released.set()
    assert producer._kprod.thread.wait_ended(WAIT_S)
    for future in futures:
        error = future.exception(0)
        assert error is None or isinstance(error, ClosedError)
    _check_over(producer)


def test_close_waits_for_a_thread_that_compresses(cluster: EmbeddedCluster, stall: _Stall) -> None:
    """Without a limit everything is delivered."""
    producer = _producer(cluster, stall.codecs)
    futures = _stalled(producer, stall)
    counts: list[int] = []
    closing = threading.Thread(target=lambda: counts.append(producer.close()))
    closing.start()
    while producer._kprod.is_open:
        threading.Event().wait(0.001)
    assert not any(future.done() for future in futures)
    stall.released.set()
    closing.join(WAIT_S)
    assert counts == [0]
    assert [future.exception(0) for future in futures] == [None] * PARTITIONS
    assert _values(cluster) == [b"0", b"1", b"2", b"3"]
    _check_over(producer)


def test_purge_while_a_thread_compresses(cluster: EmbeddedCluster, stall: _Stall) -> None:
    """It comes after the round: batches in no request are purged, and nothing twice."""
    producer = _producer(cluster, stall.codecs)
    futures = _stalled(producer, stall)
    later = [producer.send(TOPIC, b"later", partition=index) for index in range(PARTITIONS)]
    counts: list[int] = []
    purging = threading.Thread(target=lambda: counts.append(producer.purge()))
    purging.start()
    assert not any(future.done() for future in futures + later)
    stall.released.set()
    purging.join(WAIT_S)
    errors = [future.exception(WAIT_S) for future in futures + later]
    assert sum(isinstance(error, Purged) for error in errors) == counts[0] > 0
    assert producer.flush(WAIT_S) == 0
    for value, error in zip([b"0", b"1", b"2", b"3", *[b"later"] * 4], errors, strict=True):
        if error is None:
            assert value in _values(cluster)
        elif error.persistence is Persistence.NOT_PERSISTED:
            assert _values(cluster).count(value) <= (3 if value == b"later" else 0)
    producer.close()
    _check_over(producer)


def test_a_deadline_passes_while_a_thread_compresses(
    cluster: EmbeddedCluster, stall: _Stall
) -> None:
    """Each record has one outcome, and the log agrees."""
    producer = _producer(
        cluster, stall.codecs, linger_ms=50, request_timeout_ms=100, delivery_timeout_ms=150
    )
    futures = _stalled(producer, stall)
    threading.Event().wait(0.3)  # past the deadline
    stall.released.set()
    errors = [future.exception(WAIT_S) for future in futures]
    producer.close()
    values = _values(cluster)
    for index, error in enumerate(errors):
        assert error is None or isinstance(error, DeliveryTimeout)
        if error is None:
            assert values.count(b"%d" % index) == 1
        elif error.persistence is Persistence.NOT_PERSISTED:
            assert b"%d" % index not in values
    _check_over(producer)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_thread_compresses(cluster: EmbeddedCluster, stall: _Stall) -> None:
    """The child's producer raises, and its process ends; the parent delivers."""
    producer = _producer(cluster, stall.codecs)
    futures = _stalled(producer, stall)
    pid = os.fork()
    if not pid:
        signal.alarm(int(WAIT_S))
        code = 1
        try:
            producer.send(TOPIC, b"child")
        except ProducerForked:
            outcomes = [future.exception(0) for future in futures]
            is_right = all(isinstance(error, ProducerForked) for error in outcomes)
            code = CHILD_OK if is_right and producer.close(1) == 0 else 2
        finally:
            os._exit(code)
    stall.released.set()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CHILD_OK
    assert producer.flush(WAIT_S) == 0
    assert [future.exception(0) for future in futures] == [None] * PARTITIONS
    assert _values(cluster) == [b"0", b"1", b"2", b"3"]
    producer.close()
    _check_over(producer)


def test_a_child_in_which_only_a_compressing_thread_is_left_ends(
    cluster: EmbeddedCluster, stall: _Stall
) -> None:
    """A finalizer there may fork and return: the thread is all that the child's process has."""
    children: list[int] = []

    def fork_once(_: Buffer) -> None:
        if is_worker() and not children:
            pid = os.fork()
            if pid:
                children.append(pid)
            else:
                signal.alarm(int(WAIT_S))  # a child that hangs is a failure
        while not is_worker() and not children:
            threading.Event().wait(0.001)

    stall.codecs.on_call = fork_once
    _check_child_ends(cluster, stall, children)


def test_a_child_in_which_only_the_sender_is_left_ends(
    cluster: EmbeddedCluster, stall: _Stall
) -> None:
    """It does not wait for a thread at work that the child's process does not have."""
    children: list[int] = []
    entered, released = threading.Event(), threading.Event()

    def fork_once(_: Buffer) -> None:
        if is_worker():
            entered.set()
            released.wait(WAIT_S)
        elif not released.is_set():
            assert entered.wait(WAIT_S)
            pid = os.fork()
            released.set()
            if pid:
                children.append(pid)
            else:
                signal.alarm(int(WAIT_S))  # a child that hangs is a failure

    stall.codecs.on_call = fork_once
    _check_child_ends(cluster, stall, children)


def _check_child_ends(cluster: EmbeddedCluster, stall: _Stall, children: list[int]) -> None:
    """Send to all partitions; the process that a codec has forked ends, and all is delivered."""
    producer = _producer(cluster, stall.codecs)
    futures = _send_all(producer)
    assert producer.flush(WAIT_S) == 0
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    assert [future.exception(0) for future in futures] == [None] * PARTITIONS
    producer.close()
    _check_over(producer)


_FORGETFUL = """
import sys, kprod
producer = kprod.Producer(
    bootstrap_servers=sys.argv[1], compression_type="gzip", compression_threads=3,
    batch_size=150_000, linger_ms=60_000,
)
for index in range(4_000):
    producer.send("orders", b"%0500d" % index, partition=index % 4)
"""


def test_the_interpreter_s_end_delivers_what_is_left(cluster: EmbeddedCluster) -> None:
    """Nobody closes the producer, and at the end of the interpreter no thread can be started."""
    done = subprocess.run(
        [sys.executable, "-c", _FORGETFUL, cluster.bootstrap_servers],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(_values(cluster)) == 4_000


def test_a_purge_by_a_finalizer_there_is_rejected(cluster: EmbeddedCluster) -> None:
    """The sender waits for that thread, and it would wait for the sender."""
    codecs = Codecs()
    raised: list[BaseException] = []
    begun = threading.Event()

    class Finalized:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            for call in (producer.purge, futures[0].result, producer.flush):
                try:
                    call()
                except BaseException as error:  # noqa: BLE001 - the test looks at it
                    raised.append(error)

    def collect(_: Buffer) -> None:
        if is_worker() and not begun.is_set():
            Finalized()
            gc.collect()
            begun.set()
        assert begun.wait(WAIT_S)

    codecs.on_call = collect
    with _producer(cluster, codecs) as producer:
        futures = _send_all(producer)
        assert producer.flush(WAIT_S) == 0
    assert [type(error) for error in raised] == [KprodError] * 3
    assert all("would wait for itself" in str(error) for error in raised)
    assert _values(cluster) == [b"0", b"1", b"2", b"3"]


def test_memory_that_is_short_before_the_codec_fails_the_batches_alone(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender continues, and later records are delivered."""
    with _producer(cluster, Codecs()) as producer:
        compressor = producer._kprod.sender.compressor
        assert compressor is not None

        def fail(_: object) -> None:
            monkeypatch.undo()
            raise MemoryError("planted")

        monkeypatch.setattr(type(compressor), "pack", lambda _, batches: fail(batches))
        first = producer.send(TOPIC, b"first", partition=0)
        producer.flush(WAIT_S)
        assert "planted" in str(first.exception(0))
        second = producer.send(TOPIC, b"second", partition=0)
        assert producer.flush(WAIT_S) == 0
        assert second.exception(0) is None
    assert _values(cluster) == [b"second"]
