"""The same on real sockets: a proxy loses a connection at every byte of a request or response.

`make long` takes every byte; every run of the tests takes some of each frame.
"""

import itertools
from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.config import NetworkSettings
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import NetworkIO, system_io
from kprod.network.transport import Transport
from kprod.producer.wiring import Environment
from kprod.protocol.api import ApiKey
from tests.checker.checks import check_history
from tests.checker.history import Invoke, Logged, Settle, results_of
from tests.sweep.proxy import Proxy
from tests.sweep.spoiling import ByteCut, Ending

TARGETS = {
    ApiKey.API_VERSIONS: 0,
    ApiKey.METADATA: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.PRODUCE: 2,
}
RECORDS = 5
FRAME_BYTES_MAX = 1_000
STEP_OF_A_SAMPLE = 37
WAIT_S = 90.0  # ends a broken test
CONNECTIONS_MAX = 8  # two brokers' names lead there, and each lost connection is made again


class Stage:
    """A broker, and a proxy that every connection to it passes."""

    def __init__(self, cluster: EmbeddedCluster, proxy: Proxy) -> None:
        self._cluster = cluster
        self._proxy = proxy
        self._topics = itertools.count()

    def run(self, cut: ByteCut, ending: Ending) -> None:
        """Send five records, one after another, while a connection is lost; check them all."""
        topic = f"sweep-{next(self._topics)}"
        self._cluster.create_topic(topic, 1)
        self._proxy.lose_at(cut, ending)
        before = self._proxy.accepted
        events: list[Invoke | Settle] = []
        with kprod.Producer(
            bootstrap_servers=self._cluster.bootstrap_servers,
            linger_ms=0,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=20,
            retry_backoff_ms=5,
            request_timeout_ms=20_000,  # longer than a busy machine keeps anybody waiting
            delivery_timeout_ms=60_000,
            environment=Environment(io=self._io),
        ) as producer:
            for number in range(RECORDS):
                events.append(Invoke(2 * number, 0, number))
                metadata = producer.send(topic, b"%d" % number, partition=0).result(WAIT_S)
                offset = metadata.offset
                events.append(Settle(2 * number + 1, number, metadata.partition, offset))
        self._proxy.lose_at(None)
        logged = [
            Logged(partition, record.offset, int(record.value or b"-1"))
            for partition, records in self._cluster.records(topic).items()
            for record in records
        ]
        where = f"byte {cut.frame_bytes}, {ending}"
        assert list(check_history(results_of(events), logged)) == [], where
        assert self._proxy.accepted - before <= CONNECTIONS_MAX, where

    def _io(self, settings: NetworkSettings) -> NetworkIO:
        io = system_io(settings)

        def connect(address: SocketAddress) -> Transport:
            return io.connect(address._replace(port=self._proxy.port))

        return io._replace(connect=connect)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Make one cluster of one broker, and one proxy, for all cases."""
    with EmbeddedCluster(brokers=1) as cluster:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        with Proxy(port) as proxy:
            yield Stage(cluster, proxy)


def _sweep(stage: Stage, api: ApiKey, ending: Ending, step: int, *, is_response: bool) -> int:
    frame_bytes = FRAME_BYTES_MAX
    count = at_byte = 0
    while at_byte <= frame_bytes:
        cut = ByteCut(api, TARGETS[api], at_byte, is_response=is_response)
        stage.run(cut, ending)
        frame_bytes = cut.frame_bytes  # which may differ, with what a request asks for
        assert cut.has_acted or at_byte > frame_bytes >= 0
        count += cut.has_acted
        at_byte += step
    return count


@pytest.mark.slow
@pytest.mark.parametrize("is_response", [False, True], ids=["request", "response"])
@pytest.mark.parametrize("api", TARGETS, ids=lambda api: api.name)
@pytest.mark.parametrize("ending", Ending, ids=lambda ending: ending.name)
def test_some_bytes_are_no_bad_place_to_lose_a_connection(
    stage: Stage, api: ApiKey, ending: Ending, is_response: bool
) -> None:
    """Every record is acknowledged, and is in the log once, at its offset."""
    assert _sweep(stage, api, ending, STEP_OF_A_SAMPLE, is_response=is_response) >= 1


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("is_response", [False, True], ids=["request", "response"])
@pytest.mark.parametrize("api", TARGETS, ids=lambda api: api.name)
@pytest.mark.parametrize("ending", Ending, ids=lambda ending: ending.name)
def test_no_byte_is_a_bad_place_to_lose_a_connection(
    stage: Stage, api: ApiKey, ending: Ending, is_response: bool
) -> None:
    """The same for every byte."""
    assert _sweep(stage, api, ending, 1, is_response=is_response) > 20
