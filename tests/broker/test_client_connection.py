"""One connection: order, partial reads and writes, hostile bytes, limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprod.broker import EmbeddedConfig
from kprod.protocol.api import ApiKey
from kprod.protocol.headers import encode_request_header
from tests.broker.world import World, batch, part


def test_pipelined_requests_are_answered_in_order() -> None:
    """Many frames in one read give as many answers, in the order they were asked."""
    world = World()
    client = world.client()
    world.cluster.faults.stall(0)
    sent = [client.produce(batch()) for _ in range(100)]
    world.cluster.faults.resume(0)
    for _ in range(10):
        world.step()

    answers = client.answers()

    assert list(answers) == sent
    assert [part(answer)["base_offset"] for answer in answers.values()] == list(range(100))


@pytest.mark.parametrize("limit", [1, 7])
def test_bytes_may_come_and_go_in_small_pieces(limit: int) -> None:
    """A slow network changes nothing but the time."""
    world = World()
    client = world.client()
    client.stream.receive_limit_bytes = limit
    client.stream.send_limit_bytes = limit

    sent = client.send(ApiKey.METADATA, 12, {"topics": None})
    for _ in range(60):
        world.step()

    assert client.answers()[sent]["topics"][0]["name"] == "orders"


@settings(max_examples=40)
@given(frame=st.binary(min_size=1, max_size=60))
def test_any_bytes_are_survived(frame: bytes) -> None:
    """Random frames close their connection or are answered; the broker continues."""
    world = World(brokers=1)
    world.client().send_frame(frame)

    assert world.client().produced(batch())["base_offset"] == 0
    assert not world.cluster.failures


@pytest.mark.slow
@settings(max_examples=60)
@given(
    api=st.sampled_from([ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.CREATE_TOPICS]),
    version=st.integers(0, 14),
    body=st.binary(max_size=60),
)
def test_any_body_is_survived(api: ApiKey, version: int, body: bytes) -> None:
    """A right header with a random body closes the connection or is answered."""
    world = World(brokers=1)
    header = encode_request_header(api, version, 1, "fuzz")

    world.client().send_frame(header + body)

    assert world.client().produced(batch())["base_offset"] == 0
    assert not world.cluster.failures


def test_a_frame_above_the_cap_closes_the_connection() -> None:
    """The size is enough; nothing of the body is waited for."""
    world = World(config=EmbeddedConfig(frame_bytes_max=1_024))
    client = world.client()

    client.stream.incoming += (1_025).to_bytes(4)
    world.step()

    assert client.stream.closed


def test_connections_above_the_cap_are_closed_at_once() -> None:
    """Those that were there first continue, and a freed place can be taken."""
    world = World(config=EmbeddedConfig(connections_max=2))
    first, _, third = world.client(), world.client(), world.client()
    world.step()

    assert third.stream.closed
    assert first.produced(batch())["base_offset"] == 0
    first.stream.client_closed = True
    world.step()
    assert world.client().produced(batch())["base_offset"] == 1


def test_a_client_that_leaves_while_its_request_waits() -> None:
    """Its response goes nowhere, and nothing else is disturbed."""
    world = World()
    client = world.client()
    client.fetch(0, max_wait_ms=100)
    client.stream.client_closed = True
    world.step()

    world.advance(100)

    assert client.stream.closed
    assert world.client().produced(batch())["base_offset"] == 0


def test_requests_that_came_before_the_client_left_are_processed() -> None:
    """They wait behind one that waits itself, without the socket; nobody reads the responses."""
    world = World()
    client = world.client()
    client.fetch(0, max_wait_ms=100)
    client.produce(batch(), acks=1)
    client.produce(batch(), acks=0)
    client.stream.client_closed = True
    world.step()
    assert client.stream.closed

    world.advance(100)

    assert world.client().produced(batch())["base_offset"] == 2


def test_a_client_that_leaves_while_it_is_being_closed() -> None:
    """Requests behind the one that closes the connection are never processed."""
    world = World(brokers=1)
    client = world.client()
    client.stream.send_limit_bytes = 0
    client.send(ApiKey.METADATA, 12, {"topics": None})
    client.send_frame(encode_request_header(ApiKey.VOTE, 0, 9, "c"))
    client.produce(batch())
    world.step()
    assert not client.stream.closed
    client.stream.client_closed = True
    world.step()

    assert client.stream.closed
    assert world.cluster._kprod.engine.connection_count == 0
    assert world.client().produced(batch())["base_offset"] == 0


def test_a_client_that_has_left_gives_its_place_to_a_new_one() -> None:
    """Its requests are dropped, if there would be too many connections otherwise."""
    world = World(config=EmbeddedConfig(connections_max=2))
    for _ in range(3):
        client = world.client()
        client.fetch(0, max_wait_ms=100_000)
        client.produce(batch())
        client.stream.client_closed = True
        world.step()
    assert world.cluster._kprod.engine.connection_count == 2

    assert world.client().produced(batch())["base_offset"] == 0


def test_throttling_tells_and_mutes() -> None:
    """The response leaves at once with the time; the next request is taken after it (KIP-219)."""
    world = World()
    world.cluster.throttle(ApiKey.PRODUCE, 50)
    client = world.client()

    first = client.produce(batch())
    answer = client.answers()[first]
    world.cluster.throttle(ApiKey.PRODUCE, 0)
    second = client.produce(batch())
    world.advance(49)
    early = client.answers()
    world.advance(1)

    assert answer["throttle_time_ms"] == 50
    assert early == {}
    assert list(client.answers()) == [second]


def test_a_request_of_an_unknown_api_closes_the_connection() -> None:
    """As Kafka does."""
    world = World()
    client = world.client()

    client.send_frame(b"\x03\xe7\0\0\0\0\0\1\xff\xff")

    assert client.stream.closed
