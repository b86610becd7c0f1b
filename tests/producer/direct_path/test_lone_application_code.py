"""Application code that may come in while a caller writes its lone record, and what it may do.

Profile and trace functions, signal handlers, and finalizers that the garbage collector runs. None
of them runs while the caller holds the sender's lock; before and after, each may wait for the
sender. Their waits have a limit, so that a deadlock is a failure.
"""

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any

import pytest

import kprod
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import ClosedError, KprodError
from kprod.network import epoll_selector
from tests.producer.direct_path.lone import TOPIC, LoneSends, until_lone
from tests.producer.direct_path.sleeping import SETTLE_S, turns, until, until_it_sleeps

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    pytest.mark.timeout(60, method="thread"),  # a handler of SIGALRM would close the path with TLS
]

WAIT_S = 30.0  # ends a deadlock, never a test's rhythm
ALLOCATIONS = 150  # more than a send makes


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """One broker, and a topic of one partition."""
    security = BrokerSecurity(protocol=request.param)
    with EmbeddedCluster(1, {TOPIC: 1}, security=security) as running:
        yield running


@pytest.fixture
def producer(cluster: EmbeddedCluster) -> Iterator[kprod.Producer]:
    """One whose next record leaves on its caller's thread."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as made:
        until_lone(made)
        yield made
        made.close(SETTLE_S)


class _Actor:
    """Code of the application: acts when it is called, but not within its own act.

    Attributes:
        results: Values that the acts returned, or errors that they raised.
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._is_acting = False
        self.results: list[object] = []

    def __call__(self) -> None:
        """Act; whatever it raises is noted."""
        if self._is_acting:
            return
        self._is_acting = True
        try:
            self.results.append(self._act())
        except KprodError as error:
            self.results.append(error)
        finally:
            self._is_acting = False


def _acts(lone: LoneSends, inner: list[kprod.RecordFuture]) -> dict[str, Callable[[], object]]:
    """The things that application code does, by name."""
    producer = lone.producer

    def send() -> None:
        inner.append(producer.send(TOPIC, b"inner-%d" % len(inner), partition=0))

    def ask() -> object:
        return lone.sent[-1][1].exception(WAIT_S) if lone.sent else None

    return {
        "flush": lambda: producer.flush(WAIT_S),
        "result": ask,
        "send": send,
        "close": lambda: producer.close(WAIT_S),
    }


def _check_inner(cluster: EmbeddedCluster, inner: list[kprod.RecordFuture]) -> None:
    """Records of application code are delivered once and in order."""
    until(lambda: all(future.done() for future in inner))
    values = [record.value or b"" for record in cluster.records(TOPIC)[0]]
    assert [future.exception(0) for future in inner] == [None] * len(inner)
    found = [value for value in values if value.startswith(b"inner-")]
    assert found == [b"inner-%d" % number for number in range(len(inner))]


