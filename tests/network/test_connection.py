"""Getting connected, and every way of losing the connection again."""

import errno
import itertools
from collections.abc import Callable

import pytest

from kprod.errors import Disconnected, RemoteProtocolError
from kprod.protocol.api import ApiKey
from tests.network.scripted import (
    ALL_VERSIONS,
    Peer,
    PeerRequest,
    World,
    metadata_body,
    ready_world,
)

PRODUCER_ID = {"producer_id": 7, "producer_epoch": 0}
REFUSED = OSError(errno.ECONNREFUSED, "Connection refused")


def reason(world: World, address: str = "127.0.0.1:9001") -> str:
    """Why an address cannot be used."""
    return world.metadata.connection_failures.by_address[address]


def test_a_cut_at_each_byte_of_a_response() -> None:
    """Wherever the connection ends, the request ends once: answered only if all of it came."""
    length = len(Peer.frame(ready_and_asked()[2], PRODUCER_ID))
    for cut in range(length + 1):
        world, peer, request = ready_and_asked()
        peer.transport.from_peer += Peer.frame(request, PRODUCER_ID)[:cut]
        peer.close()

        world.poll()
        world.poll()

        (outcome,) = world.outcomes
        if cut == length:
            assert outcome.error is None
        else:
            assert isinstance(outcome.error, Disconnected)
            assert outcome.was_written
        assert peer.transport.is_closed


def ready_and_asked() -> tuple[World, Peer, PeerRequest]:
    """A client whose request has reached node 1."""
    world, peer = ready_world()
    world.send(1)
    return world, peer, peer.request()


def test_a_response_byte_by_byte() -> None:
    """It completes with its last byte."""
    world, peer, request = ready_and_asked()
    for byte in Peer.frame(request, PRODUCER_ID):
        assert world.outcomes == []
        peer.transport.from_peer.append(byte)
        world.poll()

    assert world.outcomes[0].error is None


def test_a_reset_at_each_byte_of_a_request() -> None:
    """`was_written` says whether the peer may have seen anything of it."""
    for cut in range(40):
        world, peer = ready_world()
        peer.transport.room_bytes = cut
        world.send(1)
        was_whole = world.client.can_send(1)
        peer.transport.io_error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        world.poll()

        (outcome,) = world.outcomes
        assert isinstance(outcome.error, Disconnected)
        assert "Connection reset by peer" in str(outcome.error)
        assert outcome.was_written == (cut > 0)
        assert not world.client.can_send(1)
        if was_whole:
            break
    assert cut > 20


def test_a_reset_found_while_sending() -> None:
    """The write itself fails: the outcome comes in the next turn, nothing is raised."""
    world, peer = ready_world()
    peer.transport.io_error = BrokenPipeError(errno.EPIPE, "Broken pipe")

    world.send(1)
    world.poll()

    (outcome,) = world.outcomes
    assert isinstance(outcome.error, Disconnected)
    assert not outcome.was_written


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame[:4] + (99).to_bytes(4, "big") + frame[8:],  # another correlation id
        lambda frame: frame + frame,  # a response that nobody asked for
        lambda frame: (len(frame) - 5).to_bytes(4, "big") + frame[4:-1],  # a body cut short
        lambda frame: b"\0\0\0\x03" + frame[4:],  # no room for a correlation id
        lambda frame: b"\x7f\xff\xff\xff" + frame[4:],
        lambda frame: b"\xff\xff\xff\xff" + frame[4:],
        lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_bytes_that_are_no_response_end_the_connection(spoil: Callable[[bytes], bytes]) -> None:
    """Requests end as disconnected, to be tried again; the cause says what the peer did."""
    world, peer, request = ready_and_asked()
    world.send(1)
    peer.transport.from_peer += spoil(Peer.frame(request, PRODUCER_ID))
    world.poll()
    world.poll()

    failed = [outcome for outcome in world.outcomes if outcome.error is not None]
    assert len(world.outcomes) == 2
    assert failed
    for outcome in failed:
        assert isinstance(outcome.error, Disconnected)
        assert isinstance(outcome.error.__cause__, RemoteProtocolError)
        assert outcome.was_written
    assert len({id(outcome.error) for outcome in failed}) == len(failed)
    assert peer.transport.is_closed
    assert world.client.connections.in_flight_count(1) == 0


