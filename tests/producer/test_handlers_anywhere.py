"""A signal handler, or a finalizer, that flushes or closes: it returns wherever it comes in.

A handler runs on the thread that it interrupts. If that thread then holds a lock that the sender
needs, the handler waits for the sender, and the sender for the lock.

A trace function is called at each line, and chooses where the signal comes. Compiled lines have no
trace; a listener of the garbage collector stands for a finalizer and comes in there too, wherever
memory is allocated (CPython 3.11; later ones collect between lines).
"""

import contextlib
import gc
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from types import FrameType
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodError, UnknownPartition

WAIT_S = 20.0  # ends a broken test, never its rhythm
COLLECTIONS = range(1, 500, 4)  # out of thousands: topics and partitions are opened here
KPROD = kprod.__file__.removesuffix("__init__.py")
BROKER = f"{KPROD}broker"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker that makes the topics it is asked for."""
    with EmbeddedCluster(brokers=1, topics={"orders": 2}) as running:
        yield running


def _producer(cluster: EmbeddedCluster) -> kprod.Producer:
    return kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        max_block_ms=int(WAIT_S * 1_000),
        retry_backoff_ms=1,
        retry_backoff_max_ms=1,
    )


@contextlib.contextmanager
def _at_line(wanted: int, handle: Callable[[], object]) -> Generator[list[str]]:
    """Send this thread a signal at one line of kprod that it comes to; tell which."""
    lines = itertools.count(1)
    places: list[str] = []

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(KPROD):
            return None
        if event == "line" and next(lines) == wanted:
            sys.settrace(None)
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            signal.raise_signal(signal.SIGTERM)
        return None if places else trace

    previous, handler = sys.gettrace(), signal.signal(signal.SIGTERM, lambda *_: handle())
    sys.settrace(trace)
    try:
        yield places
    finally:
        sys.settrace(previous)
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _at_collection(wanted: int, handle: Callable[[], object]) -> Generator[list[str]]:
    """Call the handler at one collection that this thread begins, which it does all the time."""
    thread = threading.get_ident()
    collections = itertools.count(1)
    places: list[str] = []

    def listen(phase: str, _told: object) -> None:
        if phase == "start" and threading.get_ident() == thread and next(collections) == wanted:
            places.append(f"collection {wanted}")
            handle()

    listeners, threshold = gc.callbacks[:], gc.get_threshold()
    gc.callbacks[:] = [listen]
    gc.set_threshold(1, *threshold[1:])
    try:
        yield places
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks[:] = listeners


def _use(producer: kprod.Producer, number: int) -> list[kprod.RecordFuture]:
    """Open a topic, look for a missing partition, send and wait, end; return accepted ones."""
    sent: list[kprod.RecordFuture] = []
    with contextlib.suppress(KprodError):
        sent.append(producer.send(f"new-{number}", b"new"))
        with contextlib.suppress(UnknownPartition):
            producer.send("orders", b"nowhere", partition=99)
        for _ in range(2):  # the second goes the direct way
            sent.append(producer.send("orders", b"alone"))
            sent[-1].result(WAIT_S)
        producer.flush(WAIT_S)
        producer.close(WAIT_S)
    return sent


def _come_in(
    cluster: EmbeddedCluster,
    firing: Callable[..., Any],
    numbers: Iterable[int],
    wait: Callable[[kprod.Producer], int],
) -> int:
    """Send and wait in a handler, at one place after the other; how many places there were."""
    for number in numbers:
        undelivered: list[int] = []
        with _producer(cluster) as producer:
            first = producer.send("orders", b"first")

            def handle(
                producer: kprod.Producer = producer,
                number: int = number,
                undelivered: list[int] = undelivered,
            ) -> None:
                with contextlib.suppress(KprodError):
                    producer.send(f"handler-{number}", b"handled")
                undelivered.append(wait(producer))

            with firing(number, handle) as places:
                sent = _use(producer, number)
            if not places:
                return number
            assert undelivered == [0], f"the handler did not end at {places[0]}"
            assert all(future.result(WAIT_S).offset >= 0 for future in [first, *sent]), places
    return 0


def _flush(producer: kprod.Producer) -> int:
    return producer.flush(WAIT_S)


def _close(producer: kprod.Producer) -> int:
    undelivered = producer.close(WAIT_S)
    return undelivered if producer._kprod.thread.has_ended else -1


@pytest.mark.slow
@pytest.mark.parametrize("wait", [_flush, _close])
def test_a_handler_may_wait_at_every_line(
    cluster: EmbeddedCluster, wait: Callable[[kprod.Producer], int]
) -> None:
    """Records accepted before are delivered, and the handler returns."""
    assert _come_in(cluster, _at_line, itertools.count(1), wait) > 100


@pytest.mark.slow
@pytest.mark.parametrize("wait", [_flush, _close])
def test_a_finalizer_may_wait_where_memory_is_allocated(
    cluster: EmbeddedCluster, wait: Callable[[kprod.Producer], int]
) -> None:
    """Inside compiled code too."""
    _come_in(cluster, _at_collection, COLLECTIONS, wait)