@contextlib.contextmanager
def _profiled(actor: _Actor) -> Generator[None]:
    """Act where a compiled function is called from this file, and where it has returned."""

    def profile(_: FrameType, event: str, argument: Any) -> None:
        if event in {"c_call", "c_return"} and getattr(argument, "__name__", "") == "send":
            actor()

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def _traced(actor: _Actor) -> Generator[None]:
    """Act at each line of `send_now`: before the lone record, and right after it."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            actor()
        return trace if frame.f_code is LoneSends.send_now.__code__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


OBSERVED = pytest.mark.parametrize("observed", [_profiled, _traced])


@OBSERVED
@pytest.mark.parametrize("act", ["flush", "result", "send"])
def test_a_profile_or_trace_function(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    observed: Callable[[_Actor], contextlib.AbstractContextManager[None]],
    act: str,
) -> None:
    """Called before and after the path, never within: whatever it waits for comes."""
    lone, inner = LoneSends(producer, cluster), list[kprod.RecordFuture]()
    actor = _Actor(_acts(lone, inner)[act])
    for _ in range(20):
        lone.send()
        until(lone.sent[-1][1].done)
        with observed(actor):
            lone.send_now()
    assert len(actor.results) >= 40
    assert set(actor.results) <= {0, None}
    lone.check()
    _check_inner(cluster, inner)


@OBSERVED
def test_a_profile_or_trace_function_that_closes(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    observed: Callable[[_Actor], contextlib.AbstractContextManager[None]],
) -> None:
    """Before the record, which is rejected; `close` returns, and so does each further one."""
    lone = LoneSends(producer, cluster)
    lone.send()
    actor = _Actor(_acts(lone, [])["close"])
    with observed(actor), pytest.raises(ClosedError):
        lone.send_now()
    assert set(actor.results) == {0}
    assert producer._kprod.thread.has_ended
    lone.check()


def test_a_profile_function_that_closes_after_the_record(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """Right after: the record is delivered."""
    until_it_sleeps(producer)
    results: list[int] = []

    def profile(_: FrameType, event: str, argument: Any) -> None:
        if event == "c_return" and getattr(argument, "__name__", "") == "send":
            sys.setprofile(None)
            results.append(producer.close(WAIT_S))

    sys.setprofile(profile)
    future = producer.send(TOPIC, b"lone-0", partition=0)
    sys.setprofile(None)
    assert results == [0]
    assert future.exception(0) is None
    assert [record.value for record in cluster.records(TOPIC)[0]].count(b"lone-0") == 1


def test_no_python_code_runs_within(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """In a `send` that writes its record itself: a profile function is told of no call."""
    lone = LoneSends(producer, cluster)
    for _ in range(20):
        lone.send()
    assert lone.taken_count
    events: list[str] = []
    before = turns(producer)
    for _ in range(20):
        until_lone(producer)
        until_it_sleeps(producer)
        send, before = producer.send, turns(producer)
        sys.setprofile(lambda _frame, event, _argument: events.append(event))
        future = send(TOPIC, b"v", partition=0)
        sys.setprofile(None)
        is_taken = turns(producer) == before
        until(future.done)
        assert events == ["c_call", "c_return", "c_call"]  # the last is of `setprofile`
        events.clear()
        if is_taken:
            return
    raise AssertionError("no lone record was written by its caller")


def test_a_profile_function_of_all_threads(cluster: EmbeddedCluster) -> None:
    """On the sender's thread, too, it may send; a flush there is rejected at once."""
    outcomes: list[object] = []
    inner: list[kprod.RecordFuture] = []

    def act() -> None:
        inner.append(made.send(TOPIC, b"inner-%d" % len(inner), partition=0))
        outcomes.append(made.flush(WAIT_S))

    actor = _Actor(act)

    def profile(_frame: FrameType, _event: str, _argument: Any) -> None:
        if over.is_set():
            sys.setprofile(None)  # CPython 3.12 counts the threads that die with one
        elif threading.get_ident() in senders and len(inner) < 50:
            actor()

    senders: set[object] = set()
    over = threading.Event()
    threading.setprofile(profile)
    try:
        made = kprod.Producer(**cluster.client_settings(), linger_ms=0)
    finally:
        threading.setprofile(None)
    with made:
        lone = LoneSends(made, cluster)
        senders.add(made._kprod.thread._ident)
        for _ in range(20):
            # A callback is Python code on the sender's thread, of which a profile function is told.
            lone.send(on_delivery=lambda *_: None)
        until(lambda: bool(inner))
        senders.clear()
        over.set()
        lone.check()
        _check_inner(cluster, inner)
        assert made.close(SETTLE_S) == 0
    assert all("would wait for itself" in str(result) for result in actor.results)
    assert not outcomes


class Interrupt(Exception):
    """The exception of a signal handler."""


@contextlib.contextmanager
def _alarms(handle: Callable[[], object]) -> Generator[None]:
    """Run a handler again and again, at a rate at which it comes in everywhere."""
    previous = signal.signal(signal.SIGALRM, lambda *_: handle())
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["flush", "send"])
def test_a_signal_handler(producer: kprod.Producer, cluster: EmbeddedCluster, act: str) -> None:
    """It returns, wherever it comes in; with TLS the path is closed to it."""
    lone, inner = LoneSends(producer, cluster), list[kprod.RecordFuture]()
    actor = _Actor(_acts(lone, inner)[act])
    pause = threading.Event()
    while len(actor.results) < 200:
        until_it_sleeps(producer)
        with _alarms(actor):
            for _ in range(20):
                lone.send_now()
                pause.wait(0.0005)
    assert set(actor.results) <= {0, None}
    lone.check()
    _check_inner(cluster, inner)