def test_bytes_behind_a_body_are_ignored() -> None:
    """A stray byte inside the frame hurts no one; librdkafka's mock cluster sends one."""
    world, peer, request = ready_and_asked()
    frame = Peer.frame(request, PRODUCER_ID) + b"\0"
    peer.transport.from_peer += (len(frame) - 4).to_bytes(4, "big") + frame[4:]

    world.poll()

    assert world.outcomes[0].error is None


def test_answers_before_junk_count() -> None:
    """Requests answered well before the junk are complete."""
    world, peer, request = ready_and_asked()
    peer.transport.from_peer += Peer.frame(request, PRODUCER_ID) + b"HTTP/1.1 500 \r\n"

    world.poll()

    assert world.outcomes[0].error is None
    assert "looks like an HTTP server" in reason(world, "127.0.0.1:9101")


@pytest.mark.parametrize(
    ("greeting", "expected"),
    [
        (b"HTTP/1.1 400 Bad\r\n", "HTTP server"),
        (b"\x15\x03\x03\0\x02\x02\x46", "port of a PLAINTEXT listener"),
    ],
)
def test_another_kind_of_server_on_the_port(greeting: bytes, expected: str) -> None:
    """The reason that a caller of `send` will read says what is there."""
    world = World()
    world.poll()
    peer = world.newest.accept()
    world.poll()
    peer.transport.from_peer += greeting
    world.poll()

    assert expected in reason(world)
    assert peer.transport.is_closed


def test_a_broker_that_closes_before_it_says_its_versions() -> None:
    """As a TLS or SASL listener does with a plain client; the text says what can be done."""
    world = World()
    world.poll()
    peer = world.newest.accept()
    world.poll()
    peer.close()
    world.poll()

    assert "may want TLS or SASL" in reason(world)
    assert "port of a PLAINTEXT listener" in reason(world)


def test_a_broker_that_accepts_and_says_nothing() -> None:
    """The question about versions has the request's timeout like any other."""
    world = World(request_timeout_ms=2_000)
    world.poll()
    peer = world.newest.accept()
    world.poll()

    world.poll(1_999)
    assert not peer.transport.is_closed
    world.poll(1)

    assert peer.transport.is_closed
    assert "did not answer API_VERSIONS within 2000 ms" in reason(world)


def test_a_late_look_at_the_clock_is_not_taken_for_the_timeout() -> None:
    """The text names the time that was set, not that at which the timer was looked at."""
    world = World(request_timeout_ms=2_000)
    world.poll()
    world.newest.accept()
    world.poll()
    world.poll(2_001)
    assert "did not answer API_VERSIONS within 2000 ms (request_timeout_ms)" in reason(world)


def test_an_older_broker_is_asked_again_in_its_version() -> None:
    """On the same connection, with a new correlation id."""
    world = World()
    world.poll()
    peer = world.newest.accept()
    world.poll()
    first = peer.request()
    offered = [{"api_key": 18, "min_version": 0, "max_version": 2}]
    peer.respond(first, {"error_code": 35, "api_keys": offered}, version=0)
    world.poll()
    peer.send_versions(ALL_VERSIONS)
    world.poll()

    assert world.client.can_send(-1)
    assert len(world.transports) == 1


def test_a_broker_that_rejects_every_version_is_left() -> None:
    """At most one question per version; then the connection is closed."""
    world = World()
    world.poll()
    peer = world.newest.accept()
    world.poll()
    asked = []
    for _ in range(20):
        for request in peer.requests():
            asked.append(request.version)
            peer.respond(request, {"error_code": 35, "api_keys": []}, version=0)
        world.poll()

    assert asked == [ALL_VERSIONS[ApiKey.API_VERSIONS][1], 0]
    assert peer.transport.is_closed
    assert "rejects ApiVersions" in reason(world)


def test_the_next_attempt_waits() -> None:
    """One attempt per back-off, growing to the cap; never two connections at once."""
    world = World(reconnect_backoff_ms=100, reconnect_backoff_max_ms=1_000)
    attempts_ms: list[int] = []
    for _ in range(20_000):
        world.poll(1)
        if len(world.transports) > len(attempts_ms):
            attempts_ms.append(world.now_ms)
            world.transports[-1].connect_error = REFUSED

    waits_ms = [after - before for before, after in itertools.pairwise(attempts_ms)]
    assert 80 <= waits_ms[0] <= 125
    assert all(low < high for low, high in itertools.pairwise(waits_ms[:4]))
    assert all(790 <= wait_ms <= 1_005 for wait_ms in waits_ms[5:])
    assert all(transport.is_closed for transport in world.transports[:-1])


