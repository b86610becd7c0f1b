"""The client's loop: readiness, sending, time-outs, throttling, completions, closing."""

import logging
from typing import Any

import pytest

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import (
    ClosedError,
    Disconnected,
    LocalProtocolError,
    RequestTimeout,
    UnsupportedVersion,
)
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.outgoing import OutgoingFrame
from kprod.protocol.api import ApiKey
from tests.network.scripted import ALL_VERSIONS, Peer, World, metadata_body, ready_world

PRODUCER_ID = {"producer_id": 7, "producer_epoch": 0}


def test_first_poll_connects_to_a_bootstrap_address() -> None:
    """Metadata is wanted from the start, so the first turn opens one connection."""
    world = World()

    world.poll()
    world.poll()

    assert [str(transport.address) for transport in world.transports] == ["127.0.0.1:9001"]


def test_join_makes_a_snapshot() -> None:
    """The bootstrap connection asks for versions, then for metadata."""
    world = World()

    world.join({1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102)}, {})

    assert set(world.metadata.snapshot.nodes) == {1, 2}
    assert world.metadata.version == 1


def test_request_and_response() -> None:
    """A request goes out in the newest common version and its response completes it."""
    world, peer = ready_world(client_id="me")

    world.send(1)
    assert world.client.connections.in_flight_count(1) == 1
    request = peer.request()
    peer.respond(request, PRODUCER_ID)
    world.poll(3)

    (outcome,) = world.outcomes
    assert (request.api_key, request.client_id) == (ApiKey.INIT_PRODUCER_ID, "me")
    assert outcome.body is not None
    assert outcome.body["producer_id"] == 7
    assert (outcome.error, outcome.was_written, outcome.latency_ms) == (None, True, 3)
    assert (outcome.node_id, outcome.version, outcome.now_ms) == (1, request.version, world.now_ms)
    assert world.client.connections.in_flight_count(1) == 0


class OwnBytes(ClientRequest):
    """A request that writes and reads its own bytes."""

    asked: tuple[int, int, str] = (-1, -1, "")

    def encode(self, version: int, correlation_id: int, client_id: str) -> OutgoingFrame:
        """See `ClientRequest.encode`."""
        self.asked = version, correlation_id, client_id
        return OutgoingFrame([b"\0\0\0\x03", b"a", b"bc"])

    def decode(self, version: int, frame: bytes | bytearray) -> object:
        """See `ClientRequest.decode`."""
        return version, bytes(frame[4:])


def test_a_caller_may_bring_and_read_the_bytes() -> None:
    """It is told version, correlation id and client id; its pieces go out as they are."""
    world, peer = ready_world()
    outcomes: list[Outcome] = []
    request = OwnBytes(
        node_id=1, api_key=ApiKey.PRODUCE, on_complete=outcomes.append, versions=(3, 9)
    )

    world.client.send(request, world.now_ms)

    assert request.asked == (9, request.asked[1], "kprod")
    assert bytes(peer.transport.to_peer) == b"\0\0\0\x03abc"
    peer.transport.from_peer += b"\0\0\0\x07" + request.asked[1].to_bytes(4) + b"yes"
    world.poll()
    assert [outcome.body for outcome in outcomes] == [(9, b"yes")]


def test_up_to_five_requests_are_in_flight() -> None:
    """Then the node has no room until a response comes; answers complete in order."""
    world, peer = ready_world()
    for _ in range(5):
        assert world.client.can_send(1)
        world.send(1)
    assert not world.client.can_send(1)
    assert (
        world.client.connections.poll_delay_ms(world.metadata.snapshot.nodes[1], world.now_ms)
        == NEVER_MS
    )

    requests = peer.requests()
    for request in requests:
        peer.respond(request, {"producer_id": request.correlation_id})
    world.poll()

    ids = [outcome.body["producer_id"] for outcome in world.outcomes if outcome.body is not None]
    assert ids == [request.correlation_id for request in requests]
    assert world.client.can_send(1)


