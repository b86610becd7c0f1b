"""The choice of the broker for metadata requests, and their times."""

import errno

import pytest

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import UnsupportedVersion
from kprod.network.metadata_updater import METADATA_VERSION_MIN
from kprod.protocol.api import ApiKey
from tests.network.scripted import ALL_VERSIONS, World, metadata_body, ready_world


def test_a_connected_node_is_asked() -> None:
    """In a version that can say whether topics may be made; nothing else is due meanwhile."""
    world, peer = ready_world(allow_auto_create_topics=False)
    world.metadata.add_topic("clicks", world.now_ms)
    world.poll()

    question = peer.request()
    assert question.api_key == ApiKey.METADATA
    assert question.version >= METADATA_VERSION_MIN
    assert [topic["name"] for topic in question.body["topics"]] == ["clicks"]
    assert not question.body["allow_auto_topic_creation"]
    assert world.metadata.update_due_in_ms(world.now_ms) == NEVER_MS


def test_an_idle_client_asks_at_the_maximum_age() -> None:
    """Even if nothing went wrong."""
    world, peer = ready_world(metadata_max_age_ms=10_000)
    world.poll(9_000)
    assert peer.requests() == []
    world.poll(1_001)
    world.poll()

    assert [request.api_key for request in peer.requests()] == [ApiKey.METADATA]


def test_a_lost_question_is_asked_again_elsewhere() -> None:
    """Its connection is gone; another node answers."""
    world = World(reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
    world.join({1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102)})
    first, second = world.connect_node(1), world.connect_node(2)
    world.metadata.request_update()
    world.poll(2_000)
    asked, other = (first, second) if first.requests() else (second, first)
    asked.close()
    world.poll()
    world.poll(2_000)

    other.respond(other.requests()[-1], metadata_body({2: ("127.0.0.1", 9102)}))
    world.poll()
    assert set(world.metadata.snapshot.nodes) == {2}


def test_a_broker_too_old_ends_every_wait() -> None:
    """It lacks the version needed; waiting cannot help, so callers hear of it at once."""
    world = World()
    world.connect({**ALL_VERSIONS, int(ApiKey.METADATA): (0, METADATA_VERSION_MIN - 1)})
    world.poll()
    world.poll()

    with pytest.raises(UnsupportedVersion, match="METADATA"):
        world.metadata.wait_for_update(0, 0)


def test_at_most_one_question_however_long_it_takes() -> None:
    """Whatever happens meanwhile; a storm of errors does not become a storm of questions."""
    world, peer = ready_world()
    for _ in range(200):
        world.metadata.request_update()
        world.poll(20)

    assert [request.api_key for request in peer.requests()] == [ApiKey.METADATA]


def test_a_storm_of_wishes_is_held_back() -> None:
    """Answered at once and wished for at each turn, questions still keep their distance."""
    world, peer = ready_world(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    answered = 0
    for _ in range(1_000):
        world.metadata.request_update()
        world.poll(10)
        for request in peer.requests():
            answered += 1
            peer.respond(request, metadata_body({1: ("127.0.0.1", 9101)}))

    assert 8 <= answered <= 20


def test_nothing_to_ask_and_nothing_to_do() -> None:
    """With every node held back, the client sleeps until the first may be tried again."""
    world = World("127.0.0.1:9001,127.0.0.1:9002", reconnect_backoff_ms=700)
    rejected = OSError(errno.ECONNREFUSED, "Connection refused")
    world.rejected = {"127.0.0.1:9001": rejected, "127.0.0.1:9002": rejected}
    for _ in range(4):
        world.poll(1)

    assert 400 < world.selector.timeouts_ms[-1] <= 1_000
