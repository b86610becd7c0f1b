"""The worked example by which the deque of requests in flight is taught."""

from kprod.network.in_flight import InFlightRequests
from tests.network.test_in_flight import in_flight


def test_four_requests_in_flight_the_last_without_response() -> None:
    """The newest is the head: r4 leaves when it is written, r1 to r3 with their responses."""
    requests = InFlightRequests()
    for correlation_id in (1, 2, 3):
        requests.add(in_flight(correlation_id))
    silent = in_flight(4, expects_response=False, is_written=False)
    requests.add(silent)
    assert [request.correlation_id for request in requests] == [4, 3, 2, 1]
    assert requests.take_written_without_response() == []

    silent.frame.advance(1)
    assert requests.take_written_without_response() == [silent]
    assert [request.correlation_id for request in requests] == [3, 2, 1]

    for correlation_id in (1, 2, 3):
        assert requests.oldest(correlation_id).correlation_id == correlation_id
        requests.complete_oldest()
    assert len(requests) == 0
