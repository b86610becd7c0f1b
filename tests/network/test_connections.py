"""The choice of a node, and the known facts of each node."""

from kprod.protocol.api import ApiKey
from tests.network.scripted import ALL_VERSIONS, World, ready_world


def test_what_a_node_advertises() -> None:
    """Versions while it is connected; nothing before and after."""
    world, peer = ready_world()
    features = world.client.connections.features(1)
    assert features is not None
    assert features.versions[ApiKey.PRODUCE] == ALL_VERSIONS[ApiKey.PRODUCE]

    peer.close()
    world.poll()

    assert world.client.connections.features(1) is None
    assert world.client.connections.features(99) is None


def test_least_loaded_is_the_one_with_fewest_in_flight() -> None:
    """Among nodes that can be sent to; a throttled or full one is not chosen."""
    world = World()
    world.join({1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102)})
    world.connect_node(1)
    world.connect_node(2)
    world.send(1)

    chosen = {world.client.connections.least_loaded_node(world.now_ms) for _ in range(20)}

    assert {node.node_id for node in chosen if node is not None} == {2}


def test_least_loaded_prefers_a_connection_that_is_being_made() -> None:
    """One waits for it rather than opening another."""
    world = World()
    world.join({1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102), 3: ("127.0.0.1", 9103)})
    world.client.ready(world.metadata.snapshot.nodes[2], world.now_ms)

    chosen = {world.client.connections.least_loaded_node(world.now_ms) for _ in range(20)}

    assert {node.node_id for node in chosen if node is not None} == {2}


def test_least_loaded_spreads_over_untried_nodes() -> None:
    """The first to be asked is drawn, so that a thousand clients do not all ask one broker."""
    world = World(",".join(f"127.0.0.1:{port}" for port in range(9001, 9006)))

    chosen = {world.client.connections.least_loaded_node(world.now_ms) for _ in range(200)}

    assert len(chosen) == 5
