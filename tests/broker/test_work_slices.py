"""Requests that are handled in slices leave nothing behind."""

import gc
from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.broker.request import Request

RECORDS = 20


@pytest.fixture
def saved_garbage() -> Iterator[None]:
    """The collector keeps what it finds, and runs only when it is called."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("saved_garbage")
def test_a_request_is_freed_when_it_is_done() -> None:
    """A cycle would keep its frame in memory until the next collection."""
    with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        for number in range(RECORDS):
            assert producer.send("orders", b"%d" % number).result(60).offset == number
        gc.collect()
        assert not [found for found in gc.garbage if isinstance(found, Request)]
