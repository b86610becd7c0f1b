"""Waits for tests of the direct path: for a condition, and until the sender sleeps.

Thread-safety: functions of their arguments.
"""

import threading
from collections.abc import Callable

import kprod
from kprod._core.metrics.counters import ProducerCounters
from kprod.clock import SystemClock
from kprod.metrics.recorder import MetricsRecorder

SETTLE_S = 30.0  # ends a broken test, never its rhythm
_SAMPLES = 4  # of a sleep


def until_it_sleeps(producer: kprod.Producer) -> None:
    """Wait until the sender's sleep has lasted a while: a short one is another turn's start.

    Args:
        producer: A producer with a direct path.
    """
    seen: list[int] = []

    def has_slept() -> bool:
        if producer._kprod.path.direct_path._sender_lock.locked():
            seen.clear()
        seen.append(turns(producer))
        return len(seen) >= _SAMPLES and seen[-_SAMPLES] == seen[-1]

    until(has_slept)


def turns(producer: kprod.Producer) -> int:
    """Return the number of the sender's turns.

    Args:
        producer: Any producer.

    Returns:
        Its sleeps so far, the current one included.
    """
    return _counters(producer).selects


def produce_requests(producer: kprod.Producer) -> int:
    """Return the number of Produce requests sent so far.

    Args:
        producer: Any producer.

    Returns:
        Those sent again included.
    """
    return _counters(producer).produce_requests


def _counters(producer: kprod.Producer) -> ProducerCounters:
    recorder = producer._kprod.recorder
    assert isinstance(recorder, MetricsRecorder)
    return recorder.producer


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition.

    Args:
        holds: The condition.
    """
    clock, pause = SystemClock(), threading.Event()
    ends_ms = clock.now_ms() + SETTLE_S * 1_000
    while not holds():
        assert clock.now_ms() < ends_ms
        pause.wait(0.001)
