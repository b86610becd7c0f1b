"""Batches are compressed by several threads; whatever these meet, no batch is left out."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod.compression import Buffer
from kprod.model import Codec
from kprod.producer.batch import ProducerBatch
from kprod.producer.batch_compression import parallel_compressor
from kprod.producer.batch_compression.parallel_compressor import (
    ParallelCompressor,
    default_thread_count,
)
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.topic_queues import TopicQueues
from kprod.threads import start_thread
from tests.oracle import record_v2
from tests.producer.batch_compression.codecs import (
    WAIT_S,
    Codecs,
    check_no_worker_is_left,
    is_worker,
    worker_threads,
)

FAULT = "planted"


@pytest.fixture
def codecs() -> Codecs:
    """Codecs that note their calls."""
    return Codecs()


@pytest.fixture
def make(codecs: Codecs) -> Iterator[Callable[..., ParallelCompressor]]:
    """Makes compressors, and closes them."""
    made: list[ParallelCompressor] = []

    def make(
        thread_count: int, start: Callable[..., Any] = start_thread, shared_bytes_min: int = 0
    ) -> ParallelCompressor:
        compressor = ParallelCompressor(
            codecs, start, thread_count=thread_count, shared_bytes_min=shared_bytes_min
        )
        made.append(compressor)
        return compressor

    yield make
    for compressor in made:
        compressor.close()
    check_no_worker_is_left()


def _batches(count: int, size: int = 500) -> list[ProducerBatch]:
    queues = TopicQueues("orders", count)
    return [_batch(queues.queues[index], bytes([index]) * size) for index in range(count)]


def _batch(queue: PartitionQueue, value: bytes) -> ProducerBatch:
    pool = ChunkPool(1 << 20)
    chunk = pool.try_chunk(large=False)
    assert chunk is not None
    batch = ProducerBatch(queue, ChunkChain(pool, [chunk]), 1 << 20, 0)
    batch.builder.try_append(1, None, value)
    return batch


def _value(batch: ProducerBatch) -> bytes | None:
    """Close a packed batch, and read its one record."""
    (decoded,) = record_v2.decode_batches(b"".join(batch.close(int(Codec.GZIP))))
    (record,) = decoded.records
    return record.value


def _check_all(batches: list[ProducerBatch]) -> None:
    assert [_value(batch) for batch in batches] == [
        bytes([index]) * 500 for index in range(len(batches))
    ]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_as_many_batches_as_threads_are_compressed_at_once(
    make: Callable[..., ParallelCompressor], codecs: Codecs, count: int
) -> None:
    """Each waits in its codec until all the others are there."""
    together = threading.Barrier(count)
    codecs.on_call = lambda _: together.wait(WAIT_S)
    batches = _batches(2 * count)
    assert make(count).pack(batches) == {}
    assert len(codecs.workers) == count - 1
    _check_all(batches)


def test_one_thread_starts_no_other(
    make: Callable[..., ParallelCompressor], codecs: Codecs
) -> None:
    """The caller compresses everything, in order."""
    compressor = make(1)
    batches = _batches(4)
    assert compressor.pack(batches) == {}
    assert {name for name, _ in codecs.calls} == {threading.current_thread().name}
    assert compressor.spare_threads(1) == 0
    _check_all(batches)


def test_one_batch_wakes_nobody(make: Callable[..., ParallelCompressor], codecs: Codecs) -> None:
    """Nor do several that are small together."""
    assert make(4).pack(_batches(1)) == {}
    assert make(4, shared_bytes_min=parallel_compressor.SHARED_BYTES_MIN).pack(_batches(4)) == {}
    assert not codecs.workers
    assert not worker_threads()


@pytest.mark.parametrize("index", range(4))
def test_a_batch_that_cannot_be_compressed_is_named(
    make: Callable[..., ParallelCompressor], codecs: Codecs, index: int
) -> None:
    """The others are compressed, and it is as before: it may be tried again."""
    marked = bytes([index]) * 500
    is_faulty = [True]

    def fail(plain: Buffer) -> None:
        if is_faulty[0] and marked in bytes(plain):
            raise MemoryError(FAULT)

    codecs.on_call = fail
    batches = _batches(4)
    compressor = make(2)
    errors = compressor.pack(batches)
    assert list(errors) == [batches[index]]
    assert str(errors[batches[index]]) == FAULT
    assert batches[index].is_unpacked
    assert batches[index].encoded_bytes == batches[index].builder.size_bytes
    is_faulty[0] = False
    assert compressor.pack([batches[index]]) == {}
    _check_all(batches)


class _Planted(BaseException):
    """Not even an `Exception`."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_leaves_its_batch_to_the_caller(
    make: Callable[..., ParallelCompressor], codecs: Codecs
) -> None:
    """The next round has a new thread."""
    died = threading.Event()

    def die(_: Buffer) -> None:
        if is_worker() and not died.is_set():
            died.set()
            raise _Planted
        assert died.wait(WAIT_S)

    codecs.on_call = die
    batches = _batches(4)
    compressor = make(2)
    assert compressor.pack(batches) == {}
    _check_all(batches)
    together = threading.Barrier(2)
    codecs.on_call = lambda _: together.wait(WAIT_S)
    again = _batches(2)
    assert compressor.pack(again) == {}
    _check_all(again)


