"""A record that is waited for: its way on the caller's own thread, and every way out of it.

The broker runs in this process, so its responses come when its thread gets to them; each test
begins with records that were waited for, which is what opens the direct path.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kprod
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.clock import SystemClock
from kprod.errors import BrokerError, ClosedError, KprodError, KprodTimeout
from kprod.network import epoll_selector
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.producer.direct_path.faults import FAULTS
from tests.producer.direct_path.sleeping import SETTLE_S, turns, until, until_it_sleeps

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    # By a thread: a handler of SIGALRM would close the path with TLS.
    pytest.mark.timeout(60, method="thread"),
]

TOPIC = "orders"


class Interrupt(Exception):
    """The exception of a signal handler."""


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """One broker, a topic of two partitions and another of one."""
    security = BrokerSecurity(protocol=request.param)
    with EmbeddedCluster(1, {TOPIC: 2, "others": 1}, security=security) as running:
        yield running


without_tls = pytest.mark.parametrize("cluster", ["PLAINTEXT"], indirect=True)
"""For tests that install signal handlers in Python: with TLS these close the path."""


@pytest.fixture
def producer(cluster: EmbeddedCluster) -> Iterator[kprod.Producer]:
    """A producer whose application waits for each record."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as made:
        for _ in range(20):
            _send(made).result(SETTLE_S)
        _until_the_direct_path_opens(made, "others")  # tests count on twenty records
        yield made
        made.close(SETTLE_S)


def _until_the_direct_path_opens(producer: kprod.Producer, topic: str) -> None:
    """A record settled before it is asked for, as on a machine that stalls, was not waited for."""
    for _ in range(100):
        future = producer.send(topic, b"v", partition=0)
        is_taken = producer._kprod.path.direct_path._response_wait.is_only_in_flight()
        future.result(SETTLE_S)
        if is_taken and producer._kprod.path.direct_path.is_awaited:
            return
    raise AssertionError("no record took the path and was waited for")


def _send(producer: kprod.Producer, value: bytes = b"v", partition: int = 0) -> kprod.RecordFuture:
    return producer.send(TOPIC, value, partition=partition)


def _send_while_it_sleeps(producer: kprod.Producer, value: bytes = b"v") -> kprod.RecordFuture:
    """The sender has just told the record before, and may not be asleep yet."""
    until_it_sleeps(producer)
    future = _send(producer, value)
    assert not producer._kprod.path.direct_path.is_awaited  # it went, and was not waited for yet
    return future


def _values(cluster: EmbeddedCluster, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.records(TOPIC)[partition]]


def test_the_sender_sleeps_meanwhile(producer: kprod.Producer) -> None:
    """Elsewhere it takes two turns for such a record, one to send and one for the response."""
    before = turns(producer)
    for _ in range(200):
        _send(producer).result(SETTLE_S)
    assert turns(producer) - before < 200


def _functions_run(call: Callable[[], object]) -> set[str]:
    """The Python code, outside of this file, that runs in the thread that makes a call."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            seen.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


KINDS: dict[str, dict[str, Any]] = {
    "a partition": {"partition": 1},
    "the sticky partition": {},
    "a key": {"key": b"k"},
    "headers and a time": {"headers": {"h": b"1"}, "timestamp_ms": 7},
    "another topic": {"topic": "others"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_python_code_runs_on_the_way(producer: kprod.Producer, kind: str) -> None:
    """From the call to the outcome: no signal handler can come in."""
    record = {"topic": TOPIC, "value": b"v", **KINDS[kind]}
    for _ in range(3):
        producer.send(**record).result(SETTLE_S)
    for _ in range(300):
        assert not _functions_run(lambda: producer.send(**record).result(SETTLE_S))


def test_no_python_code_runs_while_a_refresh_is_requested(producer: kprod.Producer) -> None:
    """Metadata requests by other threads are left to the sender."""
    metadata = producer._kprod.metadata
    for _ in range(5):
        _send(producer).result(SETTLE_S)
        until(lambda: not producer._kprod.path.direct_path._sender_lock.locked())
        refresh = metadata.request_refresh(TOPIC)
        assert not _functions_run(lambda: _send(producer).result(SETTLE_S))
        until(partial(metadata.has_refreshed, TOPIC, refresh))


def test_a_record_nobody_waits_for_goes_as_ever(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """The first is a surprise; the response is the sender's, and the second is its own."""
    until_it_sleeps(producer)
    futures = [_send(producer, b"first"), _send(producer, b"second")]
    until(lambda: all(future.done() for future in futures))
    assert not producer._kprod.path.direct_path.is_awaited
    assert _values(cluster)[-2:] == [b"first", b"second"]


