"""Requests that are sent and not answered."""

import pytest

from kprod.errors import RemoteProtocolError
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.in_flight import InFlightRequest, InFlightRequests
from kprod.network.outgoing import OutgoingFrame
from kprod.protocol.api import ApiKey
from kprod.timer.timer import Timer, TimerTask


def ignore(outcome: Outcome) -> None:
    """Nobody waits."""


def in_flight(
    correlation_id: int, *, expects_response: bool = True, is_written: bool = True
) -> InFlightRequest:
    """One request of four bytes."""
    request = ClientRequest(
        node_id=1, api_key=ApiKey.PRODUCE, on_complete=ignore, expects_response=expects_response
    )
    frame = OutgoingFrame([b"abcd"])
    frame.advance(4 if is_written else 3)
    return InFlightRequest(request, frame, version=9, correlation_id=correlation_id, now_ms=5_000)


def test_answers_belong_to_the_oldest() -> None:
    """First sent, first answered; the request leaves when it is completed."""
    requests = InFlightRequests()
    first, second = in_flight(1), in_flight(2)
    requests.add(first)
    requests.add(second)

    assert requests.oldest(1) is first
    requests.complete_oldest()
    assert requests.oldest(2) is second
    assert [request.correlation_id for request in requests] == [2]


def test_a_completed_request_is_free_at_once() -> None:
    """Its timer refers to it, and it no longer to the timer: no cycle is left to a collector."""
    requests, timer = InFlightRequests(), Timer(0)
    request = in_flight(1)
    request.timeout = TimerTask(lambda: request)
    timer.add_at(10, request.timeout)
    requests.add(request)

    requests.complete_oldest()

    assert request.timeout is None
    assert len(timer) == 0


@pytest.mark.parametrize("sent", [(), (1, 2)])
def test_another_answer_is_rejected(sent: tuple[int, ...]) -> None:
    """An unsolicited answer, and one out of order: nothing completes."""
    requests = InFlightRequests()
    for correlation_id in sent:
        requests.add(in_flight(correlation_id))

    with pytest.raises(RemoteProtocolError, match="correlation id 2"):
        requests.oldest(2)

    assert len(requests) == len(sent)


def test_room_in_flight() -> None:
    """At most the configured number, and none behind a half-written request."""
    requests = InFlightRequests()
    assert requests.has_room(1)
    requests.add(in_flight(1))
    assert not requests.has_room(1)
    assert requests.has_room(2)
    requests.add(in_flight(2, is_written=False))
    assert not requests.has_room(5)


def test_a_request_without_response_completes_when_written() -> None:
    """Behind one that waits for a response, and not before it is written whole."""
    requests = InFlightRequests()
    requests.add(in_flight(1))
    silent = in_flight(2, expects_response=False, is_written=False)
    requests.add(silent)
    assert requests.take_written_without_response() == []

    silent.frame.advance(1)

    assert requests.take_written_without_response() == [silent]
    assert len(requests) == 1


def test_take_all_gives_the_oldest_first_and_stops_the_timers() -> None:
    """Order of failure is order of sending."""
    requests, timer = InFlightRequests(), Timer(5_000)
    for correlation_id in (1, 2, 3):
        request = in_flight(correlation_id)
        request.timeout = TimerTask(list)
        timer.add(100, request.timeout)
        requests.add(request)

    assert [request.correlation_id for request in requests.take_all()] == [1, 2, 3]
    assert (len(requests), len(timer)) == (0, 0)
