"""Real work: every client sends the same values, and only clients that can do the work race."""

from pathlib import Path

import pytest
from hidden_share import codec_alone_ns
from race_java import JAVA, JavaLoad
from real_work import PEER, RACERS, RUNS, contestants_of
from real_work_shapes import DISTINCT_VALUES, Shape

import kprod
from kprod.broker import EmbeddedCluster

KEYLESS = Shape(330, 0, 12, "lz4")


def test_java_races_without_keys_where_the_broker_understands_it() -> None:
    """The tool has no keys, and the mock cluster does not understand it."""
    assert JAVA in contestants_of(RACERS, "kafka", KEYLESS)
    assert contestants_of(RACERS, "mock", KEYLESS) == ["kprod", PEER]
    assert contestants_of(RACERS, "kafka", Shape(330, 1_000, 12, "lz4")) == ["kprod", PEER]
    assert contestants_of(["kprod"], "kafka", KEYLESS) == ["kprod"]


def test_records_carry_the_values_of_the_shape() -> None:
    """In turn; a line feed in one would make two values of it in Java's file."""
    values = KEYLESS.values()
    sent = [value for _, value in KEYLESS.records(DISTINCT_VALUES + 1)]
    assert sent == [*values, values[0]]
    assert len(set(values)) == DISTINCT_VALUES
    assert not any(b"\n" in value for value in values)


def test_java_has_the_codec_of_the_shape() -> None:
    """Beside the settings of every race."""
    options = JavaLoad(KEYLESS.values(), KEYLESS.codec).options(7, Path("payload"))
    assert {"compression.type=lz4", "acks=all", "batch.size=1000000"} <= set(options)
    assert options[:4] == ["--num-records", "7", "--payload-file", "payload"]


@pytest.mark.parametrize("keys", [0, 10])
@pytest.mark.parametrize("name", [name for name in RUNS if name != PEER])
def test_each_way_sends_what_it_counts(name: str, keys: int) -> None:
    """With a codec and two partitions; a time of no length still sends one block."""
    with EmbeddedCluster(brokers=1, topics={"work": 2}) as cluster:
        address = cluster.bootstrap_servers
        figures = RUNS[name](address, "work", Shape(330, keys, 2, "lz4"), 0.001)
        with kprod.Consumer(bootstrap_servers=address) as consumer:
            partitions = [kprod.TopicPartition("work", number) for number in range(2)]
            ends = consumer.end_offsets(partitions)
    assert sum(ends.values()) == figures["offset"] > 0


def test_blocks_have_as_many_keys_as_the_shape() -> None:
    """Nearly: keys are drawn, so some are drawn twice and others never."""
    blocks = Shape(100, 4_500, 1, "none").blocks(1_000)
    first = [next(blocks) for _ in range(5)]
    keys = {key for block in first for key, _ in block}
    assert [len(block) for block in first] == [1_000] * 5
    assert 2_500 < len(keys) < 4_500
    assert next(blocks) == first[0]
    few = Shape(100, 10, 1, "none").blocks(1_000)
    assert next(few) is next(few)


@pytest.mark.parametrize("keys", [0, 10])
def test_a_codec_alone_takes_some_time(keys: int) -> None:
    """A time of no length still compresses one full batch, with keys and without."""
    assert codec_alone_ns(Shape(330, keys, 1, "zstd"), 0.0) > 0
