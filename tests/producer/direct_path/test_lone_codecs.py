"""Lone records with compression: the sender's, whose codec may fail for one of them."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodError, Persistence
from kprod.model import Codec
from kprod.network import epoll_selector
from tests.producer.direct_path.lone import TOPIC, LoneSends, planted_compressor, until_lone
from tests.producer.direct_path.sleeping import SETTLE_S, until, until_it_sleeps

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    pytest.mark.timeout(60, method="thread"),
]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, and a topic of one partition."""
    with EmbeddedCluster(1, {TOPIC: 1}) as running:
        yield running


def _producer(cluster: EmbeddedCluster, codec: Codec) -> kprod.Producer:
    return kprod.Producer(**cluster.client_settings(), linger_ms=0, compression_type=codec)


class _Codec:
    """Raises for one batch, and otherwise does what another does; notes its threads.

    Attributes:
        threads: Idents of the threads that called it.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self._wrapped = wrapped
        self.threads: list[int] = []

    def __call__(self, records: Any) -> Any:
        """Compress, or fail."""
        self.threads.append(threading.get_ident())
        if len(self.threads) == 1:
            raise ValueError("planted")
        return self._wrapped(records)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_lone_records_with_each_codec(cluster: EmbeddedCluster, codec: Codec) -> None:
    """They are compressed and written on the sender's thread, and delivered once and in order."""
    with _producer(cluster, codec) as producer:
        assert producer._kprod.path.direct_path is None
        futures = []
        for number in range(10):
            futures.append(producer.send(TOPIC, b"%d" % number * 100, partition=0))
            until(futures[-1].done)
        assert [future.result(0).offset for future in futures] == list(range(10))
    values = [record.value for record in cluster.records(TOPIC)[0]]
    assert values == [b"%d" % number * 100 for number in range(10)]


@pytest.mark.parametrize("codec", Codec)
def test_a_codec_that_fails_for_a_lone_record(cluster: EmbeddedCluster, codec: Codec) -> None:
    """It fails alone and once, is not in the log, and the next ones are delivered.

    Without compression the codec is planted in the direct path, which has none: there a failed
    batch is settled in the sender's next turn.
    """
    told: list[tuple[int, BaseException | None]] = []

    def tell(_: object, error: BaseException | None) -> None:
        told.append((threading.get_ident(), error))

    with _producer(cluster, codec) as producer:
        for _ in range(3):
            until(producer.send(TOPIC, b"before", partition=0).done)
        is_direct = codec is Codec.NONE
        if is_direct:
            until_lone(producer)
            until_it_sleeps(producer)
        sender = producer._kprod.sender
        if sender.compressor is None:
            failing = _Codec(bytes)
            sender.compressor = planted_compressor(failing)
        else:
            failing = _Codec(sender.compressor.own.compress)
            sender.compressor.own.compress = failing
        future = producer.send(TOPIC, b"failed", partition=0, on_delivery=tell)
        until(lambda: len(told) > 0)
        error = future.exception(0)
        assert isinstance(error, KprodError)
        assert error.persistence is Persistence.NOT_PERSISTED
        assert isinstance(error.__cause__, ValueError)
        sender_ident = producer._kprod.thread._ident
        assert failing.threads == [threading.get_ident() if is_direct else sender_ident]
        assert [ident for ident, _ in told] == [sender_ident]
        if is_direct:
            sender.compressor = None
        after = [producer.send(TOPIC, b"after", partition=0) for _ in range(3)]
        until(lambda: all(future.done() for future in after))
        assert [future.exception(0) for future in after] == [None] * 3
        pool = producer._kprod.pool
        if is_direct:
            LoneSends(producer, cluster).send()
        assert producer.close(SETTLE_S) == 0
        assert pool.available_bytes == pool.capacity_bytes
    values = [record.value for record in cluster.records(TOPIC)[0]]
    assert b"failed" not in values
    assert values.count(b"before") == 3
    assert values.count(b"after") == 3
