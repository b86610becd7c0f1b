"""A broker, and a consumer that keeps up with it, for tests of the direct path."""

import contextlib
from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster
from tests.consumer.direct_read.line import Line


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as running:
        yield running


@pytest.fixture
def line(cluster: EmbeddedCluster) -> Iterator[Line]:
    """A consumer that keeps up with a producer."""
    with contextlib.closing(Line(cluster)) as made:
        yield made
