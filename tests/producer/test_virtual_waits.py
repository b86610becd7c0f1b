"""Every wait of an application's thread uses the locks of `kprod.threads` and the clock of waits.

The timeouts are an hour long: a wait that took real time would not end within the test's patience.
"""

import _thread
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kprod
from kprod import threads
from kprod.clock import ManualClock, wait_by
from kprod.errors import BufferTimeout, KprodError, KprodTimeout, UnknownTopic
from tests.producer.stage import Stage
from tests.producer.virtual_threads import VirtualThreads

HOUR_S = 3_600
HOUR_MS = HOUR_S * 1_000
ROUND_TRIP_MS = 1_500_000
TURN_MS = 1_000


class Scene(Stage):
    """A stage whose application waits in virtual time, while the producer takes its turns.

    Attributes:
        threads: In use.
        answers_at_ms: Time at which brokers respond to requests; None for never.
        answer_count: How many they answer then.
    """

    def __init__(self, **settings: Any) -> None:
        clock = ManualClock()
        self.threads = VirtualThreads(clock)
        self.threads.turn = lambda: self.run(TURN_MS)
        self.answers_at_ms: int | None = 0
        self.answer_count = 1  # the record that opens the topic
        threads.use(self.threads)
        wait_by(clock)
        super().__init__(
            clock=clock,
            **{"max_block_ms": HOUR_MS, "delivery_timeout_ms": 10 * HOUR_MS, **settings},
        )

    def answer_later(self, *, delay_ms: int = ROUND_TRIP_MS, count: int = 1) -> int:
        """Make brokers respond to this many requests after a while; returns when."""
        self.answers_at_ms = self.clock.now_ms() + delay_ms
        self.answer_count = count
        return self.answers_at_ms

    def _serve(self) -> None:
        super()._serve()
        if self.answers_at_ms is not None and self.clock.now_ms() >= self.answers_at_ms:
            while self.held and self.answer_count:
                self.answer_count -= 1
                self.take().answer()


@pytest.fixture
def scenes() -> Iterator[Callable[..., Scene]]:
    """Create a scene with virtual threads; the system's threads are restored afterwards."""
    try:
        yield Scene
        while Stage.opened:
            Stage.opened.pop().close()
    finally:
        threads.use(threads.SYSTEM)
        wait_by(None)


