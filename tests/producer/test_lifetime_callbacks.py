"""Delivery callbacks may raise anything, and call the producer that they belong to."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import ClosedError, KprodError, KprodTimeout
from kprod.interfaces import OutgoingRecord
from kprod.model import RecordMetadata
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

WAIT_S = 30.0  # ends a broken test, never its rhythm
FAULTS: list[type[BaseException]] = [Exception, KeyboardInterrupt, SystemExit, GeneratorExit]

OnDelivery = Callable[[RecordMetadata | None, KprodError | None], None]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


@pytest.fixture(params=["delivered", "rejected"])
def producer(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[kprod.Producer]:
    """One whose records succeed, or fail for good."""
    if request.param == "rejected":
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD, times=1_000)
    made = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=50)
    yield made
    made.close(WAIT_S)


def _in_callback(producer: kprod.Producer, act: Callable[[], object]) -> object:
    """Send one record, and return what `act` returned or raised in its callback."""
    outcome: list[object] = []
    called = threading.Event()

    def call(*_: object) -> None:
        try:
            outcome.append(act())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            outcome.append(error)
        called.set()

    producer.send("orders", b"calls", on_delivery=call)
    assert called.wait(WAIT_S)
    return outcome[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_callback_may_raise_anything(
    producer: kprod.Producer, fault: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; every other record has its outcome, and the producer continues."""
    told: list[int] = []
    count = 20

    def tell(number: int) -> OnDelivery:
        def call(metadata: RecordMetadata | None, error: KprodError | None) -> None:
            assert (metadata is None) != (error is None)
            told.append(number)
            if number % 2:
                raise fault

        return call

    with caplog.at_level(logging.ERROR):
        futures = [producer.send("orders", b"", on_delivery=tell(n)) for n in range(count)]
        producer.flush(WAIT_S)
    assert told == list(range(count))
    assert all(future.done() for future in futures)
    reports = [record for record in caplog.records if "callback raised" in record.message]
    assert len(reports) == count // 2
    assert producer._kprod.path.closed_error is None


