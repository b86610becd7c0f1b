"""DescribeLogDirs in memory and in several directories."""

from pathlib import Path
from typing import Any

from kprod.protocol.api import ApiKey
from tests.broker.world import World, batch

ALL: dict[str, Any] = {"topics": None}


def described(world: World, broker: int = 0, topics: Any = None) -> dict[str, dict[str, Any]]:
    """Results by directory."""
    answer = world.client(broker).ask(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": topics})
    assert answer["error_code"] == 0
    return {it["log_dir"]: it for it in answer["results"]}


def sizes(result: dict[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
    """Size and lag by partition."""
    return {
        (topic["name"], it["partition_index"]): (it["partition_size"], it["offset_lag"])
        for topic in result["topics"]
        for it in topic["partitions"]
    }


def test_memory_is_one_directory() -> None:
    """As large as may be taken, and as free as is left."""
    world = World(topics={"orders": 2})
    assert world.client().produced(batch(3))["error_code"] == 0
    size_bytes = len(world.cluster.batches("orders")[0][0])

    (result,) = described(world).values()

    assert result["log_dir"] == "memory"
    assert sizes(result) == {("orders", 0): (size_bytes, 0), ("orders", 1): (0, 0)}
    assert result["total_bytes"] - result["usable_bytes"] == size_bytes
    world.cluster.close()


def test_each_directory_has_its_partitions(tmp_path: Path) -> None:
    """A follower that is held back lags; topics that are not there are left out."""
    paths = [tmp_path / "one", tmp_path / "two"]
    world = World(topics={"orders": 2}, data_dirs=paths)
    assert world.client().produced(batch(3))["error_code"] == 0

    told = described(world)
    assert list(told) == [str(path) for path in paths]
    assert [list(sizes(it)) for it in told.values()] == [[("orders", 0)], [("orders", 1)]]
    assert all(0 < it["usable_bytes"] <= it["total_bytes"] for it in told.values())

    some = described(world, topics=[{"topic": "orders", "partitions": [1, 9]}])
    assert [list(sizes(it)) for it in some.values()] == [[], [("orders", 1)]]
    nobody = described(world, topics=[{"topic": "nobody", "partitions": [0]}])
    assert [sizes(it) for it in nobody.values()] == [{}, {}]
    world.cluster.close()


def test_a_follower_that_is_out_of_the_in_sync_set_lags() -> None:
    """The lag is the number of replicated bytes that the replica lacks."""
    world = World(topics={"orders": 1})
    world.cluster.set_follower_lag("orders", 0, 1, None)
    assert world.client().produced(batch(3), acks=1)["error_code"] == 0
    world.advance(60_000)

    (result,) = described(world, broker=1).values()
    assert sizes(result)["orders", 0][1] == 3
    world.cluster.close()
