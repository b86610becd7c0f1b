"""Lone records that their caller has written: each is delivered or fails, once."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import kprod
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import ClosedError, DeliveryTimeout, KprodError, Persistence
from kprod.network import epoll_selector
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.producer.direct_path.faults import FAULTS
from tests.producer.direct_path.lone import (
    TOPIC,
    LoneSends,
    hook_next_write,
    in_a_thread,
    planted_compressor,
)
from tests.producer.direct_path.sleeping import SETTLE_S, until, until_it_sleeps

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    pytest.mark.timeout(60, method="thread"),  # a handler of SIGALRM would close the path with TLS
]

MakeLone = Callable[..., LoneSends]


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """One broker, and a topic of one partition."""
    security = BrokerSecurity(protocol=request.param)
    with EmbeddedCluster(1, {TOPIC: 1}, security=security) as running:
        yield running


without_tls = pytest.mark.parametrize("cluster", ["PLAINTEXT"], indirect=True)


@pytest.fixture
def make_lone(cluster: EmbeddedCluster) -> Iterator[MakeLone]:
    """Makes producers, and closes them; a broker that a failing test leaves stalled continues."""
    made: list[kprod.Producer] = []

    def make(**settings: Any) -> LoneSends:
        made.append(
            kprod.Producer(**cluster.client_settings(), linger_ms=0, retry_backoff_ms=1, **settings)
        )
        return LoneSends(made[-1], cluster)

    yield make
    cluster.faults.clear()
    cluster.faults.resume(0)
    for producer in made:
        producer.close(SETTLE_S)


def test_a_flush_waits_for_it(make_lone: MakeLone) -> None:
    """The response is the sender's; the flush ends with it, and not before."""
    lone = make_lone()
    with lone.one_in_flight() as future:
        assert lone.producer.flush(0) == 1
        assert not future.done()
    assert lone.producer.flush(SETTLE_S) == 0
    assert future.done()
    lone.check()


def test_flush_right_after_each(make_lone: MakeLone) -> None:
    """No record is overtaken by the flush that covers it."""
    lone = make_lone()
    for _ in range(50):
        future = lone.send()
        assert lone.producer.flush(SETTLE_S) == 0
        assert future.done()
    assert lone.taken_count
    lone.check()


def test_a_purge_leaves_it(make_lone: MakeLone) -> None:
    """It is in flight already."""
    lone = make_lone()
    with lone.one_in_flight() as future:
        assert lone.producer.purge() == 0
        assert not future.done()
    until(future.done)
    lone.check()


def test_a_close_that_does_not_wait_fails_it(make_lone: MakeLone, cluster: EmbeddedCluster) -> None:
    """It may be in the log, once at most."""
    lone = make_lone()
    with lone.one_in_flight() as future:
        assert lone.producer.close(0) == 1
        error = future.exception(0)
        assert isinstance(error, ClosedError)
        assert error.persistence is Persistence.POSSIBLY_PERSISTED
        assert lone.producer._kprod.thread.has_ended
        pool = lone.producer._kprod.pool
        assert pool.available_bytes == pool.capacity_bytes
    value, _ = lone.sent[-1]
    assert [record.value for record in cluster.records(TOPIC)[0]].count(value) <= 1


def test_a_close_waits_for_it(make_lone: MakeLone) -> None:
    """As for any record."""
    lone = make_lone()
    future = lone.send()
    assert lone.producer.close(SETTLE_S) == 0
    assert future.exception(0) is None
    lone.check()


@pytest.mark.parametrize("follower_count", [0, 3])
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_response(
    make_lone: MakeLone, cluster: EmbeddedCluster, fault: str, follower_count: int
) -> None:
    """It and the records behind it are delivered once and in order."""
    lone = make_lone()
    for _ in range(3):
        FAULTS[fault](cluster)
        lone.send()
        for _ in range(follower_count):
            lone.send_now()
        until(lone.sent[-1][1].done)
        assert not cluster.faults.pending()
    assert lone.taken_count
    lone.check()


def _note_thread(names: list[str]) -> Callable[..., None]:
    return lambda *_: names.append(threading.current_thread().name)


def test_a_rejection_fails_it(make_lone: MakeLone, cluster: EmbeddedCluster) -> None:
    """Once, on the sender's thread; the next one is delivered."""
    lone = make_lone()
    for count in range(1, 4):
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
        told: list[str] = []
        future = lone.send(on_delivery=_note_thread(told))
        until(partial(bool, told))
        assert "INVALID_RECORD" in str(future.exception(0))
        lone.send()
        lone.check(failed_count=count)
        assert told == [f"kprod-sender-{lone.producer.client_id}"]
    assert lone.taken_count


@pytest.mark.slow
def test_a_broker_that_is_silent_for_longer_than_a_request(make_lone: MakeLone) -> None:
    """The record is sent again by the sender, and is in the log once."""
    lone = make_lone(request_timeout_ms=300)

    def lost() -> float:
        return float(lone.producer.metrics()["producer-metrics"]["connection-close-total"])

    before = lost()
    with lone.one_in_flight() as future:
        lone.send_now()
        until(lambda: lost() > before)
        assert not future.done()
    lone.check()


@pytest.mark.slow
def test_its_delivery_timeout_ends_it(make_lone: MakeLone, cluster: EmbeddedCluster) -> None:
    """Though the sender slept when it was sent; the producer continues."""
    lone = make_lone(request_timeout_ms=200, delivery_timeout_ms=1_500, retry_backoff_max_ms=1)
    with lone.one_in_flight() as future:
        until(future.done)
        assert isinstance(future.exception(0), DeliveryTimeout)
    lone.sent.pop()  # it may be in the log, or not
    value = b"after"
    placed = lone.producer.send(TOPIC, value).result(SETTLE_S)
    assert cluster.records(TOPIC)[0][placed.offset].value == value


