"""A lone record whose `send` meets a MemoryError, at each of its allocations in turn."""

import gc
import logging
from collections.abc import Iterator

import pytest

import kprod
from kprod import threads
from kprod.clock import wait_by
from kprod.errors import KprodError, Persistence
from kprod.producer.direct_path.direct_path import LONE_MIN
from tests.producer.direct_path.scene import Scene
from tests.producer.stage import Stage

memory = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails")

SLEEPS_MAX = 300  # per record
PROMPT_MS = 1_000  # without a wakeup the sender sleeps for a minute
ENOUGH_IN_A_ROW = 20  # sends without an error: there are no more allocations


class _Shortage:
    """A record that is sent in the sender's first sleep, and another that is sent when it is done.

    Attributes:
        error: Error that `send` raised; None if it did not.
        is_taken: Whether the caller wrote the request.
        settled: Values and errors of the settled records, in order.
    """

    def __init__(self, allocation: int) -> None:
        self.allocation = allocation
        self.scene = Scene()
        self.error: MemoryError | None = None
        self.is_taken = False
        self.future: kprod.RecordFuture | None = None
        self.later: kprod.RecordFuture | None = None
        self.settled: list[tuple[bytes, BaseException | None]] = []
        self.sleeps = 0
        self.began_ms = 0

    def play(self) -> None:
        """Run the sender's thread to its end."""
        scene = self.scene
        while scene.producer._kprod.sender.lone_count < LONE_MIN:
            scene.send_plainly(b"lone")
            scene.run(2 * scene.round_trip_ms)
        scene.producer._kprod.path.direct_path.is_awaited = False
        scene.round_trip_ms = 0
        scene.selector.serve = scene.act_as_brokers
        self.began_ms = scene.clock.now_ms()
        scene.selector.horizon_ms = self.began_ms + 10 * PROMPT_MS
        scene.acts.append(self._send)
        scene.sender_thread.run()

    def _send(self) -> None:
        """Send while the sender sleeps; the allocator fails once."""
        engine = self.scene.producer._kprod
        assert not engine.path.direct_path._sender_lock._is_held
        assert not engine.path.direct_path.is_awaited
        memory.set_nomemory(self.allocation, self.allocation + 1)
        try:
            self.future = self.scene.producer.send("orders", b"first", partition=0)
        except MemoryError as error:
            self.error = error
        finally:
            memory.remove_mem_hooks()
        assert gc.isenabled()
        assert not engine.path.direct_path._sender_lock._is_held
        self.is_taken = engine.path.direct_path._response_wait.is_only_in_flight()
        if self.future is None:
            engine.client.wakeup()  # there is nothing that could end the sleep
        else:
            self._listen(b"first", self.future)
        self.scene.acts.append(self._go_on)

    def _listen(self, value: bytes, future: kprod.RecordFuture) -> None:
        future.add_done_callback(lambda done: self.settled.append((value, done.exception(0))))

    def _go_on(self) -> None:
        """Once the first record is settled, send another; then stop the sender."""
        self.sleeps += 1
        assert self.sleeps < SLEEPS_MAX, "the record is never settled"
        producer = self.scene.producer
        if self.later is None and (self.future is None or self.future.done()):
            self.later = producer.send("orders", b"later", partition=0)
            self._listen(b"later", self.later)
        elif self.later is not None and self.later.done():
            producer._kprod.thread.stop_soon()
        self.scene.clock.advance(1)  # for the back-off of a connection that was lost
        producer._kprod.client.wakeup()  # only the sleep with the first record must end by itself
        self.scene.acts.append(self._go_on)

    def sent_values(self) -> list[bytes]:
        """The values in the requests, in order; a batch that was sent again, once."""
        raws = [batch.raw for held in self.scene.history for batch in held.batches]
        return [v for raw in dict.fromkeys(raws) for v in (b"first", b"later") if v in raw]


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Log no deaths of senders; the system's threads come back afterwards."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        threads.use(threads.SYSTEM)
        wait_by(None)


def _check(shortage: _Shortage) -> str:
    """Check what a record that met the shortage promises; say which of the outcomes it had."""
    producer = shortage.scene.producer
    shortage.play()
    assert producer._kprod.thread.has_ended
    assert shortage.scene.clock.now_ms() - shortage.began_ms < PROMPT_MS
    if shortage.error is not None:
        outcome = "rejected"
        assert shortage.settled == [(b"later", None)]
        assert shortage.sent_values() == [b"later"]
    else:
        value, error = shortage.settled[0]
        assert value == b"first"
        if error is None:
            outcome = "taken" if shortage.is_taken else "left"
            assert shortage.settled[1:] == [(b"later", None)]
            assert shortage.sent_values() == [b"first", b"later"]
        elif shortage.later is None:
            outcome = "fatal"
            assert "the sender thread died of MemoryError" in str(error)
            assert len(shortage.settled) == 1
            with pytest.raises(KprodError, match="died of MemoryError"):
                producer.send("orders", b"late")
        else:
            outcome = "failed"
            assert isinstance(error, KprodError)
            assert error.persistence is Persistence.NOT_PERSISTED
            assert "MemoryError" in str(error)
            assert shortage.settled[1:] == [(b"later", None)]
            assert shortage.sent_values() == [b"later"]
    assert producer.close(0) == 0
    Stage.opened.remove(shortage.scene)
    pool = producer._kprod.pool
    # If the sender died while it made a request, the memory of its batches is lost with the pool.
    assert outcome == "fatal" or pool.lent_bytes == 0
    return outcome


@pytest.mark.slow
@pytest.mark.usefixtures("_quiet")
def test_a_shortage_at_each_allocation_of_a_lone_send() -> None:
    """Rejected, failed or delivered, once; no lock stays held, and the collector is not paused."""
    outcomes: list[str] = []
    while outcomes[-ENOUGH_IN_A_ROW:] != ["taken"] * ENOUGH_IN_A_ROW:
        outcomes.append(_check(_Shortage(len(outcomes))))
    assert set(outcomes) == {"rejected", "failed", "fatal", "taken", "left"}