def test_waiting_for_the_next_attempt_is_a_sleep() -> None:
    """Between attempts the client sleeps for the rest of the back-off and does not spin."""
    world = World(reconnect_backoff_ms=500, reconnect_backoff_max_ms=500)
    world.poll()
    world.transports[-1].connect_error = REFUSED
    world.poll()
    world.poll()

    assert 300 < world.selector.timeouts_ms[-1] <= 500


def test_waiting_for_a_connection_is_a_sleep() -> None:
    """While one bootstrap address is being connected to, no other is looked at."""
    world = World("127.0.0.1:9001,127.0.0.1:9002")
    world.poll()
    world.poll()
    world.poll()

    assert len(world.transports) == 1
    assert world.selector.timeouts_ms[-1] > 1_000


def test_a_rejected_bootstrap_address_leads_to_the_next() -> None:
    """Without waiting for the first one's back-off."""
    world = World("127.0.0.1:9001,127.0.0.1:9002", reconnect_backoff_ms=10_000)
    world.rejected["127.0.0.1:9001"] = world.rejected["127.0.0.1:9002"] = REFUSED
    world.poll()
    world.poll(2)

    assert set(world.metadata.connection_failures.by_address) == {
        "127.0.0.1:9001",
        "127.0.0.1:9002",
    }
    assert "Connection refused" in reason(world)


def test_a_silent_address_ends_the_attempt_at_the_set_up_deadline() -> None:
    """The text has the time allowed, the setting, and the current step."""
    world = World(
        socket_connection_setup_timeout_ms=1_000, socket_connection_setup_timeout_max_ms=1_000
    )
    world.poll()
    for _ in range(1_000):
        world.poll(1)

    assert world.transports[0].is_closed
    assert "socket_connection_setup_timeout_ms" in reason(world)
    assert "connecting to 127.0.0.1:9001" in reason(world)


def test_every_address_of_a_name_is_tried() -> None:
    """Addresses that refuse connections are tried in one attempt; one that accepts is used."""
    world = World("kafka.example:9092")
    world.rejected["10.0.0.1:9092"] = REFUSED
    world.poll()
    assert world.resolver.asked == [("kafka.example", 9092)]
    world.resolver.answer("kafka.example", 9092, "10.0.0.1", "10.0.0.2", "10.0.0.3")
    world.poll()
    world.transports[-1].connect_error = REFUSED
    world.poll()
    peer = world.newest.accept()
    world.poll()
    peer.send_versions()
    world.poll()

    assert str(peer.transport.address) == "10.0.0.3:9092"
    assert world.client.can_send(-1)
    assert world.metadata.connection_failures.by_address == {}


def test_a_silent_address_is_passed_over_by_the_next_attempt() -> None:
    """The second attempt continues with the second address, without resolving again."""
    world = World("kafka.example:9092", socket_connection_setup_timeout_ms=100)
    world.poll()
    world.resolver.answer("kafka.example", 9092, "10.0.0.1", "10.0.0.2")
    world.poll()
    for _ in range(400):
        world.poll(1)

    tried = [str(transport.address) for transport in world.transports]
    assert tried[:2] == ["10.0.0.1:9092", "10.0.0.2:9092"]
    assert world.resolver.asked == [("kafka.example", 9092)]


def test_when_all_addresses_failed_the_name_is_resolved_again() -> None:
    """And the reason names every address that was tried."""
    world = World("kafka.example:9092")
    world.rejected["10.0.0.1:9092"] = world.rejected["10.0.0.2:9092"] = REFUSED
    world.poll()
    world.resolver.answer("kafka.example", 9092, "10.0.0.1", "10.0.0.2")
    world.poll()
    assert "10.0.0.1:9092: Connection refused" in reason(world, "kafka.example:9092")
    assert "10.0.0.2:9092: Connection refused" in reason(world, "kafka.example:9092")

    world.poll(1_000)
    world.poll()
    assert world.resolver.asked == [("kafka.example", 9092)] * 2
    world.resolver.answer("kafka.example", 9092, "10.0.0.9")
    world.poll()

    assert str(world.transports[-1].address) == "10.0.0.9:9092"


def test_a_lost_connection_resolves_again_and_avoids_the_lost_address() -> None:
    """A broker that moved keeps its name (KAFKA-12193)."""
    world = World("kafka.example:9092")
    world.poll()
    world.resolver.answer("kafka.example", 9092, "10.0.0.1", "10.0.0.2")
    world.poll()
    peer = world.newest.accept()
    world.poll()
    peer.send_versions()
    world.poll()
    peer.close()
    world.poll()

    world.poll(1_000)
    world.poll()
    assert world.resolver.asked == [("kafka.example", 9092)] * 2
    world.resolver.answer("kafka.example", 9092, "10.0.0.1", "10.0.0.2")
    world.poll()

    assert str(world.transports[-1].address) == "10.0.0.2:9092"