@pytest.mark.slow
def test_two_threads(make_lone: MakeLone, cluster: EmbeddedCluster) -> None:
    """Each sends one by one; each keeps its order, and nothing comes twice."""
    lone = make_lone()
    producer, pause = lone.producer, threading.Event()

    def work(name: bytes) -> None:
        for number in range(200):
            future = producer.send(TOPIC, b"%s-%d" % (name, number), partition=0)
            until(future.done)
            pause.wait(0.0002 * (number % 5))

    threads = [threading.Thread(target=work, args=[name]) for name in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SETTLE_S)
    values = [record.value or b"" for record in cluster.records(TOPIC)[0]]
    for name in (b"a", b"b"):
        mine = [value for value in values if value.startswith(name)]
        assert mine == [b"%s-%d" % (name, number) for number in range(200)]
    lone.send()
    lone.check()


@without_tls
@pytest.mark.parametrize("count", [1, 5])
def test_records_that_another_thread_posts_during_the_write(
    make_lone: MakeLone, count: int
) -> None:
    """They do not get the lock, and wake the sender: they are delivered without further ado."""
    lone = make_lone()
    until_it_sleeps(lone.producer)
    posted: list[kprod.RecordFuture] = []
    locked: list[bool] = []

    def post() -> None:
        locked.append(lone.producer._kprod.path.direct_path._sender_lock.locked())
        posted.extend(lone.producer.send(TOPIC, b"posted") for _ in range(count))

    hook_next_write(lone.producer, lambda: in_a_thread(post))
    lone.send()
    assert len(posted) == count
    assert locked == [True]
    until(lambda: all(future.done() for future in posted))
    offsets = [future.result(0).offset for future in posted]
    first = lone.sent[-1][1].result(SETTLE_S).offset
    assert offsets == list(range(first + 1, first + 1 + count))
    lone.check()


@without_tls
@pytest.mark.parametrize("call", ["flush", "purge", "close"])
def test_another_thread_ends_things_during_the_write(make_lone: MakeLone, call: str) -> None:
    """It waits for the sender, which waits for the write: that ends, and all return."""
    lone = make_lone()
    until_it_sleeps(lone.producer)
    calls: dict[str, Callable[[], int]] = {
        "flush": lambda: lone.producer.flush(SETTLE_S),
        "purge": lone.producer.purge,
        "close": lambda: lone.producer.close(SETTLE_S),
    }
    returned: list[int] = []
    thread = threading.Thread(target=lambda: returned.append(calls[call]()))

    def begin() -> None:
        thread.start()
        thread.join(0.05)  # it has begun to wait, or will

    hook_next_write(lone.producer, begin)
    future = lone.send()
    thread.join(SETTLE_S)
    assert returned == [0]
    until(future.done)
    assert future.exception(0) is None
    lone.check()


CUT_WRITES: dict[str, BaseException] = {
    "a connection that was reset": ConnectionResetError("planted"),
    "no memory": MemoryError("planted"),
}


@without_tls
@pytest.mark.parametrize("error", CUT_WRITES)
def test_a_write_that_fails(make_lone: MakeLone, error: str) -> None:
    """Its connection ends; the record is sent again on another, and is in the log once."""
    lone = make_lone()
    until_it_sleeps(lone.producer)
    callers: list[int] = []

    def fail() -> None:
        callers.append(threading.get_ident())
        raise CUT_WRITES[error]

    hook_next_write(lone.producer, fail)
    future = lone.send()
    until(future.done)
    assert future.exception(0) is None
    assert callers == [threading.get_ident()]
    lone.check()


class _Planted(BaseException):
    """Not even an `Exception`."""


def _raise(*_: object, **__: object) -> Any:
    raise _Planted("planted")


class _Recorder:
    """A recorder that cannot count requests."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self.produced = _raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


def _forget_the_client(producer: kprod.Producer) -> None:
    producer._kprod.path.direct_path._client = None


def _fail_draining(producer: kprod.Producer) -> None:
    producer._kprod.sender._may_send = _raise


def _fail_counting(producer: kprod.Producer) -> None:
    recorder: Any = _Recorder(producer._kprod.sender._recorder)
    producer._kprod.sender._recorder = recorder


def _fail_encoding(producer: kprod.Producer) -> None:
    producer._kprod.sender.compressor = planted_compressor(_raise)


@pytest.mark.parametrize(
    "plant", [_forget_the_client, _fail_draining, _fail_counting, _fail_encoding]
)
def test_an_error_in_the_path_ends_the_sender(
    make_lone: MakeLone, plant: Callable[[kprod.Producer], None]
) -> None:
    """As in its own turn: the record fails with the cause, once, and `close` returns."""
    lone = make_lone()
    for _ in range(5):
        lone.send()
    until(lone.sent[-1][1].done)
    until_it_sleeps(lone.producer)
    plant(lone.producer)
    told: list[BaseException | None] = []
    future = lone.send_now(on_delivery=lambda _, error: told.append(error))
    until(lambda: len(told) > 0)
    error = future.exception(0)
    assert isinstance(error, KprodError)
    assert "the sender thread died of" in str(error)
    assert lone.producer._kprod.path.direct_path._failure is not None  # it was the caller's
    with pytest.raises(KprodError, match="the sender thread died of"):
        lone.producer.send(TOPIC, b"late")
    assert lone.producer.close(SETTLE_S) == 0
    assert lone.producer._kprod.thread.has_ended
    assert len(told) == 1