def test_each_partition_may_be_next(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """Offsets are the log's."""
    placed = [_send(producer, b"%d" % n, n % 2).result(SETTLE_S) for n in range(100)]
    for n, metadata in enumerate(placed):
        assert (metadata.topic, metadata.partition) == (TOPIC, n % 2)
        assert _values(cluster, n % 2)[metadata.offset] == b"%d" % n


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_answer(
    producer: kprod.Producer, cluster: EmbeddedCluster, fault: str
) -> None:
    """A record that meets it, and those behind, are delivered once and in order."""
    FAULTS[fault](cluster)
    placed = [_send(producer, b"%d" % n).result(SETTLE_S) for n in range(10)]
    assert not cluster.faults.pending()
    assert [metadata.offset for metadata in placed] == list(range(20, 30))
    assert _values(cluster)[20:] == [b"%d" % n for n in range(10)]


# Nothing but the tested call wakes the sender within a test's time.
SLEEPY: dict[str, Any] = {
    "linger_ms": 0,
    "retry_backoff_ms": 200_000,
    "retry_backoff_max_ms": 200_000,
    "request_timeout_ms": 200_000,
    "delivery_timeout_ms": 400_000,
}


def _send_into_a_stall(made: kprod.Producer, cluster: EmbeddedCluster) -> kprod.RecordFuture:
    """A record on the direct path, to a broker that hangs."""
    for _ in range(20):
        _until_the_direct_path_opens(made, TOPIC)
        cluster.faults.stall(0)
        until_it_sleeps(made)
        future = _send(made)
        if made._kprod.path.direct_path._response_wait.is_only_in_flight():
            return future
        cluster.faults.resume(0)  # on a slow machine it may be too late for the path
        future.result(SETTLE_S)
    raise AssertionError("no record took the path")


@contextlib.contextmanager
def _resumed_when_it_is_waited_for(
    made: kprod.Producer, cluster: EmbeddedCluster
) -> Generator[None]:
    path = made._kprod.path.direct_path

    def resume() -> None:
        # The wakeup of an earlier wait may end this one at once; then the request is the sender's.
        until(lambda: path._is_waiting or path._response_wait.in_flight is None)
        cluster.faults.resume(0)

    thread = threading.Thread(target=resume)
    thread.start()
    try:
        yield
    finally:
        thread.join(SETTLE_S)


def test_a_throttle_is_kept(cluster: EmbeddedCluster) -> None:
    """A response with one does more than acknowledge, so the sender reads it."""
    with kprod.Producer(**cluster.client_settings(), **SLEEPY) as made:
        future = _send_into_a_stall(made, cluster)
        cluster.throttle(ApiKey.PRODUCE, 20)
        with _resumed_when_it_is_waited_for(made, cluster):
            assert not _functions_run(lambda: future.result(SETTLE_S))
        assert made.metrics()["producer-metrics"]["produce-throttle-time-max"] == 20
        assert _send(made).result(SETTLE_S).offset == future.result(0).offset + 1


def test_an_epoch_that_waits_for_the_answer_begins(cluster: EmbeddedCluster) -> None:
    """Whichever thread reads the response: another partition's record waits for nothing else."""
    with kprod.Producer(**cluster.client_settings(), **SLEEPY) as made:
        for partition in (0, 1):
            _send(made, partition=partition).result(SETTLE_S)
        made.send("others", b"v").result(SETTLE_S)
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.CORRUPT_MESSAGE)
        rejected = _send(made, b"rejected", 1)
        until(lambda: not cluster.faults.pending())
        first = _send_into_a_stall(made, cluster)
        assert made.purge() == 1
        assert rejected.exception(0) is not None
        second = made.send("others", b"second")
        assert made._kprod.sender._transaction_manager.bump_is_pending
        # The sender has seen it, and sleeps again.
        until(
            lambda: (
                not made._kprod.accumulator.inbox
                and not made._kprod.path.direct_path._sender_lock.locked()
            )
        )
        with _resumed_when_it_is_waited_for(made, cluster):
            first.result(SETTLE_S)
        assert second.result(SETTLE_S).offset == 1