def test_an_unknown_name_is_a_failed_attempt() -> None:
    """It is tried again after the back-off, and then may resolve."""
    world = World("kafka.example:9092")
    world.poll()
    world.resolver.answer("kafka.example", 9092, error="cannot resolve 'kafka.example': unknown")
    world.poll()
    assert "cannot resolve" in reason(world, "kafka.example:9092")

    world.poll(1_000)
    world.poll()
    world.resolver.answer("kafka.example", 9092, "10.0.0.1")
    world.poll()

    assert [str(transport.address) for transport in world.transports] == ["10.0.0.1:9092"]


def test_a_slow_resolver_does_not_stop_the_client() -> None:
    """Other nodes are served; the attempt ends at its deadline; a late response is nothing."""
    world = World()
    world.join({1: ("127.0.0.1", 9101), 2: ("slow.example", 9102)})
    peer = world.connect_node(1)
    world.client.ready(world.metadata.snapshot.nodes[2], world.now_ms)
    world.send(1)
    peer.respond(peer.request(), PRODUCER_ID)
    world.poll()
    assert world.outcomes[0].error is None

    world.poll(12_001)
    assert "still resolving its name" in reason(world, "slow.example:9102")
    world.resolver.answer("slow.example", 9102, "10.0.0.2")
    count = len(world.transports)
    world.poll()
    assert len([t for t in world.transports[count:] if t.address.port == 9102]) <= 1


def test_a_host_that_moved_is_connected_to_at_its_new_address() -> None:
    """Metadata gives the node another address; the old one's back-off does not count."""
    world, peer = ready_world(reconnect_backoff_ms=100_000, reconnect_backoff_max_ms=100_000)
    peer.close()
    world.poll()
    old = world.metadata.snapshot.nodes[1]
    assert world.client.connections.poll_delay_ms(old, world.now_ms) > 10_000

    world.client.ready(old._replace(port=9999), world.now_ms)

    assert world.transports[-1].address.port == 9999


def test_a_lost_connection_asks_about_the_cluster() -> None:
    """Its partitions may have a new leader."""
    world, peer = ready_world()
    world.poll(1_000)
    assert world.metadata.update_due_in_ms(world.now_ms) > 0
    peer.close()
    world.poll()

    assert world.metadata.update_due_in_ms(world.now_ms) == 0


def test_all_nodes_gone_begins_again_from_the_bootstrap_address() -> None:
    """KIP-899: a cluster that moved as a whole is found again by its first address."""
    world = World("127.0.0.1:9001", reconnect_backoff_ms=50)
    world.join({1: ("127.0.0.1", 9101)}, {"orders": [(1, 0)]})
    peer = world.connect_node(1)
    world.rejected["127.0.0.1:9101"] = REFUSED
    peer.close()
    for _ in range(2_000):
        world.poll(1)
        if world.metadata.snapshot.is_bootstrap:
            break

    assert world.metadata.snapshot.is_bootstrap
    world.poll()
    # The bootstrap connection was never closed, and is asked at once.
    first = Peer(world.transports[0])
    first.respond(first.request(), metadata_body({4: ("127.0.0.1", 9104)}))
    world.poll()
    assert set(world.metadata.snapshot.nodes) == {4}


def test_one_lost_connection_is_no_reason_to_begin_again() -> None:
    """A reconnect is tried first: forgetting every leader costs more than a back-off."""
    world, peer = ready_world()
    peer.close()
    for _ in range(40):
        world.poll(1)

    assert not world.metadata.snapshot.is_bootstrap


def test_a_broker_that_demands_to_begin_again() -> None:
    """KIP-1102: every connection is closed, requests in flight end as disconnected."""
    world, peer = ready_world()
    world.metadata.request_update()
    world.poll(2_000)
    world.send(1)
    question, _ = peer.requests()
    peer.respond(question, metadata_body({}, error_code=129))
    world.poll()
    world.poll()

    assert world.metadata.snapshot.is_bootstrap
    assert peer.transport.is_closed
    assert isinstance(world.outcomes[0].error, Disconnected)
    assert "bootstrap_servers" in str(world.outcomes[0].error)