def test_nothing_is_sent_behind_a_half_written_request() -> None:
    """The node has room again when the socket has taken the rest."""
    world, peer = ready_world()
    peer.transport.room_bytes = 10

    world.send(1)
    assert not world.client.can_send(1)
    world.poll()
    assert peer.requests() == []
    peer.transport.room_bytes = 1_000
    world.poll()

    assert len(peer.requests()) == 1
    assert world.client.can_send(1)


def test_a_request_without_response_completes_when_written() -> None:
    """At the end of the next turn, which does not sleep before."""
    world, peer = ready_world()

    world.send(1, expects_response=False)
    assert world.outcomes == []
    world.poll()

    (outcome,) = world.outcomes
    assert (outcome.body, outcome.error, outcome.was_written) == (None, None, True)
    assert world.selector.timeouts_ms[-1] == 0
    assert len(peer.requests()) == 1


def test_a_request_to_a_node_that_is_not_ready() -> None:
    """It completes as disconnected, nothing written; nothing is lost or raised."""
    world, _ = ready_world()

    world.send(5)
    world.poll()

    (outcome,) = world.outcomes
    assert isinstance(outcome.error, Disconnected)
    assert (outcome.was_written, outcome.version) == (False, -1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"versions": (90, 99)}, UnsupportedVersion),
        ({"body": {"no_such_field": 1}}, LocalProtocolError),
        ({"body": None}, LocalProtocolError),
    ],
)
def test_a_request_that_cannot_be_made(fields: dict[str, Any], error: type[Exception]) -> None:
    """No common version, or a body that does not fit: told by the outcome, connection kept."""
    world, peer = ready_world()

    world.send(1, **fields)
    world.poll()

    (outcome,) = world.outcomes
    assert isinstance(outcome.error, error)
    assert not outcome.was_written
    assert world.client.can_send(1)
    assert peer.requests() == []


def test_a_node_that_lacks_the_request() -> None:
    """The text names the request; others continue."""
    world = World()
    world.join({1: ("127.0.0.1", 9101)})
    world.connect_node(1, {key: ALL_VERSIONS[key] for key in (3, 18)})

    world.send(1)
    world.poll()

    assert isinstance(world.outcomes[0].error, UnsupportedVersion)
    assert "INIT_PRODUCER_ID" in str(world.outcomes[0].error)


def test_a_silent_node_times_out() -> None:
    """Its connection is closed and every request of it ends, the response to the first included."""
    world, peer = ready_world(request_timeout_ms=1_000)
    world.send(1)
    world.clock.advance(400)
    world.send(1)

    world.poll(599)
    assert world.outcomes == []
    world.poll(1)

    assert [type(outcome.error) for outcome in world.outcomes] == [RequestTimeout, RequestTimeout]
    assert "1000 ms" in str(world.outcomes[0].error)
    assert "127.0.0.1:9101" in str(world.outcomes[0].error)
    assert peer.transport.is_closed
    assert not world.client.can_send(1)


def test_an_answer_that_is_here_is_not_late() -> None:
    """After a long pause of the process, sockets are read before deadlines are looked at."""
    world, peer = ready_world(request_timeout_ms=1_000)
    world.send(1)
    peer.respond(peer.request(), PRODUCER_ID)

    world.poll(60_000)

    assert world.outcomes[0].error is None


def test_a_requests_own_timeout() -> None:
    """`timeout_ms` of the request goes before the setting."""
    world, _ = ready_world(request_timeout_ms=1_000)
    world.send(1, timeout_ms=50)

    world.poll(50)

    assert isinstance(world.outcomes[0].error, RequestTimeout)


def _send_again(world: World) -> None:
    connection = world.client.connections.by_node_id[1]
    in_flight = connection.requests.newest
    assert in_flight is not None
    number = connection.next_correlation_id()
    written = b"".join(map(bytes, in_flight.frame.pieces))
    frame = written[:8] + number.to_bytes(4) + written[12:]
    connection.send_again(in_flight, frame, number, world.now_ms)