@pytest.mark.parametrize("is_running", [False, True])
def test_a_thread_that_never_begins_is_not_waited_for(
    make: Callable[..., ParallelCompressor], is_running: bool
) -> None:
    """A profiler's function may end a thread before its work; another is slow to start."""
    released = threading.Event()
    runs: list[Callable[[], object]] = []

    def start(name: str, run: Callable[[], object]) -> Any:
        runs.append(run)
        return start_thread(name, lambda: is_running and released.wait(WAIT_S) and run())

    compressor = make(2, start)
    for _ in range(2):
        batches = _batches(4)
        assert compressor.pack(batches) == {}
        _check_all(batches)
    assert len(runs) == 1
    released.set()


def test_an_error_that_ends_the_caller_waits_for_the_others(
    make: Callable[..., ParallelCompressor], codecs: Codecs
) -> None:
    """Memory that a thread still reads must not return to the pool."""
    begun, finished = threading.Event(), threading.Event()

    def run(_: Buffer) -> None:
        if is_worker():
            begun.set()
            threading.Event().wait(0.05)  # long enough for a caller that would not wait
            finished.set()
        else:
            assert begun.wait(WAIT_S)
            raise _Planted

    codecs.on_call = run
    with pytest.raises(_Planted):
        make(2).pack(_batches(2))
    assert finished.is_set()


@pytest.mark.parametrize("started", [0, 1])
def test_without_more_threads_the_caller_does_their_work(
    make: Callable[..., ParallelCompressor],
    codecs: Codecs,
    caplog: pytest.LogCaptureFixture,
    started: int,
) -> None:
    """The log says so once, and no more threads are asked for."""
    asked: list[str] = []

    def start(name: str, run: Callable[[], object]) -> Any:
        asked.append(name)
        if len(asked) > started:
            raise RuntimeError("can't start new thread")
        return start_thread(name, run)

    compressor = make(4, start)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            batches = _batches(4)
            assert compressor.pack(batches) == {}
            _check_all(batches)
    assert len(asked) == started + 1
    (line,) = caplog.messages
    assert "could not be started (can't start new thread)" in line
    assert compressor.spare_threads(0) == started + 1
    assert len(codecs.calls) == 12


def test_no_thread_is_left_after_close(
    make: Callable[..., ParallelCompressor], codecs: Codecs
) -> None:
    """Later batches are compressed by the caller."""
    compressor = make(3)
    together = threading.Barrier(3)
    codecs.on_call = lambda _: together.wait(WAIT_S)
    assert compressor.pack(_batches(3)) == {}
    assert len(worker_threads()) == 2
    compressor.close()
    check_no_worker_is_left()
    codecs.on_call = lambda _: None
    batches = _batches(3)
    assert compressor.pack(batches) == {}
    _check_all(batches)
    assert not worker_threads()


def test_threads_refer_to_no_batch_between_two_rounds(
    make: Callable[..., ParallelCompressor], codecs: Codecs
) -> None:
    """A batch's memory returns with its last reference."""
    compressor = make(2)
    together = threading.Barrier(2)
    codecs.on_call = lambda _: together.wait(WAIT_S)
    batches = _batches(2)
    pools = [batch.builder.chain.pool for batch in batches]
    assert compressor.pack(batches) == {}
    for batch in batches:
        batch.release()
    assert [pool.lent_bytes for pool in pools] == [0, 0]
    thread = compressor._threads[0]
    assert thread._work is None


@pytest.mark.parametrize(
    ("cores", "gzip", "other"), [(1, 1, 1), (2, 2, 1), (4, 4, 2), (8, 4, 4), (64, 4, 4)]
)
def test_threads_by_default(
    monkeypatch: pytest.MonkeyPatch, cores: int, gzip: int, other: int
) -> None:
    """As the process's cores allow."""
    monkeypatch.setattr(parallel_compressor, "_usable_cores", lambda: cores)
    assert default_thread_count(Codec.GZIP) == gzip
    for codec in (Codec.LZ4, Codec.SNAPPY, Codec.ZSTD):
        assert default_thread_count(codec) == other