@pytest.mark.slow
def test_a_signal_handler_that_raises(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """A record whose future was returned has its outcome; no record is in the log twice."""
    is_armed = [False]

    def handle() -> None:
        if is_armed[0]:
            is_armed[0] = False
            raise Interrupt

    sent: list[tuple[bytes, kprod.RecordFuture]] = []
    interrupts, count, pause = 0, 0, threading.Event()
    with _alarms(handle):
        while interrupts < 300:
            value = b"v-%d" % count
            count += 1
            try:
                is_armed[0] = True
                future = producer.send(TOPIC, value, partition=0)
                sent.append((value, future))
                is_armed[0] = False
            except Interrupt:
                interrupts += 1
            pause.wait(0.0003)  # most of them are settled by then, and the next is alone
    until(lambda: all(future.done() for _, future in sent))
    values = [record.value or b"" for record in cluster.records(TOPIC)[0]]
    for value, future in sent:
        assert values[future.result(0).offset] == value
    mine = [value for value in values if value.startswith(b"v-")]
    assert len(set(mine)) == len(mine)
    LoneSends(producer, cluster).send()


def _is_interrupted(lone: LoneSends, is_armed: threading.Event) -> bool:
    """Send a lone record, and wait for the Ctrl-C that comes meanwhile or soon."""
    pause = threading.Event()
    try:
        is_armed.set()
        lone.send_now()
        for _ in range(1_000):  # one that comes between two waits does not end the next
            pause.wait(0.01)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """The path stays open with TLS; inside `ssl` it is postponed, and nothing is lost for it."""
    lone = LoneSends(producer, cluster)
    main, has_ended, pause = threading.get_ident(), threading.Event(), threading.Event()
    is_armed = threading.Event()

    def press() -> None:
        number = 0
        while not has_ended.is_set():
            if is_armed.wait(0.01):
                is_armed.clear()
                pause.wait(number % 20 / 20_000)
                number += 1
                signal.pthread_kill(main, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    interrupts = 0
    try:
        for _ in range(100):
            until_lone(producer)
            until_it_sleeps(producer)
            interrupts += _is_interrupted(lone, is_armed)
    finally:
        has_ended.set()
        pressing.join(SETTLE_S)
    assert interrupts == 100
    assert lone.taken_count
    # One whose `send` had been interrupted is in the log or not, and has no future.
    values = [record.value for record in cluster.records(TOPIC)[0]]
    for value, future in lone.sent:
        assert values[future.result(SETTLE_S).offset] == value
        assert values.count(value) == 1


class _Garbage:
    """A reference cycle that acts when the garbage collector frees it, in the same thread.

    The broker is in this process, too: a flush in its thread would wait for itself.
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._thread = threading.get_ident()
        self._myself = self

    def __del__(self) -> None:
        if threading.get_ident() == self._thread:
            self._act()


@contextlib.contextmanager
def _collected_after(allocations: int) -> Generator[None]:
    """Collect garbage at some allocation that follows."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(allocations, *threshold[1:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)


@pytest.fixture
def _little_to_collect() -> Iterator[None]:
    """Leave the tests' own objects out of collections, which take a twentieth of a second else."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@pytest.mark.slow
@pytest.mark.usefixtures("_little_to_collect")
@pytest.mark.parametrize("act", ["flush", "send"])
def test_a_finalizer(producer: kprod.Producer, cluster: EmbeddedCluster, act: str) -> None:
    """Wherever the collector comes in: CPython 3.11 collects at any allocation."""
    lone, inner = LoneSends(producer, cluster), list[kprod.RecordFuture]()
    actor = _Actor(_acts(lone, inner)[act])
    for allocations in range(1, ALLOCATIONS):
        until_lone(producer)
        until_it_sleeps(producer)
        with _collected_after(allocations):
            _Garbage(actor)
            lone.send_now()
    gc.collect()
    assert len(actor.results) > ALLOCATIONS / 2  # the others were collected by other threads
    assert set(actor.results) <= {0, None}
    assert lone.taken_count
    assert gc.isenabled()
    lone.check()
    _check_inner(cluster, inner)
