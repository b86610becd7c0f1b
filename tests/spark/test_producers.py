"""Producers are kept between tasks, and thrown away after any failure."""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

import pytest

from kprod.broker import EmbeddedCluster
from kprod.spark.producers import PRODUCERS_MAX, ProducerCache

if TYPE_CHECKING:
    from kprod import Producer


@pytest.fixture
def cluster() -> Generator[EmbeddedCluster]:
    """Start a broker.

    Yields:
        It.
    """
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        yield cluster


@pytest.fixture
def cache() -> Generator[ProducerCache]:
    """Return an empty cache, closed after the test.

    Yields:
        It.
    """
    cache = ProducerCache()
    yield cache
    cache.close()


def settings(cluster: EmbeddedCluster, **more: str) -> Mapping[str, str]:
    """Return a producer's settings."""
    return {"bootstrap.servers": cluster.bootstrap_servers, **more}


def test_the_next_task_gets_the_same(cache: ProducerCache, cluster: EmbeddedCluster) -> None:
    """And another configuration another producer."""
    with cache.lend(settings(cluster)) as first:
        first.send("t", b"x")
    with cache.lend(settings(cluster)) as second:
        assert second is first
    with cache.lend(settings(cluster, acks="1")) as third:
        assert third is not first


def test_a_failed_task_ends_its_producer(cache: ProducerCache, cluster: EmbeddedCluster) -> None:
    """Whatever the error is, an interrupt too."""
    seen: list[Producer] = []

    def fail(error: BaseException) -> None:
        with cache.lend(settings(cluster)) as producer:
            seen.append(producer)
            raise error

    for error in (ValueError("of the query"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            fail(error)
        with pytest.raises(Exception, match="closed"):
            seen[-1].send("t", b"x")
    with cache.lend(settings(cluster)) as another:
        assert another not in seen


def test_one_that_died_between_tasks_is_not_lent(
    cache: ProducerCache, cluster: EmbeddedCluster
) -> None:
    """The next task gets another, and need not fail for it."""
    with cache.lend(settings(cluster)) as first:
        pass
    first.close(0)
    with cache.lend(settings(cluster)) as second:
        assert second is not first
        assert second.send("t", b"x").result(30).offset == 0


def test_few_are_kept(cache: ProducerCache, cluster: EmbeddedCluster) -> None:
    """The one used longest ago is closed first."""
    producers = []
    for number in range(PRODUCERS_MAX + 1):
        with cache.lend(settings(cluster, **{"client.id": f"c{number}"})) as producer:
            producers.append(producer)
    with pytest.raises(Exception, match="closed"):
        producers[0].send("t", b"x")
    assert producers[1].send("t", b"x").result(10).offset >= 0