WAITS: dict[str, Callable[[kprod.RecordFuture, float], object]] = {
    "result": lambda future, timeout: future.result(timeout),
    "exception": lambda future, timeout: future.exception(timeout),
    "failures_of": lambda future, timeout: kprod.failures_of([future], timeout),
    "as_completed": lambda future, timeout: next(iter(kprod.as_completed([future], timeout))),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_for_a_record_ends_with_its_outcome(scenes: Callable[..., Scene], wait: str) -> None:
    """It has taken the time of the round trip, by the producer's clock."""
    scene = scenes(request_timeout_ms=HOUR_MS)
    future = scene.put(b"v")
    answers_at_ms = scene.answer_later()

    WAITS[wait](future, HOUR_S)

    assert future.done()
    assert answers_at_ms <= scene.clock.now_ms() <= answers_at_ms + TURN_MS


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_for_a_record_ends_by_the_clock_of_waits(
    scenes: Callable[..., Scene], wait: str
) -> None:
    """Without a response it ends when its timeout is over."""
    scene = scenes()
    future = scene.put(b"v")
    began_ms = scene.clock.now_ms()

    with pytest.raises(KprodTimeout):
        WAITS[wait](future, HOUR_S)

    assert scene.clock.now_ms() == began_ms + HOUR_MS


def test_a_wait_for_several_records_has_one_timeout(scenes: Callable[..., Scene]) -> None:
    """The second is asked for with what the first has left of it."""
    scene = scenes(request_timeout_ms=HOUR_MS)
    answers_at_ms = scene.answer_later(count=1)
    first, second = scene.send(b"v"), scene.send(b"w")
    began_ms = scene.clock.now_ms()

    waited = kprod.wait([first, second], HOUR_S / 2)

    assert (waited.done, waited.not_done) == ({first}, {second})
    assert scene.clock.now_ms() == began_ms + HOUR_MS // 2 > answers_at_ms


def test_flush_and_receipts_wait_so_too(scenes: Callable[..., Scene]) -> None:
    """For batches whose callbacks have run, and for the account of a bulk send."""
    scene = scenes(request_timeout_ms=HOUR_MS)
    receipt = scene.producer.send_many("orders", [b"a", b"b"])
    began_ms = scene.clock.now_ms()

    with pytest.raises(KprodTimeout):
        receipt.result(1)
    assert scene.producer.flush(2) == 2
    assert scene.clock.now_ms() == began_ms + 3_000

    scene.answer_later()
    assert scene.producer.flush(HOUR_S) == 0
    assert receipt.exception(0) is None


def test_a_send_waits_so_for_memory(scenes: Callable[..., Scene]) -> None:
    """As long as `max_block_ms` says, then it is told that there is none."""
    scene = scenes(buffer_memory=32_768, request_timeout_ms=HOUR_MS)
    began_ms = scene.clock.now_ms()
    scene.put(b"x" * 20_000)

    with pytest.raises(BufferTimeout):
        scene.put(b"x" * 20_000)

    assert scene.clock.now_ms() == began_ms + HOUR_MS


def test_a_send_waits_so_for_metadata(scenes: Callable[..., Scene]) -> None:
    """A topic appears in time, or does not."""
    scene = scenes()
    scene.brokers.leaders["late"] = [1]
    scene.put(b"v", "late")
    began_ms = scene.clock.now_ms()

    with pytest.raises(UnknownTopic):
        scene.put(b"v", "never")

    assert scene.clock.now_ms() == began_ms + HOUR_MS


def test_the_sender_is_a_thread_of_the_same_kind(scenes: Callable[..., Scene]) -> None:
    """It is told from others while it runs: a callback must not wait for its own thread."""
    scene = scenes(is_threaded=True, client_id="clicks")
    (thread,) = scene.threads.started
    sender = scene.producer._kprod.thread
    assert "clicks" in thread.name
    seen: list[object] = []

    def on_delivery(*_: object) -> None:
        seen.append(sender.is_current)
        with pytest.raises(KprodError, match="wait for itself"):
            scene.producer.flush(1)
        scene.producer.close()  # waits for nothing here, and ends the thread
        seen.append("closed")

    scene.producer.send("orders", b"v", partition=0, on_delivery=on_delivery)
    scene.answer_later(delay_ms=0)
    thread.run()

    assert seen == [True, "closed"]
    assert sender.has_ended
    assert not sender.is_current


def test_close_waits_so_for_the_sender(scenes: Callable[..., Scene]) -> None:
    """The wait ends when the thread has."""
    scene = scenes(is_threaded=True, request_timeout_ms=HOUR_MS)
    (thread,) = scene.threads.started
    sender = scene.producer._kprod.thread
    scene.put(b"v")
    scene.answer_later()
    scene.threads.turn = lambda: thread.run() if sender._is_stopping else scene.run(TURN_MS)

    assert scene.producer.close(HOUR_S) == 0
    assert sender.has_ended


def test_locks_of_production_are_the_system_s() -> None:
    """Made by the same built-in function as ever, and told apart by the same idents."""
    assert threads.SYSTEM.make_lock is _thread.allocate_lock
    assert threads.SYSTEM.current is _thread.get_ident
    assert type(threads.make_lock()) is type(_thread.allocate_lock())
    assert threads.current_ident() == threading.get_ident()


def test_threads_of_production_are_daemons() -> None:
    """They have the name that people look for, and keep no process from ending."""
    found: list[threading.Thread] = []

    threads.start_thread("kprod-test", lambda: found.append(threading.current_thread())).join()

    assert [(thread.name, thread.daemon) for thread in found] == [("kprod-test", True)]
