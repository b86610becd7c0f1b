"""The client's loop: connect, negotiate, send, answer, lose, and begin again."""

from kprod.errors import Disconnected
from kprod.protocol.api import ApiKey
from tests.network.scripted import World, ready_world


def test_first_poll_connects_to_the_bootstrap_address() -> None:
    """Metadata is wanted from the start, so the first turn opens a connection."""
    world = World()

    world.poll()

    assert [str(transport.address) for transport in world.transports] == ["127.0.0.1:9001"]


def test_join_makes_a_snapshot() -> None:
    """The bootstrap connection asks for versions, then for metadata."""
    world = World()

    world.join({1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102)}, {})

    assert set(world.metadata.snapshot.nodes) == {1, 2}
    assert world.metadata.version == 1


def test_request_and_response() -> None:
    """A request goes out in the newest common version and its answer completes it."""
    world, peer = ready_world()

    world.send(1)
    assert world.client.in_flight_count(1) == 1
    request = peer.request()
    peer.respond(request, {"producer_id": 7, "producer_epoch": 0})
    world.poll(3)

    (outcome,) = world.outcomes
    assert request.api_key == ApiKey.INIT_PRODUCER_ID
    assert outcome.body is not None
    assert outcome.body["producer_id"] == 7
    assert (outcome.error, outcome.was_written, outcome.latency_ms) == (None, True, 3)
    assert world.client.in_flight_count(1) == 0


def test_lost_connection_completes_what_was_in_flight() -> None:
    """A closed connection ends every request as disconnected and holds the next attempt back."""
    world, peer = ready_world()
    world.send(1)
    peer.close()

    world.poll()

    (outcome,) = world.outcomes
    assert isinstance(outcome.error, Disconnected)
    assert outcome.was_written
    assert not world.client.can_send(1)
    assert world.client.poll_delay_ms(world.metadata.snapshot.nodes[1], world.now_ms) > 0
