"""Records that are sent alone, and that nobody waits for: they leave on the caller's thread."""

from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.network import epoll_selector
from tests.producer.direct_path.sleeping import turns, until, until_it_sleeps

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    pytest.mark.timeout(60, method="thread"),  # a handler of SIGALRM would close the path with TLS
]

TOPIC = "orders"
_TRIES = 5


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """One broker, and a topic of one partition."""
    security = BrokerSecurity(protocol=request.param)
    with EmbeddedCluster(1, {TOPIC: 1}, security=security) as running:
        yield running


def test_lone_records_leave_on_the_callers_thread(cluster: EmbeddedCluster) -> None:
    """Nobody waits for them; the broker hangs, so that nothing but a send can wake the sender."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as producer:
        taken = [_leaves_alone(producer, cluster, b"%d" % n) for n in range(_TRIES)]
        assert any(taken)  # not all: a machine that stalls for a second makes it the sender's
        assert not producer._kprod.path.direct_path.is_awaited
        values = [record.value for record in cluster.records(TOPIC)[0]]
        assert values == [b"%d" % n for n in range(_TRIES) for _ in range(2)]


def _leaves_alone(producer: kprod.Producer, cluster: EmbeddedCluster, value: bytes) -> bool:
    """Send a record twice, the second while the sender sleeps; whether its caller wrote that."""
    until(producer.send(TOPIC, value).done)
    assert producer._kprod.sender.sent_single
    until_it_sleeps(producer)
    cluster.faults.stall(0)
    before = turns(producer)
    future = producer.send(TOPIC, value)
    is_taken: bool = producer._kprod.path.direct_path._response_wait.is_only_in_flight()
    until_it_sleeps(producer)
    is_taken = is_taken and turns(producer) == before
    cluster.faults.resume(0)
    until(future.done)
    return is_taken


def test_a_record_that_others_follow_is_left_to_the_sender(cluster: EmbeddedCluster) -> None:
    """The newest request had several, so this one may get company, too."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as producer:
        _settle_request(producer, 1)
        while producer._kprod.sender.sent_single:  # the sender may have woken between two of them
            _settle_request(producer, 30)
        until_it_sleeps(producer)
        cluster.faults.stall(0)
        before = turns(producer)
        future = producer.send(TOPIC, b"next")
        until_it_sleeps(producer)
        assert turns(producer) > before
        cluster.faults.resume(0)
        until(future.done)


def _settle_request(producer: kprod.Producer, record_count: int) -> None:
    """Send records at once, and see them settled without a wait."""
    values = [b"%d" % n for n in range(record_count)]
    receipt = producer.send_many(TOPIC, values, partitions=[0] * record_count)
    until(receipt.done)