def test_a_question_that_waits_for_room_is_asked(cluster: EmbeddedCluster) -> None:
    """The response frees the memory, whichever thread reads it."""
    settings = {**SLEEPY, "max_in_flight_requests_per_connection": 1, "max_block_ms": 20_000}
    with kprod.Producer(**cluster.client_settings(), **settings) as made:
        first = _send_into_a_stall(made, cluster)
        before = turns(made)
        with ThreadPoolExecutor(1) as thread:
            sending = thread.submit(made.send, "others", b"v")
            until(lambda: made._kprod.metadata.update_due_in_ms(SystemClock().now_ms()) == 0)
            until(
                lambda: (
                    turns(made) > before and not made._kprod.path.direct_path._sender_lock.locked()
                )
            )
            with _resumed_when_it_is_waited_for(made, cluster):
                first.result(SETTLE_S)
            assert sending.result(SETTLE_S).result(SETTLE_S).offset == 0


def test_a_rejection_is_told(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """A response that says no is the sender's to judge."""
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
    with pytest.raises(BrokerError, match="INVALID_RECORD"):
        _send(producer).result(SETTLE_S)
    assert _send(producer).result(SETTLE_S).offset >= 20


def test_a_wait_that_ends_leaves_the_answer_to_the_sender(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """Nobody waits any more, and still it is taken in."""
    cluster.faults.delay(ApiKey.PRODUCE, 200)
    future = _send_while_it_sleeps(producer)
    with pytest.raises(KprodTimeout):
        future.result(0.02)
    until(future.done)
    assert _send(producer).result(SETTLE_S).offset == 21


@without_tls
def test_an_interrupted_wait_leaves_it_too(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """The handler's exception is raised by `result`, and the record is sent."""

    def handle(*_: object) -> None:
        raise Interrupt

    previous = signal.signal(signal.SIGALRM, handle)
    cluster.faults.delay(ApiKey.PRODUCE, 200)
    future = _send_while_it_sleeps(producer)
    try:
        with pytest.raises(Interrupt):  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            future.result(SETTLE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    until(future.done)
    assert _send(producer).result(SETTLE_S).offset == 21


@contextlib.contextmanager
def _alarms(handle: Callable[[], object], first_s: float, interval_s: float = 0) -> Generator[None]:
    previous = signal.signal(signal.SIGALRM, lambda *_: handle())
    signal.setitimer(signal.ITIMER_REAL, first_s, interval_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@without_tls
@pytest.mark.parametrize("kind", ["a partition", "the sticky partition"])
def test_interrupts_lose_nothing(
    producer: kprod.Producer, cluster: EmbeddedCluster, kind: str
) -> None:
    """Wherever a handler raises, in a send or a wait: every future gets its outcome."""
    is_armed = [False]

    def handle() -> None:
        if is_armed[0]:
            is_armed[0] = False
            raise Interrupt

    interrupts, sent = 0, 0
    futures: list[tuple[bytes, kprod.RecordFuture]] = []
    with _alarms(handle, 0.0004, 0.0004):
        while interrupts < 300:
            value = b"%d" % sent
            sent += 1
            try:
                is_armed[0] = True
                future = producer.send(TOPIC, value, **KINDS[kind])
                futures.append((value, future))
                future.result(SETTLE_S)
                is_armed[0] = False
            except Interrupt:
                interrupts += 1
    for value, future in futures:
        placed = future.result(SETTLE_S)
        assert _values(cluster, placed.partition)[placed.offset] == value
    # A record interrupted before its future was returned may be in the log or not, once.
    logged = [value for partition in (0, 1) for value in _values(cluster, partition)][20:]
    assert len(set(logged)) == len(logged)


@without_tls
def test_a_handler_may_flush(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """The response that the interrupted wait would take is taken in all the same."""
    flushed: list[int] = []
    cluster.faults.delay(ApiKey.PRODUCE, 200)
    future = _send_while_it_sleeps(producer)
    with _alarms(lambda: flushed.append(producer.flush(5)), 0.02):
        assert future.result(SETTLE_S).offset == 20
    assert flushed == [0]


@without_tls
def test_a_handler_may_wait_for_the_same(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """Two waits of one thread for one record."""
    offsets: list[int] = []
    cluster.faults.delay(ApiKey.PRODUCE, 200)
    future = _send_while_it_sleeps(producer)
    with _alarms(lambda: offsets.append(future.result(5).offset), 0.02):
        assert future.result(SETTLE_S).offset == 20
    assert offsets == [20]


@without_tls
def test_an_answer_that_is_here_is_not_late(cluster: EmbeddedCluster) -> None:
    """Though who waits for it is kept from it past the request's time: nothing is sent again."""
    with kprod.Producer(
        **cluster.client_settings(),
        linger_ms=0,
        request_timeout_ms=600,
        enable_idempotence=False,
    ) as made:
        for _ in range(20):
            _send(made).result(SETTLE_S)
        cluster.faults.delay(ApiKey.PRODUCE, 100)
        future = _send_while_it_sleeps(made)
        with _alarms(lambda: threading.Event().wait(1.0), 0.02):
            assert future.result(SETTLE_S).offset == 20
        assert _send(made).result(SETTLE_S).offset == 21


@without_tls
def test_a_handler_may_send_and_wait_itself(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """In the middle of another's wait."""
    inner: list[int] = []

    def handle(*_: object) -> None:
        inner.append(_send(producer, b"inner", 1).result(SETTLE_S).offset)

    previous = signal.signal(signal.SIGALRM, handle)
    cluster.faults.delay(ApiKey.PRODUCE, 100)
    try:
        future = _send_while_it_sleeps(producer, b"outer")
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert future.result(SETTLE_S).offset == 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert inner == [0]


def test_callbacks_stay_with_the_sender(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """Also one that comes while the record is waited for."""
    threads: list[str] = []

    def add(future: kprod.RecordFuture) -> None:
        until(lambda: producer._kprod.path.direct_path.is_awaited)
        future.add_done_callback(lambda _: threads.append(threading.current_thread().name))

    with ThreadPoolExecutor(1) as pool:
        for n in range(5):
            cluster.faults.delay(ApiKey.PRODUCE, 50)
            future = _send_while_it_sleeps(producer)
            added = pool.submit(add, future)
            assert future.result(SETTLE_S).offset == 20 + n
            added.result(SETTLE_S)
            until(lambda: len(threads) > n)  # noqa: B023 - it is over by then
    assert threads == [f"kprod-sender-{producer.client_id}"] * 5


def test_many_wait_at_once(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """Each gets its own outcome, whichever thread reads it."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(number: int) -> list[tuple[int, bytes]]:
        values = [b"%d-%d" % (number, n) for n in range(100)]
        return [(_send(producer, value).result(SETTLE_S).offset, value) for value in values]

    try:
        with ThreadPoolExecutor(8) as pool:
            placed = [pair for pairs in pool.map(work, range(8)) for pair in pairs]
    finally:
        sys.setswitchinterval(interval_s)
    assert sorted(placed) == list(enumerate(_values(cluster)))[20:]


def test_one_waits_while_another_pours(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """Records of two threads, one of which waits for each of its own."""
    has_ended = threading.Event()
    poured: list[kprod.RecordFuture] = []

    def pour() -> None:
        while not has_ended.is_set():
            poured.append(_send(producer, b"poured", 1))
            has_ended.wait(0.0005)

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        offsets = [_send(producer).result(SETTLE_S).offset for _ in range(200)]
    finally:
        has_ended.set()
        thread.join()
    assert offsets == list(range(20, 220))
    assert [f.result(SETTLE_S).offset for f in poured] == list(range(len(poured)))
    assert len(_values(cluster, 1)) == len(poured)


def test_closing_ends_a_wait(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """A broker that does not answer, a waiting thread, and another that closes."""
    cluster.faults.stall(0)
    future = _send_while_it_sleeps(producer)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(future.exception, SETTLE_S)
        until(lambda: producer._kprod.path.direct_path.is_awaited)
        assert producer.close(0.05) == 1
        assert isinstance(waits.result(SETTLE_S), ClosedError)
    cluster.faults.resume(0)


def test_what_breaks_on_the_way_ends_the_sender(producer: kprod.Producer) -> None:
    """As in a turn of its own: every future fails with the cause, and nothing more is taken."""
    _until_the_direct_path_opens(producer, TOPIC)
    until_it_sleeps(producer)
    producer._kprod.path.direct_path._client = None
    error = _send(producer).exception(SETTLE_S)
    assert isinstance(error, KprodError)
    assert "the sender thread died of" in str(error)
    with pytest.raises(KprodError):
        _send(producer)


def test_descriptors_are_given_back(cluster: EmbeddedCluster) -> None:
    """The direct path's own two, too."""

    def count() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = count()
    made = kprod.Producer(**cluster.client_settings(), linger_ms=0)
    for _ in range(10):
        _send(made).result(SETTLE_S)
    assert count() > before
    made.close()
    until(lambda: count() <= before)  # the broker closes its ends in its own time


@pytest.mark.parametrize(
    "settings", [{"linger_ms": 5}, {"compression_type": "gzip"}, {"acks": 0}], ids=str
)
def test_others_have_no_direct_path(cluster: EmbeddedCluster, settings: dict[str, Any]) -> None:
    """Where records linger, bytes are compressed in Python, or no response comes."""
    with kprod.Producer({"linger_ms": 0, **settings, **cluster.client_settings()}) as made:
        assert made._kprod.path.direct_path is None
        assert _send(made).result(SETTLE_S).partition == 0