def test_a_request_that_is_sent_again_has_its_whole_time_again() -> None:
    """Its first deadline passes; at the second the connection ends."""
    world, peer = ready_world(request_timeout_ms=1_000)
    world.send(1)
    for _ in range(3):
        world.clock.advance(600)
        _send_again(world)
    world.poll(999)
    assert world.outcomes == []
    world.poll(1)

    assert [type(outcome.error) for outcome in world.outcomes] == [RequestTimeout]
    assert peer.transport.is_closed


def test_a_request_that_is_sent_again_is_one_request() -> None:
    """The response to the last sending completes it, and no timer stays."""
    world, peer = ready_world(request_timeout_ms=1_000)
    before = len(world.timer)
    world.send(1)
    world.clock.advance(600)
    _send_again(world)
    world.poll(500)  # beyond the first deadline
    first, second = peer.requests()
    assert first.correlation_id != second.correlation_id
    peer.respond(second, PRODUCER_ID)
    world.poll()

    (outcome,) = world.outcomes
    assert (outcome.error, outcome.latency_ms) == (None, 500)
    assert len(world.timer) == before


def test_a_throttle_lengthens_one_sending_only() -> None:
    """The request that is sent again has its usual time."""
    world, _ = ready_world(request_timeout_ms=1_000)
    world.send(1)
    connection = world.client.connections.by_node_id[1]
    connection._throttle(50)
    in_flight = connection.requests.newest
    assert in_flight is not None
    assert in_flight.deadline_ms - in_flight.sent_at_ms == 1_050
    world.clock.advance(100)
    _send_again(world)
    assert in_flight.deadline_ms - in_flight.sent_at_ms == 1_000


def test_answered_requests_leave_no_timer() -> None:
    """Only the idle deadline of each connection stays."""
    world, peer = ready_world()
    before = len(world.timer)
    for _ in range(5):
        world.send(1)
    assert len(world.timer) == before + 5
    for request in peer.requests():
        peer.respond(request, PRODUCER_ID)
    world.poll()

    assert len(world.timer) == before


@pytest.mark.parametrize(
    ("throttle_ms", "muted_ms"), [(30_000, 30_000), (2**31 - 1, 5 * 60_000), (0, 0), (-5, 0)]
)
def test_a_throttle_mutes_one_node(throttle_ms: int, muted_ms: int) -> None:
    """For as long as the broker asks, five minutes at most; no other node is touched."""
    world = World()
    world.join({1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102)})
    peer = world.connect_node(1)
    world.connect_node(2)
    world.send(1)
    peer.respond(peer.request(), {**PRODUCER_ID, "throttle_time_ms": throttle_ms})
    world.poll()

    node = world.metadata.snapshot.nodes[1]
    assert world.outcomes[0].error is None
    assert world.client.connections.poll_delay_ms(node, world.now_ms) == muted_ms
    assert world.client.is_ready(2, world.now_ms)
    if muted_ms:
        assert not world.client.is_ready(1, world.now_ms + muted_ms - 1)
    assert world.client.is_ready(1, world.now_ms + muted_ms) == (muted_ms < 300_000)
    assert world.client.can_send(1)


def test_throttled_time_is_not_counted_against_requests() -> None:
    """The second request's deadline moves by the throttle that came with the first response."""
    world, peer = ready_world(request_timeout_ms=1_000)
    world.send(1)
    world.send(1)
    first, _ = peer.requests()
    peer.respond(first, {**PRODUCER_ID, "throttle_time_ms": 5_000})
    world.poll()

    world.poll(5_999)
    assert len(world.outcomes) == 1
    world.poll(1)

    assert isinstance(world.outcomes[1].error, RequestTimeout)


