"""The cluster as its user sees it: threads, brokers that stop, leaders that move."""

import socket
import threading

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig, Rejected
from kprod.errors import ClosedError, ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch


def connected(cluster: EmbeddedCluster, broker: int) -> socket.socket:
    """A TCP connection to one broker."""
    host, port = cluster.bootstrap_servers.split(",")[broker].split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def ended(client: socket.socket) -> bool:
    """Whether the broker has ended the connection: with a reset, if it had not yet accepted it."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_it_starts_and_leaves_nothing_behind() -> None:
    """After the block there is no thread and nobody listens; closing again is nothing."""
    threads = threading.active_count()
    with EmbeddedCluster(brokers=2, topics={"orders": 6}) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 2
        assert len(cluster.records("orders")) == 6
        assert threading.active_count() == threads + 1

    assert threading.active_count() == threads
    with pytest.raises(ConnectionRefusedError):
        connected(cluster, 0)
    cluster.close()


def test_calls_from_many_threads_reach_the_one() -> None:
    """Each gets its own result, and an error is raised in the calling thread."""
    names = [f"topic-{index}" for index in range(40)]
    with EmbeddedCluster(brokers=1) as cluster:
        threads = [threading.Thread(target=cluster.create_topic, args=(it, 2)) for it in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

        assert all(set(cluster.records(name)) == {0, 1} for name in names)
        with pytest.raises(Rejected, match="TOPIC_ALREADY_EXISTS"):
            cluster.create_topic("topic-0")


def test_a_closed_cluster_says_so() -> None:
    """No call hangs or works after the end."""
    with EmbeddedCluster(brokers=1) as cluster:
        pass

    with pytest.raises(ClosedError):
        cluster.records("orders")
    with pytest.raises(ClosedError):
        cluster.start()


def test_a_stopped_broker_rejects_and_keeps_its_port() -> None:
    """Connections end, new connections are refused, and it comes back at the same address."""
    with EmbeddedCluster(brokers=2) as cluster:
        address = cluster.bootstrap_servers
        with connected(cluster, 1) as client:
            cluster.stop_broker(1)
            assert ended(client)
        with pytest.raises(ConnectionRefusedError):
            connected(cluster, 1)

        cluster.start_broker(1)

        connected(cluster, 1).close()
        assert cluster.bootstrap_servers == address


def test_leaderships_move_when_a_broker_stops() -> None:
    """The in-sync set shrinks, the epoch rises, and the broker follows when it is back."""
    world = World()
    world.client().produced(batch(3))
    world.cluster.stop_broker(0)
    stopped = world.cluster.describe("orders", 0)
    world.client(1).produced(batch(2))

    world.cluster.start_broker(0)

    back = world.cluster.describe("orders", 0)
    assert (stopped.leader_id, stopped.leader_epoch, stopped.isr) == (1, 1, (1, 2))
    assert (back.leader_id, back.isr, back.log_end_offset) == (1, (1, 2, 0), 5)


def test_the_last_in_sync_replica_alone_may_lead_again() -> None:
    """With all brokers gone there is no leader until the last of them is back."""
    world = World()
    for broker in range(3):
        world.cluster.stop_broker(broker)
    gone = world.cluster.describe("orders", 0).leader_id
    world.cluster.start_broker(0)
    still_gone = world.cluster.describe("orders", 0).leader_id
    world.cluster.start_broker(2)

    assert (gone, still_gone) == (-1, -1)
    assert world.cluster.describe("orders", 0).leader_id == 2
    assert sorted(world.cluster.describe("orders", 0).isr) == [0, 2]


def test_metadata_follows_the_cluster() -> None:
    """Brokers that run, leaders, in-sync sets, offline replicas."""
    world = World()
    client = world.client(2)
    world.cluster.stop_broker(0)

    answer = client.ask(ApiKey.METADATA, 12, {"topics": [{"name": "orders"}]})

    partition = answer["topics"][0]["partitions"][0]
    assert [broker["node_id"] for broker in answer["brokers"]] == [1, 2]
    assert (partition["leader_id"], partition["leader_epoch"]) == (1, 1)
    assert partition["replica_nodes"] == [0, 1, 2]
    assert partition["offline_replicas"] == [0]


def test_a_forgotten_topic_is_unknown_to_metadata_only() -> None:
    """Producing to it works all the while."""
    world = World()
    client = world.client()
    wanted = {"topics": [{"name": "orders"}]}
    world.cluster.forget_topic("orders")

    denied = client.ask(ApiKey.METADATA, 12, wanted)["topics"][0]["error_code"]
    produced = client.produced(batch())["error_code"]
    world.cluster.remember_topic("orders")

    assert denied == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produced == ErrorCode.NONE
    assert client.ask(ApiKey.METADATA, 12, wanted)["topics"][0]["error_code"] == ErrorCode.NONE


def test_it_binds_loopback_only() -> None:
    """Any other address needs `unsafe`."""
    with pytest.raises(ConfigError, match="unsafe"):
        EmbeddedConfig(host="0.0.0.0")  # noqa: S104 - rejected, which is the point

    assert EmbeddedConfig(host="0.0.0.0", unsafe=True).unsafe  # noqa: S104 - nothing is bound


@pytest.mark.parametrize("brokers", [0, -1, 101])
def test_the_number_of_brokers_is_bounded(brokers: int) -> None:
    """One to a hundred."""
    with pytest.raises(ConfigError, match="brokers"):
        EmbeddedCluster(brokers)


def test_a_failure_inside_is_raised_at_the_end() -> None:
    """A broker that is wrong must not pass for a client that is."""
    world = World()
    world.cluster.faults.rewrite(ApiKey.PRODUCE, lambda frame: frame + bytes(1 // 0))
    client = world.client()
    client.produce(batch())

    assert client.stream.closed
    with pytest.raises(ZeroDivisionError):
        world.cluster.close()


def test_it_closes_however_early() -> None:
    """A cluster that is closed as soon as it runs does not sleep through it."""
    before = threading.enumerate()
    for _ in range(50):
        with EmbeddedCluster(brokers=1):
            pass

    # Another test of this worker may keep a cluster for the whole session.
    assert threading.enumerate() == before


def test_a_log_cannot_be_cut_below_its_start() -> None:
    """The records there are gone already; the start itself is the least."""
    world = World()
    world.client().produced(batch(3))
    for wrong in (-1, -(2**63)):
        with pytest.raises(ValueError, match=rf"to_offset \({wrong}\) is below .*'orders'.* at 0"):
            world.cluster.truncate("orders", 0, wrong)
    assert world.cluster.describe("orders", 0).log_end_offset == 3
    world.cluster.truncate("orders", 0, 0)
    assert world.cluster.describe("orders", 0).log_end_offset == 0
