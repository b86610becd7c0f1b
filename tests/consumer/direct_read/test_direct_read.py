"""A read that waits: its way on the polling thread alone, and every way out of it.

The broker runs in this process, so its responses come when its thread gets to them; each test
begins with records that were waited for, which is what opens the direct path.
"""

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kprod import Producer, TopicPartition
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.errors import ClosedError, ConcurrentPoll, KprodError, WakeupError
from kprod.network import epoll_selector
from kprod.network.response_wait import ResponseWait
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.consumer.direct_read.line import T0, Line
from tests.consumer.reading import LIMIT_S, consumer_of, poll_count, wait_until

pytestmark = pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)

LONG_MS = 60_000  # longer than a test
OUTSIDE = {"add", "remove"}  # of the waiter: the lock is not held, and the rest is done


class Interrupt(Exception):
    """The exception of a signal handler."""


class Turns:
    """Counts how often the I/O thread goes to sleep, in place of a recorder."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def falls_asleep(self) -> None:
        """Count."""
        self.count += 1


@contextlib.contextmanager
def alarms(handle: Callable[[], object], first_s: float, interval_s: float = 0) -> Generator[None]:
    """Run a function in signal handlers."""
    previous = signal.signal(signal.SIGALRM, lambda *_: handle())
    signal.setitimer(signal.ITIMER_REAL, first_s, interval_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_the_io_thread_sleeps_meanwhile(line: Line) -> None:
    """Elsewhere it takes two turns for a record: for the response, and for the next fetch."""
    client = engine_of(line.consumer).parts.client
    turns: Any = Turns(client._recorder)
    client._recorder = turns
    for _ in range(200):
        wait_until(line.sleeps, "the I/O thread sleeps")
        with line.sending_when_waited_for():
            line.read()
    assert turns.count < 100


def functions_run(call: Callable[[], object]) -> set[str]:
    """The Python code, outside of this file, that runs in the thread that makes a call."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            seen.add(frame.f_code.co_name)

    gc.disable()  # a collection runs callbacks and finalizers of others, outside of the lock
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return seen


@pytest.mark.parametrize("value", [b"", bytes(20_000)], ids=["small", "in pieces"])
def test_no_python_code_runs_on_the_way(line: Line, value: bytes) -> None:
    """From the wait to the next fetch: no signal handler can come in."""
    buffer, direct = engine_of(line.consumer).parts.buffer, line.direct
    taken = 0
    for _ in range(100):
        assert line.consumer.poll(0) == []  # frees the block of the record before
        wait_until(line.sleeps, "the I/O thread sleeps")
        with line.sending_when_waited_for(value):
            assert functions_run(lambda: direct.wait(bool, None)) <= OUTSIDE
            taken += buffer.has_arrived() and line.sleeps()
            line.read()
    assert taken > 50


def test_an_empty_response_is_read_too(cluster: EmbeddedCluster) -> None:
    """At the end of the broker's wait; the next fetch is sent."""
    with contextlib.closing(Line(cluster, fetch_max_wait_ms=50)) as line:
        counts = engine_of(line.consumer).parts.fetcher.counts
        before = counts.fetch_count
        assert line.consumer.poll(1) == []
        assert counts.fetch_count - before > 3
        line.send()
        line.read()


