"""Records that are sent alone, and that nobody waits for: they leave on the caller's thread."""

from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.clock import SystemClock
from kprod.network import epoll_selector
from tests.producer.direct_path.lone import TOPIC, LoneSends, settle_request, until_lone
from tests.producer.direct_path.sleeping import produce_requests, turns, until, until_it_sleeps

pytestmark = [
    pytest.mark.skipif(
        not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
    ),
    pytest.mark.timeout(60, method="thread"),  # a handler of SIGALRM would close the path with TLS
]

_TRIES = 5
_MAX_IDLE_MS = 300_000  # the default


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
        assert values[-2:] == [b"%d" % (_TRIES - 1)] * 2


def _leaves_alone(
    producer: kprod.Producer, cluster: EmbeddedCluster, value: bytes, idle_ms: int = 0
) -> bool:
    """Send a record twice, the second while the sender sleeps; whether its caller wrote that.

    Args:
        producer: The producer.
        cluster: Its cluster.
        value: The value of both records.
        idle_ms: How much earlier the metadata has noted the first than it came.

    Returns:
        Whether the sender took no turn for the second.
    """
    until_lone(producer)
    until(producer.send(TOPIC, value).done)
    until_it_sleeps(producer)
    producer._kprod.metadata._topics[TOPIC] -= idle_ms
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
        settle_request(producer)
        while producer._kprod.sender.lone_count:  # the sender may have woken between two of them
            settle_request(producer, 30)
        until_it_sleeps(producer)
        cluster.faults.stall(0)
        future = producer.send(TOPIC, b"next")
        # Seen at once: a machine that is busy wakes the sender late.
        is_taken = producer._kprod.path.direct_path._response_wait.is_only_in_flight()
        cluster.faults.resume(0)
        until(future.done)
        assert not is_taken


def test_a_record_soon_after_another_ends_it(cluster: EmbeddedCluster) -> None:
    """It is in a request of its own as well; two that come together are to share one again."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as producer:
        until_lone(producer)
        cluster.faults.stall(0)
        before = produce_requests(producer)
        futures = [producer.send(TOPIC, b"first")]
        until(lambda: produce_requests(producer) == before + 1)
        futures.append(producer.send(TOPIC, b"second"))
        until(lambda: produce_requests(producer) == before + 2)
        assert producer._kprod.sender.lone_count == 0
        cluster.faults.resume(0)
        until(lambda: all(future.done() for future in futures))
        until_lone(producer)


def test_records_far_apart_leave_on_the_callers_thread(cluster: EmbeddedCluster) -> None:
    """A topic is in use for minutes after a record, and each notes the time again."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as producer:
        topics = producer._kprod.metadata._topics
        taken = []
        for n in range(_TRIES):
            taken.append(_leaves_alone(producer, cluster, b"%d" % n, idle_ms=60_000))
            assert topics[TOPIC] > _now_ms() + _MAX_IDLE_MS - 30_000
        assert any(taken)


def _now_ms() -> int:
    return SystemClock().now_ms()


@pytest.mark.parametrize("burst", [2, 3, 5])
def test_the_second_record_of_a_burst_ends_it(cluster: EmbeddedCluster, burst: int) -> None:
    """Only the first leaves on the caller's thread; two lone requests later it is so again."""
    with kprod.Producer(**cluster.client_settings(), linger_ms=0) as producer:
        lone = LoneSends(producer, cluster)
        with lone.one_in_flight():
            before = lone.taken_count
            for _ in range(burst - 1):
                lone.send_now()
            until(lambda: not producer._kprod.accumulator.inbox)
            until(lambda: producer._kprod.sender.lone_count == 0)
            assert lone.taken_count == before
        lone.check()
        for _ in range(_TRIES):
            lone.send()
        assert lone.taken_count > before
        lone.check()