def test_overlapping_throttles_give_requests_the_time_of_one() -> None:
    """Nothing is sent until the later one ends, and deadlines move by no more than that."""
    world, peer = ready_world(request_timeout_ms=1_000)
    for _ in range(3):
        world.send(1)
    first, second, _ = peer.requests()
    peer.respond(first, {**PRODUCER_ID, "throttle_time_ms": 5_000})
    world.poll()
    world.poll(10)
    peer.respond(second, {**PRODUCER_ID, "throttle_time_ms": 5_000})
    world.poll()

    world.poll(5_999)
    assert len(world.outcomes) == 2
    world.poll(1)

    assert isinstance(world.outcomes[2].error, RequestTimeout)


def test_a_completion_that_raises_is_called_again_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, so that nothing waits for it; the others still run."""
    world, peer = ready_world()
    given: list[Outcome] = []

    def fail_once(outcome: Outcome) -> None:
        given.append(outcome)
        if outcome.error is None:
            raise ValueError("planted")

    world.send(1, on_complete=fail_once)
    world.send(1)
    for request in peer.requests():
        peer.respond(request, PRODUCER_ID)
    with caplog.at_level(logging.ERROR):
        world.poll()

    first, second = given
    assert (first.error, second.body) == (None, None)
    assert isinstance(second.error, Disconnected)
    assert "INIT_PRODUCER_ID could not be processed: ValueError: planted" in str(second.error)
    assert second.was_written
    assert (second.node_id, second.version, second.now_ms) == (1, first.version, first.now_ms)
    assert len(world.outcomes) == 1
    assert "planted" in caplog.text
    assert "INIT_PRODUCER_ID" in caplog.text


def test_a_completion_that_raises_for_an_error_gets_the_same_error_again() -> None:
    """A closed client is not mistaken for a lost connection."""
    world, _ = ready_world()
    errors: list[object] = []

    def fail_once(outcome: Outcome) -> None:
        errors.append(outcome.error)
        if len(errors) == 1:
            raise MemoryError

    world.send(1, on_complete=fail_once)
    world.client.close()

    assert isinstance(errors[0], ClosedError)
    assert errors == [errors[0]] * 2


def test_a_completion_that_raises_twice_ends_the_turn() -> None:
    """Nothing waits for it in silence; the completions behind it run in the next turn."""
    world, peer = ready_world()

    def fail(_outcome: Outcome) -> None:
        raise ValueError("planted")

    world.send(1, on_complete=fail)
    world.send(1)
    for request in peer.requests():
        peer.respond(request, PRODUCER_ID)
    with pytest.raises(ValueError, match="planted"):
        world.poll()
    world.poll()

    assert len(world.outcomes) == 1


def test_an_interrupted_completion_keeps_the_others() -> None:
    """An uncaught error stops the turn; the completions behind it run in the next one."""
    world, peer = ready_world()

    def interrupt(_outcome: Outcome) -> None:
        raise KeyboardInterrupt

    world.send(1, on_complete=interrupt)
    world.send(1)
    for request in peer.requests():
        peer.respond(request, PRODUCER_ID)
    with pytest.raises(KeyboardInterrupt):
        world.poll()
    world.poll()

    assert len(world.outcomes) == 1


def test_a_completion_may_send() -> None:
    """It sees a client whose room has been given back."""
    world, peer = ready_world(max_in_flight_requests_per_connection=1)

    world.send(1, on_complete=lambda _: world.send(1))
    peer.respond(peer.request(), PRODUCER_ID)
    world.poll()
    peer.respond(peer.request(), PRODUCER_ID)
    world.poll()

    assert [outcome.error for outcome in world.outcomes] == [None]


def test_metadata_goes_first() -> None:
    """While a question is due no node is ready, though it could be sent to."""
    world, _ = ready_world()
    assert world.client.is_ready(1, world.now_ms)

    world.metadata.add_topic("new", world.now_ms)

    assert world.client.can_send(1)
    assert not world.client.is_ready(1, world.now_ms)
    world.poll()
    assert world.client.is_ready(1, world.now_ms)


def test_poll_sleeps_until_the_next_deadline() -> None:
    """The caller's limit, a timer, metadata's age: whichever comes first."""
    world, peer = ready_world(request_timeout_ms=1_000)

    world.client.poll(20, world.now_ms)
    assert world.selector.timeouts_ms[-1] == 20
    world.send(1)
    world.poll()
    assert world.selector.timeouts_ms[-1] == 1_000
    peer.respond(peer.request(), PRODUCER_ID)
    world.poll()
    world.poll()
    assert 1_000 < world.selector.timeouts_ms[-1] <= 300_000


def test_wakeup_reaches_the_selector() -> None:
    """It is the only call for other threads."""
    world, _ = ready_world()
    world.client.wakeup()

    assert world.selector.wakeups == 1


def test_disconnect_ends_requests_in_flight() -> None:
    """The caller hears it in the next turn."""
    world, peer = ready_world()
    world.send(1)

    world.client.disconnect(1)
    world.client.disconnect(99)
    assert world.outcomes == []
    world.poll()

    assert isinstance(world.outcomes[0].error, Disconnected)
    assert peer.transport.is_closed


def test_close_completes_everything_and_leaves_nothing() -> None:
    """Requests end as closed, sockets and the I/O are closed, no timer stays."""
    world, peer = ready_world()
    world.send(1)
    world.send(1, on_complete=lambda _: world.send(1))

    world.client.close()
    world.client.close()

    assert [type(outcome.error) for outcome in world.outcomes] == [ClosedError, ClosedError]
    assert world.outcomes[0].was_written
    assert not world.outcomes[1].was_written
    assert all(transport.is_closed for transport in world.transports)
    assert world.selector.is_closed
    assert world.selector.watched == {}
    assert len(world.timer) == 0
    assert peer.transport.is_closed


def test_idle_connections_are_closed_quietly() -> None:
    """No error, no question about the cluster, no wait before the next attempt."""
    world, peer = ready_world(connections_max_idle_ms=10_000)
    world.poll(9_999)
    assert world.client.can_send(1)
    world.send(1)
    peer.respond(peer.request(), PRODUCER_ID)
    world.poll()

    world.poll(9_999)
    assert world.client.can_send(1)
    world.poll(1)

    assert not world.client.can_send(1)
    assert peer.transport.is_closed
    assert world.metadata.connection_failures.by_address == {}
    assert world.metadata.update_due_in_ms(world.now_ms) > 0
    assert not world.client.ready(world.metadata.snapshot.nodes[1], world.now_ms)
    assert len(world.transports) == 3


def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    """However long the broker takes, within the request's own time."""
    world, peer = ready_world(connections_max_idle_ms=1_000, request_timeout_ms=30_000)
    world.send(1)
    world.poll(20_000)
    peer.respond(peer.request(), PRODUCER_ID)
    world.poll()

    assert world.outcomes[0].error is None


def test_correlation_ids_differ_between_requests_in_flight() -> None:
    """Each request has its own, over all connections."""
    world, peer = ready_world()
    for _ in range(5):
        world.send(1)

    assert len({request.correlation_id for request in peer.requests()}) == 5


def test_a_node_that_left_the_cluster_is_forgotten() -> None:
    """Its connection's state goes once it is down, so a hostile cluster cannot grow the client."""
    world, peer = ready_world()
    world.metadata.request_update()
    world.poll(2_000)
    peers = [Peer(transport) for transport in world.transports]
    for each in peers:
        for request in each.requests():
            each.respond(request, metadata_body({5: ("127.0.0.1", 9105)}))
    world.poll()
    assert set(world.metadata.snapshot.nodes) == {5}
    for each in peers:
        each.close()
    world.poll()

    world.client.ready(world.metadata.snapshot.nodes[5], world.now_ms)

    assert set(world.client.connections.by_node_id) == {5}
    assert peer.transport.is_closed
