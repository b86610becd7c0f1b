"""A MemoryError at one place of the sender's work ends the work at hand, never the producer.

Each test lets one call of that work raise once, as a failed allocation would.
"""

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodError, Persistence
from kprod.network import client_request as request
from kprod.network import metadata_updater
from kprod.producer import expiry, sender
from kprod.producer import produce_request as produce_call
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

WAIT_S = 30.0  # ends a broken test, never its rhythm


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1, "others": 1}) as running:
        yield running


@pytest.fixture(params=[0, 5], ids=["alone", "lingering"])
def producer(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[kprod.Producer]:
    """One that has delivered; with linger 0, a caller who waits sends and receives by himself."""
    made = kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        linger_ms=request.param,
        retry_backoff_ms=1,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=1,
    )
    for _ in range(3):
        assert made.send("orders", b"before").exception(WAIT_S) is None
    yield made
    made.close(WAIT_S)


class _Once:
    """Raises at its next call, and then does what the other does."""

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped
        self.has_raised = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise, or call."""
        if not self.has_raised:
            self.has_raised = True
            raise MemoryError
        return self.wrapped(*args, **kwargs)


@pytest.fixture
def fail_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str], _Once]:
    """Let the next call of a module's function raise."""

    def fail(module: ModuleType, name: str) -> _Once:
        once = _Once(getattr(module, name))
        monkeypatch.setattr(module, name, once)
        return once

    return fail


def _values(cluster: EmbeddedCluster) -> list[bytes | None]:
    return [record.value for record in cluster.records("orders").get(0, [])]


def _outcome(producer: kprod.Producer, topic: str, value: bytes) -> KprodError | None:
    """The outcome of a record, whether it was rejected or accepted."""
    try:
        producer.send(topic, value).result(WAIT_S)
    except KprodError as error:
        return error
    return None


def _check_alive(producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
    """It delivers, once each and in order, and ends with all its memory."""
    futures = [producer.send("orders", b"%d" % number) for number in range(5)]
    assert producer.flush(WAIT_S) == 0
    assert [future.exception(0) for future in futures] == [None] * 5
    assert _values(cluster)[-5:] == [b"%d" % number for number in range(5)]
    assert producer.close(WAIT_S) == 0
    pool = producer._kprod.pool
    assert pool.available_bytes == pool.capacity_bytes


@pytest.mark.parametrize("name", ["read_acknowledgements", "ClientRequest"])
def test_without_memory_for_an_answer_its_connection_ends_and_its_batches_go_again(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    fail_once: Callable[[ModuleType, str], _Once],
    name: str,
) -> None:
    """The record is in the log once, and said to be."""
    if name == "ClientRequest":  # a response with a rejection is read another way
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        once = fail_once(request, "response_codec")
    else:
        once = fail_once(produce_call, name)
    assert producer.send("orders", b"answered").exception(WAIT_S) is None
    assert once.has_raised
    assert _values(cluster).count(b"answered") == 1
    _check_alive(producer, cluster)


def test_without_memory_for_an_answer_about_the_cluster_the_question_is_asked_again(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    fail_once: Callable[[ModuleType, str], _Once],
) -> None:
    """A topic that was not known is, in the end."""
    once = fail_once(metadata_updater, "response_codec")
    assert _outcome(producer, "others", b"") is None
    assert once.has_raised
    _check_alive(producer, cluster)


def test_without_memory_for_a_request_its_batches_go_again(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    fail_once: Callable[[ModuleType, str], _Once],
) -> None:
    """Nothing of it was written."""
    once = fail_once(produce_call, "produce_rest")
    assert producer.send("orders", b"written").exception(WAIT_S) is None
    assert once.has_raised
    assert _values(cluster).count(b"written") == 1
    _check_alive(producer, cluster)


@pytest.mark.parametrize("name", ["ProduceRequest", "TopicRecords"])
def test_without_memory_to_put_batches_together_they_fail_and_the_next_are_delivered(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    fail_once: Callable[[ModuleType, str], _Once],
    name: str,
) -> None:
    """The error says that they are not in the log, and they are not."""
    once = fail_once(sender, name)
    error = producer.send("orders", b"never").exception(WAIT_S)
    assert once.has_raised
    assert isinstance(error, KprodError)
    assert "MemoryError" in str(error)
    assert "sender thread died" not in str(error)
    assert error.persistence is Persistence.NOT_PERSISTED
    assert b"never" not in _values(cluster)
    _check_alive(producer, cluster)


def test_a_deadline_without_memory_for_its_error_leaves_no_record_unsettled(
    producer: kprod.Producer,
    cluster: EmbeddedCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A timer's task that is cut off in its middle cannot be made up for: the producer says so."""

    def reject(*_: object) -> KprodError:
        raise MemoryError

    monkeypatch.setattr(expiry, "DeliveryTimeout", reject)
    cluster.faults.drop(ApiKey.PRODUCE, times=1_000)
    settings = functools.partial(kprod.Producer, bootstrap_servers=cluster.bootstrap_servers)
    short = settings(linger_ms=0, request_timeout_ms=100, delivery_timeout_ms=200)
    error = _outcome(short, "orders", b"late")
    assert "the sender thread died of MemoryError" in str(error)
    with pytest.raises(KprodError, match="died of MemoryError"):
        short.send("orders", b"")
    assert short.close(WAIT_S) == 0
    cluster.faults.clear()
    _check_alive(producer, cluster)
