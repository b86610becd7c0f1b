"""The direct path with TLS: what `ssl` runs inside its calls, and sessions that are Python code."""

import contextlib
import itertools
import select
import signal
import ssl
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

import kprod
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.network import epoll_selector
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.consumer.reading import LIMIT_S, wait_until

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    # By a thread: a handler of SIGALRM would close the path with TLS.
    pytest.mark.timeout(60, method="thread"),
]

TOPIC = "orders"
SETTLE_S = 30.0  # ends a broken test, never its rhythm
TRIES = 200


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with TLS."""
    with EmbeddedCluster(1, {TOPIC: 1}, security=BrokerSecurity(protocol="SSL")) as running:
        yield running


@pytest.fixture
def producer(cluster: EmbeddedCluster) -> Iterator[kprod.Producer]:
    """A producer whose records may take the path."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as made:
        yield made


def _takes_the_path(producer: kprod.Producer) -> bool:
    """Send a record and wait for it; whether its caller wrote the request."""
    future = producer.send(TOPIC, b"v")
    is_taken = not producer._kprod.path.direct_path.is_awaited
    future.result(SETTLE_S)
    return is_taken


def _opens(producer: kprod.Producer) -> bool:
    return any(_takes_the_path(producer) for _ in range(TRIES))


@contextlib.contextmanager
def _handler(number: int, handle: Callable[..., Any]) -> Generator[None]:
    previous = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, previous)


def test_a_handler_in_python_closes_the_path(producer: kprod.Producer) -> None:
    """On the main thread, where it would run inside `ssl`; and it opens again without one."""
    assert _opens(producer)
    with _handler(signal.SIGUSR1, lambda *_: None):
        producer.send(TOPIC, b"v").result(SETTLE_S)
        assert not any(_takes_the_path(producer) for _ in range(20))
    assert _opens(producer)


def test_another_thread_runs_no_handlers(producer: kprod.Producer) -> None:
    """So the path stays open to it."""
    found: list[bool] = []
    with _handler(signal.SIGUSR1, lambda *_: None):
        thread = threading.Thread(target=lambda: found.append(_opens(producer)))
        thread.start()
        thread.join(SETTLE_S)
    assert found == [True]


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_loses_and_repeats_nothing(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """Wherever it comes in, also inside `ssl`: every future gets its outcome, in the log once."""
    assert _opens(producer)
    before = len(cluster.records(TOPIC)[0])
    main, pause = threading.get_ident(), threading.Event()
    orders: SimpleQueue[float] = SimpleQueue()  # each is for one Ctrl-C, after some seconds

    def press() -> None:
        for _ in range(TRIES):
            pause.wait(orders.get())
            signal.pthread_kill(main, signal.SIGINT)

    futures: list[tuple[bytes, kprod.RecordFuture]] = []
    pressing = threading.Thread(target=press)
    pressing.start()
    for number in range(TRIES):
        with contextlib.suppress(KeyboardInterrupt):
            orders.put(number % 20 / 20_000)
            for count in itertools.count():
                value = b"%d-%d" % (number, count)
                future = producer.send(TOPIC, value)
                futures.append((value, future))
                future.result(SETTLE_S)
    pressing.join(SETTLE_S)
    for value, future in futures:
        assert cluster.records(TOPIC)[0][future.result(SETTLE_S).offset].value == value
    values = [record.value for record in cluster.records(TOPIC)[0]][before:]
    assert len(set(values)) == len(values)
    assert producer.metrics()["producer-metrics"]["connection-close-total"] <= 1  # the bootstrap's


def test_a_response_that_the_sender_has_not_seen(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """Its caller leaves it after the sender has slept again: the sender is told of it.

    Both watch the socket then. If the caller is first, the sender's epoll finds the socket empty.
    """
    assert _opens(producer)
    direct = producer._kprod.path.direct_path
    assert direct is not None
    wait_until(lambda: not direct._sender_lock.locked(), "the sender sleeps")
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.faults.stall(0)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: producer.send(TOPIC, b"v").result(SETTLE_S))
        wait_until(lambda: direct._is_waiting, "the caller waits")
        connection: Any = direct._response_wait._paused
        direct._client.wakeup()
        wait_until(lambda: direct._response_wait._paused is None, "the sender has resumed")
        wait_until(lambda: not direct._sender_lock.locked(), "the sender sleeps")
        selector: Any = direct._client.io.selector
        selector._epoll.modify(connection.channel.transport.fileno(), select.EPOLLRDHUP)
        cluster.faults.resume(0)
        sending.result(LIMIT_S)


class _OwnSession(ssl.SSLObject):
    """Python code, which a signal handler may interrupt."""


def test_a_session_in_python_is_the_senders(cluster: EmbeddedCluster) -> None:
    """Its methods would run on the caller's thread."""
    context = ssl.create_default_context(cadata=cluster.ca_pem)
    context.sslobject_class = _OwnSession
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_context": context,
        "linger_ms": 0,
    }
    with kprod.Producer(settings) as made:
        assert made._kprod.path.direct_path is not None
        for _ in range(20):
            made.send(TOPIC, b"v").result(SETTLE_S)
        assert made._kprod.path.direct_path._response_wait._channel is None