FAULTS: dict[str, Callable[[EmbeddedCluster], object]] = {
    "a late response": lambda c: c.faults.delay(ApiKey.FETCH, 50),
    "a response lost": lambda c: c.faults.disconnect(ApiKey.FETCH, handled=True),
    "a request lost": lambda c: c.faults.disconnect(ApiKey.FETCH),
    "a response twice": lambda c: c.faults.duplicate(ApiKey.FETCH),
    "a response cut short": lambda c: c.faults.cut(ApiKey.FETCH, 9),
    "a response cut in its records": lambda c: c.faults.cut(ApiKey.FETCH, 80),
    "its partition left out": lambda c: c.faults.omit(ApiKey.FETCH),
    "another leader": lambda c: c.faults.fail_next(ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "no session": lambda c: c.faults.fail_next(ApiKey.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    "a throttle": lambda c: c.throttle(ApiKey.FETCH, 20),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_response(line: Line, cluster: EmbeddedCluster, fault: str) -> None:
    """The records that it should have brought, and those behind, are read once and in order."""
    FAULTS[fault](cluster)
    for _ in range(10):
        line.send()
        line.read()
    assert not cluster.faults.pending()


@pytest.mark.parametrize("size_bytes", [3_000, 30_000, 70_000, 300_000])
def test_records_of_any_size(line: Line, size_bytes: int) -> None:
    """Larger ones are left to the I/O thread; small ones after them are not."""
    for _ in range(5):
        with line.sending_when_waited_for(bytes(size_bytes)):
            line.read()
        line.send()
        line.read()
    assert line.seen == line.sent
    wait_until(lambda: line.direct._fetcher.lone_node_id >= 0, "the path is open again")


def test_a_burst_is_read(line: Line) -> None:
    """Several records in one response, and several responses."""
    for _ in range(20):
        for _ in range(30):
            line.producer.send("t", b"%d," % line.sent, partition=0)
            line.sent += 1
        line.read(30)
    assert line.seen == line.sent


def test_several_brokers(cluster: EmbeddedCluster) -> None:
    """The path waits at one; the I/O thread serves the other."""
    del cluster
    with (
        EmbeddedCluster(brokers=2, topics={"t": 4}) as two,
        Producer(bootstrap_servers=two.bootstrap_servers, linger_ms=0) as producer,
        consumer_of(two, "t") as consumer,
    ):
        for number in range(200):
            partition = number % 3 if number % 7 else 3
            producer.send("t", b"%d" % number, partition=partition)
            (record,) = poll_count(consumer, 1)
            assert (record.value, record.partition) == (b"%d" % number, partition)


def test_another_broker_gets_its_share_of_the_memory(cluster: EmbeddedCluster) -> None:
    """Its fetch had waited while each direct read's next fetch asked for all of it."""
    del cluster
    with (
        EmbeddedCluster(brokers=2, topics={"t": 2}) as two,
        Producer(bootstrap_servers=two.bootstrap_servers, linger_ms=0) as producer,
        consumer_of(two, "t", fetch_buffer_memory=65_536, fetch_max_wait_ms=600) as consumer,
    ):
        second = TopicPartition("t", 1)
        for partition in (0, 1):
            producer.send("t", b"first", partition=partition)
            poll_count(consumer, 1)
        consumer.pause(second)
        asked_bytes = engine_of(consumer).parts.fetcher.asked_bytes
        while len(asked_bytes) > 1 or sum(asked_bytes.values()) < 65_536:
            assert consumer.poll(0.1) == []
        consumer.resume(second)
        producer.send("t", b"second", partition=1)
        (record,) = poll_count(consumer, 1)
        assert (record.partition, record.value) == (1, b"second")


def test_the_end_of_a_replicas_time_changes_the_broker(cluster: EmbeddedCluster) -> None:
    """The I/O thread sends the next fetch: to the leader, which the path does not wait at."""
    del cluster
    with (
        EmbeddedCluster(2, {"t": 1}, default_replication_factor=2, racks=["a", "b"]) as racks,
        contextlib.closing(Line(racks, client_rack="b", request_timeout_ms=LONG_MS)) as line,
    ):
        replicas, left = engine_of(line.consumer).parts.fetcher._replicas, 0
        for _ in range(20):
            wait_until(line.sleeps, "the I/O thread sleeps")
            preferred = replicas._preferred.get(T0)
            if preferred is not None:
                replicas._preferred[T0] = preferred._replace(until_ms=0)
                left += 1
            with line.sending_when_waited_for():
                line.read()
        assert left


def test_a_response_without_a_whole_batch_is_asked_for_again(cluster: EmbeddedCluster) -> None:
    """After a delay, which the I/O thread waits for; no Python code runs to wake it."""

    def cut_off(frame: bytes) -> bytes:
        at = frame.rindex(made.seen.to_bytes(8)) + 8  # after the batch's offset: its length
        length = int.from_bytes(frame[at : at + 4]) + 1_000
        return frame[:at] + length.to_bytes(4) + frame[at + 4 :]

    settings = {"request_timeout_ms": LONG_MS, "fetch_max_wait_ms": LONG_MS // 2}
    with contextlib.closing(Line(cluster, **settings)) as made:
        direct = made.direct
        for _ in range(3):
            cluster.faults.rewrite(ApiKey.FETCH, cut_off)
            made.send()
            made.read()
            assert made.consumer.poll(0) == []  # frees the block of the record before
            wait_until(made.sleeps, "the I/O thread sleeps")
            with made.sending_when_waited_for():
                assert functions_run(lambda: direct.wait(bool, None)) <= OUTSIDE
                made.read()
        assert not cluster.faults.pending()


def test_a_fetch_that_names_several_partitions_is_the_io_threads(cluster: EmbeddedCluster) -> None:
    """The protocol's tables run Python code."""
    del cluster
    with (
        EmbeddedCluster(1, {"t": 3}) as three,
        contextlib.closing(Line(three)) as made,
    ):
        made.consumer.assign([T0, TopicPartition("t", 1), TopicPartition("t", 2)])
        made.consumer.seek(T0, made.seen)
        direct, sessions = made.direct, engine_of(made.consumer).parts.plan.sessions
        for _ in range(5):
            direct._fetcher.lone_node_id = -1
            while direct._fetcher.lone_node_id < 0:  # the response to a full fetch is no lone one
                made.send()
                made.read()
            assert made.consumer.poll(0) == []  # frees the block of the record before
            wait_until(made.sleeps, "the I/O thread sleeps")
            (session,) = sessions.values()
            session.forget()  # as after a response of a broker that gives no session
            with made.sending_when_waited_for():
                assert functions_run(lambda: direct.wait(bool, None)) <= OUTSIDE
                made.read()


def test_a_wait_that_ends_leaves_the_response_to_the_io_thread(line: Line) -> None:
    """Nobody waits any more, and still the record is fetched."""
    assert line.consumer.poll(0.02) == []
    line.send()
    wait_until(engine_of(line.consumer).parts.buffer.has_arrived, "it is fetched")
    line.read()


def test_an_interrupted_wait_leaves_it_too(line: Line) -> None:
    """The handler's exception is raised by `poll`; the record comes with the next."""

    def handle() -> None:
        raise Interrupt

    with alarms(handle, 0.02), pytest.raises(Interrupt):
        line.consumer.poll(LIMIT_S)
    line.send()
    wait_until(engine_of(line.consumer).parts.buffer.has_arrived, "it is fetched")
    line.read()


def test_interrupts_lose_nothing(line: Line) -> None:
    """Wherever in `poll` a handler raises: every record is read once, and in order.

    Not in the frames of `Consumer.poll` and of its caller: a value that a call has returned is lost
    if a handler raises before it is stored, as of any call.
    """
    is_polling = False

    def handle(_: int, frame: FrameType | None) -> None:
        assert frame is not None
        code = frame.f_code  # not a finalizer's either, where an exception is lost
        if is_polling and "/kprod/consumer/" in code.co_filename and code.co_name != "poll":
            raise Interrupt

    seen: list[int] = []
    interrupts = 0
    first = line.sent
    with alarms(bool, 0.0004, 0.0004):
        signal.signal(signal.SIGALRM, handle)
        while interrupts < 200:
            line.producer.send("t", b"%d," % line.sent, partition=0)
            line.sent += 1
            is_polling = True
            try:
                records = line.consumer.poll(0.002)
            except Interrupt:
                interrupts += 1
                continue
            finally:
                is_polling = False
            seen += [int(record.value[:-1]) for record in records]
    seen += [int(it.value[:-1]) for it in poll_count(line.consumer, line.sent - first - len(seen))]
    assert seen == list(range(first, line.sent))


def test_a_handler_may_not_poll(line: Line) -> None:
    """The interrupted `poll` reads; it gets the record."""
    errors: list[BaseException] = []

    def handle() -> None:
        try:
            line.consumer.poll(0)
        except ConcurrentPoll as error:
            errors.append(error)

    wait_until(line.sleeps, "the I/O thread sleeps")
    with alarms(handle, 0.02, 0.02), line.sending_when_waited_for():
        line.read()
        line.consumer.poll(0.05)
    assert errors


def test_a_handler_may_send_and_wait(line: Line) -> None:
    """For the record that the interrupted `poll` waits for."""
    wait_until(line.sleeps, "the I/O thread sleeps")
    with alarms(line.send, 0.02):
        records = line.consumer.poll(LIMIT_S)
    assert [record.value for record in records] == [b"%d," % (line.sent - 1)]


def test_a_handler_may_close(line: Line) -> None:
    """The interrupted `poll` says that the consumer is closed."""
    wait_until(line.sleeps, "the I/O thread sleeps")
    with alarms(line.consumer.close, 0.02), pytest.raises(ClosedError):
        line.consumer.poll(LIMIT_S)


def test_a_handler_may_fork(line: Line) -> None:
    """The child reads nothing of the parent's, and the parent reads on."""
    children: list[int] = []

    def handle() -> None:
        if not children:
            children.append(os.fork())
            if children[0]:
                line.send()

    wait_until(line.sleeps, "the I/O thread sleeps")
    try:
        with alarms(handle, 0.02):
            records = line.consumer.poll(LIMIT_S)
    except KprodError as error:
        os._exit(0 if children == [0] and "fork" in str(error) else 1)
    if children == [0]:
        os._exit(2)  # the child has read a record
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    assert [record.value for record in records] == [b"%d," % (line.sent - 1)]
    line.seen = line.sent
    line.send()
    line.read()


def test_a_close_ends_the_wait(line: Line) -> None:
    """By another thread."""
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(line.consumer.poll, LIMIT_S)
        wait_until(line.waits, "a thread waits")
        line.consumer.close()
        assert isinstance(polling.exception(LIMIT_S), ClosedError)


def test_a_wakeup_ends_the_wait(line: Line) -> None:
    """By another thread; the records come with the next `poll`."""
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(line.consumer.poll, LIMIT_S)
        wait_until(line.waits, "a thread waits")
        line.consumer.wakeup()
        assert isinstance(polling.exception(LIMIT_S), WakeupError)
    line.send()
    line.read()


class Rest(ResponseWait):
    """Waits for a response of which the rest never arrives."""

    waits = 0

    def peek(self) -> None:
        """Return no frame."""

    def arrived_bytes(self) -> int:
        """Return a piece, after the first wait."""
        return 9 if self.waits else -1

    def wait(self, timeout_s: float) -> None:  # noqa: ARG002 - a ResponseWait's
        """Count."""
        self.waits += 1


@pytest.mark.parametrize("ends", ["by a notification", "by its deadline"])
def test_a_wait_for_the_rest_of_a_response_ends(line: Line, ends: str) -> None:
    """As the wait for its beginning does."""
    direct: Any = line.direct
    rest = Rest(direct._client.io.make_socket_wait(), 65_536)
    before, direct._response_wait = direct._response_wait, rest
    until_ms = 0 if ends == "by its deadline" else None

    def has_waited() -> bool:
        assert not direct.wait(lambda: rest.waits >= 2, until_ms)
        return rest.waits > 0

    wait_until(has_waited, "the I/O thread sleeps meanwhile")
    assert rest.waits <= (1 if until_ms == 0 else 2)
    direct._response_wait = before


def test_a_pause_and_a_seek_during_the_wait(line: Line) -> None:
    """By another thread: a paused partition is silent, and a seek leads back."""
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(line.consumer.poll, 0.3)
        wait_until(line.waits, "a thread waits")
        line.consumer.pause(T0)
        line.send()
        assert polling.result(LIMIT_S) == []
        line.consumer.resume(T0)
        line.read()
        polling = pool.submit(line.consumer.poll, LIMIT_S)
        wait_until(line.waits, "a thread waits")
        line.consumer.seek(T0, 1)
        assert polling.result(LIMIT_S)[0].value == b"1,"


def test_an_error_ends_the_wait(line: Line, cluster: EmbeddedCluster) -> None:
    """An error that the I/O thread finds is raised by the waiting `poll`."""
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(line.consumer.poll, LIMIT_S)
        wait_until(line.waits, "a thread waits")
        cluster.faults.fail_next(ApiKey.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = polling.exception(LIMIT_S)
    assert isinstance(error, KprodError)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)


def test_what_breaks_on_the_way_ends_the_io_thread(line: Line) -> None:
    """As in a turn of its own: the next `poll` says why."""
    wait_until(line.sleeps, "the I/O thread sleeps")
    broken: Any = None
    line.direct._buffer = broken
    with pytest.raises(KprodError, match=r"died of"):
        poll_count(line.consumer, 1)


def test_descriptors_are_given_back(cluster: EmbeddedCluster) -> None:
    """The direct path's own two, too."""

    def count() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = count()
    made = Line(cluster)
    assert count() > before
    made.close()
    wait_until(lambda: count() <= before, "the broker closes its ends in its own time")


def test_a_consumer_with_tls_has_no_direct_path(cluster: EmbeddedCluster) -> None:
    """The socket has ciphertext."""
    del cluster
    with (
        EmbeddedCluster(1, {"t": 1}, security=BrokerSecurity(protocol="SSL")) as secured,
        Consumer("t", **secured.client_settings()) as consumer,
    ):
        assert engine_of(consumer).parts.direct_read is None