@pytest.mark.parametrize("fault", FAULTS)
def test_an_interceptor_may_raise_anything(
    cluster: EmbeddedCluster, fault: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The record's own callback runs all the same."""

    class Raising:
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            return record

        def on_acknowledgement(self, *_: object) -> None:
            raise fault

        def close(self) -> None:
            raise fault

    told: list[object] = []
    with (
        caplog.at_level(logging.CRITICAL),
        kprod.Producer(
            bootstrap_servers=cluster.bootstrap_servers, interceptors=[Raising()]
        ) as producer,
    ):
        producer.send("orders", b"", on_delivery=lambda *outcome: told.append(outcome))
        producer.flush(WAIT_S)
    assert len(told) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_receipt_s_callback_may_raise_anything(
    producer: kprod.Producer, fault: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The sender continues."""

    def fail(_: object) -> None:
        raise fault

    with caplog.at_level(logging.CRITICAL):
        producer.send_many("orders", [b"1", b"2"]).add_done_callback(fail)
        producer.flush(WAIT_S)
    assert producer._kprod.path.closed_error is None
    assert not producer._kprod.thread.has_ended


def test_a_callback_may_send(producer: kprod.Producer) -> None:
    """And the record that it sends is like any other; `flush` outside covers it the next time."""
    sent = _in_callback(producer, lambda: producer.send("orders", b"from the callback"))
    assert isinstance(sent, kprod.RecordFuture)
    producer.flush(WAIT_S)
    assert sent.done()


def test_waiting_for_itself_is_rejected(producer: kprod.Producer) -> None:
    """`flush`, and every way to ask for the outcome of an unsettled record of this producer."""

    def unsettled(ask: Callable[[kprod.RecordFuture], object]) -> Callable[[], object]:
        return lambda: ask(producer.send("orders", b"unsettled"))

    asks: list[Callable[[], object]] = [
        producer.flush,
        unsettled(lambda future: future.result()),
        unsettled(lambda future: future.result(WAIT_S)),
        unsettled(lambda future: future.exception()),
        unsettled(lambda future: future.to_concurrent().result()),
        unsettled(lambda future: future.to_concurrent().exception(WAIT_S)),
        unsettled(lambda future: kprod.failures_of([future])),
        unsettled(lambda future: kprod.failures_of([future], WAIT_S)),
        unsettled(lambda future: kprod.wait([future])),
        unsettled(lambda future: list(kprod.as_completed([future]))),
        lambda: producer.send_many("orders", [b"unsettled"]).result(WAIT_S),
    ]
    for ask in asks:
        rejected = _in_callback(producer, ask)
        assert isinstance(rejected, KprodError)
        assert "would wait for itself" in str(rejected)
    producer.flush(WAIT_S)


def test_not_waiting_and_settled_records_are_no_matter(producer: kprod.Producer) -> None:
    """`result(0)` says that it is not settled; a settled one returns."""
    earlier = producer.send("orders", b"earlier")
    producer.flush(WAIT_S)
    assert _in_callback(producer, earlier.exception) is earlier.exception()
    late = _in_callback(producer, lambda: producer.send("orders", b"").result(0))
    assert isinstance(late, KprodTimeout)


def test_another_producer_s_record_may_be_waited_for(
    producer: kprod.Producer, cluster: EmbeddedCluster
) -> None:
    """As when a record that failed is put elsewhere: that one has a sender of its own."""
    with kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as other:
        outcome = _in_callback(
            producer, lambda: other.send("orders", b"put elsewhere").exception(WAIT_S)
        )
    assert outcome is None or isinstance(outcome, KprodError)


def test_a_callback_may_purge(producer: kprod.Producer) -> None:
    """Unsent records fail; dropped ones are counted."""

    def purge() -> int:
        producer.send("orders", b"dropped")
        return producer.purge()

    assert _in_callback(producer, purge) == 1


def test_a_callback_may_close(cluster: EmbeddedCluster) -> None:
    """It returns at once; the sender ends, and every record has its outcome."""
    cluster.faults.delay(ApiKey.PRODUCE, 200, times=1)
    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    futures: list[kprod.RecordFuture] = []

    def close() -> int:
        futures.extend(producer.send("orders", b"unsent") for _ in range(5))
        return producer.close()

    assert _in_callback(producer, close) == 5
    assert producer.close(WAIT_S) == 0
    assert {type(future.exception(WAIT_S)) for future in futures} == {ClosedError}
    with pytest.raises(ClosedError):
        producer.send("orders", b"")


def test_a_close_that_a_callback_outlasts_says_so(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender ends once it has returned."""
    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    is_inside, may_leave = threading.Event(), threading.Event()

    def on_delivery(_: object, __: object) -> None:
        is_inside.set()
        may_leave.wait(WAIT_S)

    producer.send("orders", b"", on_delivery=on_delivery)
    assert is_inside.wait(WAIT_S)
    producer.close(0.01)
    may_leave.set()
    assert "a delivery callback or the compression of a batch has not returned" in caplog.text


def test_no_lock_is_held_while_a_callback_runs(producer: kprod.Producer) -> None:
    """Another thread can do everything that does not wait for this callback."""

    def everything() -> bool:
        def call() -> None:
            producer.send("orders", b"from another thread")
            producer.flush(0)
            producer._kprod.flush_soon()

        thread = threading.Thread(target=call)
        thread.start()
        thread.join(WAIT_S)
        return not thread.is_alive()

    assert _in_callback(producer, everything) is True


def test_a_callback_may_block(cluster: EmbeddedCluster) -> None:
    """`flush` and `close` return on time, say how many are behind it, and nothing is lost."""
    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    entered, released = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        entered.set()
        released.wait(WAIT_S)

    producer.send("orders", b"first", on_delivery=block)
    assert entered.wait(WAIT_S)
    behind = [producer.send("orders", b"behind") for _ in range(3)]
    assert producer.flush(0.05) == 3
    assert producer.close(0.05) == 3
    released.set()
    assert all(future.exception(WAIT_S) is not None for future in behind)
    assert producer.close(WAIT_S) == 0
