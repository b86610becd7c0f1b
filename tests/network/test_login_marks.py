"""When a login is renewed, to the millisecond: the client's clock is moved by hand."""

import pytest

from kprod.config import SecurityConfig
from kprod.model import Node
from kprod.network.security import Security
from kprod.protocol.api import ApiKey
from tests.network.scripted import Peer, PeerRequest, World, metadata_body

BROKER = Node(1, "127.0.0.1", 9101)
RIGHT = {"error_code": 0, "error_message": None, "auth_bytes": b""}


def let_in(world: World, peer: Peer, lifetime_ms: int) -> None:
    """Answer both requests of a login by PLAIN."""
    handshake = peer.request()
    assert handshake.api_key == ApiKey.SASL_HANDSHAKE
    peer.respond(handshake, {"error_code": 0, "mechanisms": ["PLAIN"]})
    world.poll()
    login = peer.request()
    assert login.api_key == ApiKey.SASL_AUTHENTICATE
    peer.respond(login, {**RIGHT, "session_lifetime_ms": lifetime_ms})
    world.poll()


def logged_in(lifetime_ms: int, seed: int = 7) -> tuple[World, Peer]:
    """A client whose node 1 has let it in for some time."""
    config = SecurityConfig.parse(
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
        }
    )
    world = World(security=Security(config), seed=seed)
    bootstrap = world.connect()
    let_in(world, bootstrap, 0)
    world.poll()
    bootstrap.respond(bootstrap.request(), metadata_body({1: (BROKER.host, BROKER.port)}))
    world.poll()
    peer = world.connect_node(1)
    let_in(world, peer, lifetime_ms)
    assert world.client.can_send(1)
    return world, peer


def asked_again_after_ms(world: World, peer: Peer) -> int:
    """Want to send in each millisecond; returns when the login is asked for instead."""
    start_ms = world.now_ms
    while world.client.ready(BROKER, world.now_ms):
        assert not peer.requests()
        world.poll(1)
    (handshake,) = peer.requests()
    assert handshake.api_key == ApiKey.SASL_HANDSHAKE
    return world.now_ms - start_ms


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lifetime_ms", [2_000, 10_000])
def test_between_85_and_95_percent(lifetime_ms: int, seed: int) -> None:
    """At a moment of each connection's own, so that not all of them come at once."""
    after_ms = asked_again_after_ms(*logged_in(lifetime_ms, seed))
    assert 0.85 * lifetime_ms <= after_ms <= 0.95 * lifetime_ms


@pytest.mark.parametrize("lifetime_ms", [1, 500, 1_200])
def test_not_before_a_broker_accepts_it(lifetime_ms: int) -> None:
    """That is a second after the last; a shorter session costs its connection."""
    assert 1_100 <= asked_again_after_ms(*logged_in(lifetime_ms)) <= 1_140


def test_nothing_is_sent_between_the_mark_and_the_login() -> None:
    """Responses to earlier requests are taken; others wait until the login is over."""
    world, peer = logged_in(10_000)
    for _ in range(3):
        world.send(1)
    first, second, third = peer.requests()
    respond(peer, first)
    world.poll(9_500)
    assert not world.client.ready(BROKER, world.now_ms)
    respond(peer, second)
    world.poll()
    assert not world.client.ready(BROKER, world.now_ms)
    handshake = peer.request()
    respond(peer, third)
    peer.respond(handshake, {"error_code": 0, "mechanisms": ["PLAIN"]})
    world.poll()
    assert not world.client.ready(BROKER, world.now_ms)
    peer.respond(peer.request(), {**RIGHT, "session_lifetime_ms": 10_000})
    world.poll()
    assert world.client.ready(BROKER, world.now_ms)
    assert [outcome.error for outcome in world.outcomes] == [None] * 3
    assert not peer.requests()
    assert 8_500 <= asked_again_after_ms(world, peer) <= 9_500


def test_an_idle_connection_does_nothing() -> None:
    """Its login is renewed when it is used, also after the session's end."""
    world, peer = logged_in(2_000)
    for _ in range(50):
        world.poll(1_000)
    assert not peer.requests()
    assert not world.client.ready(BROKER, world.now_ms)
    let_in(world, peer, 2_000)
    assert world.client.ready(BROKER, world.now_ms)


def respond(peer: Peer, request: PeerRequest) -> None:
    """Answer InitProducerId."""
    peer.respond(request, {"producer_id": 7, "producer_epoch": 0})
