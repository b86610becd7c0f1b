"""Compaction as a user meets it: what readers are promised, and what a test may ask for."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedConfig
from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.model import Record
from kprod.protocol.api import ApiKey
from kprod.record.reader import read_records
from tests.broker.world import TIMESTAMP_MS, World, part
from tests.oracle.record_v2 import encode_batch

Pair = tuple[bytes, bytes | None]
DAY_MS = 86_400_000


class Changelog:
    """A cluster with one compacted topic of one partition."""

    def __init__(self, directory: Path | None = None, **settings: str) -> None:
        """Open it.

        Args:
            directory: Directory of the log; None for memory.
            settings: The topic's, with underscores.
        """
        storage: dict[str, Any] = {} if directory is None else {"data_dir": directory}
        self.world = World(brokers=1, topics={}, **storage)
        self.world.cluster.create_topic(
            "users",
            1,
            settings={
                "cleanup.policy": "compact",
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
        )
        self.client = self.world.client()

    @property
    def cluster(self) -> Any:  # EmbeddedCluster
        """The cluster."""
        return self.world.cluster

    @property
    def partition(self) -> Partition:
        """The partition itself."""
        partition: Partition = self.cluster._kprod.engine.partition("users", 0)
        return partition

    def send(self, *pairs: Pair, **fields: Any) -> int:
        """Produce a batch; its base offset."""
        rows = [(self.now_ms, key, value, ()) for key, value in pairs]
        answer = self.client.produced(encode_batch(rows, **fields), topic="users")
        assert answer["error_code"] == 0, answer
        offset: int = answer["base_offset"]
        return offset

    @property
    def now_ms(self) -> int:
        """Wall clock."""
        return self.world.clock.timestamp_ms()

    def pass_time(self, delta_ms: int) -> None:
        """Let time pass, and connect again: idle connections are closed."""
        self.world.advance(delta_ms)
        self.client = self.world.client()

    def records(self) -> list[Record]:
        """All records of the log."""
        (records,) = self.cluster.records("users").values()
        return list(records)

    def read(self, offset: int = 0, max_bytes: int = 1 << 20) -> list[Record]:
        """Fetch as a client does, from an offset to the end."""
        found: list[Record] = []
        while True:
            answer = self.client.fetched(offset, topic="users", max_bytes=max_bytes)
            assert answer["error_code"] == 0
            records = list(read_records(answer["records"] or b""))
            if not records and not answer["records"]:
                return found
            found += [it for it in records if it.offset >= offset]
            offset = self.end_of(answer["records"], offset)

    @staticmethod
    def end_of(encoded: bytes, offset: int) -> int:
        """The next offset of a consumer: after the last whole batch, which may have no record."""
        from kprod.record.reader import read_batches  # noqa: PLC0415 - used here alone

        return max([offset, *(it.last_offset + 1 for it in read_batches(encoded))])


@pytest.fixture(params=["memory", "directory"])
def changelog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Changelog]:
    """A changelog in memory, and one in a directory."""
    made = Changelog(tmp_path / "kept" if request.param == "directory" else None)
    yield made
    made.cluster.close()


def pairs(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each."""
    return [(it.offset, it.key, it.value) for it in records]


def test_key1_at_offsets_1_and_5(changelog: Changelog) -> None:
    """The example of the textbook: the newer value of key1 stays, at its own offset."""
    for key, value in [
        (b"key0", b"a"),
        (b"key1", b"first"),
        (b"key2", b"b"),
        (b"key3", b"c"),
        (b"key4", b"d"),
        (b"key1", b"second"),
    ]:
        changelog.send((key, value))

    summary = changelog.cluster.compact("users")[0]

    assert pairs(changelog.read()) == [
        (0, b"key0", b"a"),
        (2, b"key2", b"b"),
        (3, b"key3", b"c"),
        (4, b"key4", b"d"),
        (5, b"key1", b"second"),
    ]
    assert (summary.read_records, summary.kept_records) == (6, 5)
    assert pairs(changelog.read(1))[0] == (2, b"key2", b"b")


def test_offsets_never_change(changelog: Changelog) -> None:
    """Promise 1: a record that stays is where it was, and a new one comes behind all."""
    changelog.send((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    changelog.cluster.compact("users")

    assert changelog.send((b"c", b"4")) == 3
    changelog.cluster.compact("users")
    changelog.cluster.compact("users")

    assert pairs(changelog.read()) == [(1, b"b", b"2"), (2, b"a", b"3"), (3, b"c", b"4")]
    assert changelog.cluster.describe("users", 0).log_end_offset == 4


def test_order_never_changes(changelog: Changelog) -> None:
    """Promise 1, too: over many rounds the offsets of retained records rise."""
    for number in range(60):
        changelog.send((b"k%d" % (number * 7 % 10), b"%d" % number))
        if number % 13 == 0:
            changelog.cluster.compact("users")

    offsets = [it.offset for it in changelog.read(max_bytes=100)]
    assert offsets == sorted(set(offsets))
    assert len(offsets) < 60


def test_a_reader_from_the_beginning_ends_with_every_last_value(changelog: Changelog) -> None:
    """Promise 2, whatever is compacted between two of its fetches."""
    for number in range(50):
        changelog.send((b"k%d" % (number % 7), b"%d" % number))
    state: dict[bytes | None, bytes | None] = {}
    offset = 0
    while offset < 50:
        answer = changelog.client.fetched(offset, topic="users", max_bytes=200)
        state |= {it.key: it.value for it in read_records(answer["records"])}
        offset = changelog.end_of(answer["records"], offset)
        changelog.cluster.compact("users")

    assert state == {b"k%d" % (number % 7): b"%d" % number for number in range(43, 50)}


def test_an_answer_that_is_half_sent_across_a_swap_is_whole(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each offset once, in order, as the log was when the request came (I6)."""
    for number in range(50):
        changelog.send((b"k%d" % (number % 7), b"%d" % number))
    before = pairs(changelog.records())
    stream = changelog.client.stream
    take = stream.send
    stream.send_limit_bytes = 1_000

    def take_once(pieces: Sequence[memoryview]) -> int:
        return 0 if stream.outgoing else take(pieces)

    with monkeypatch.context() as slow:
        slow.setattr(stream, "send", take_once)
        correlation_id = changelog.client.fetch(0, topic="users")
        assert len(stream.outgoing) == 1_000
        assert changelog.cluster.compact("users")[0].kept_records == 7

    changelog.world.step()
    answer = part(changelog.client.answers()[correlation_id])
    assert pairs(list(read_records(answer["records"]))) == before
    assert len(changelog.read()) == 7


def test_a_reader_that_keeps_up_sees_every_record(changelog: Changelog) -> None:
    """Promise 3: records newer than the last compaction are all there."""
    seen: list[bytes | None] = []
    for number in range(30):
        changelog.send((b"k", b"%d" % number))
        answer = changelog.client.fetched(number, topic="users")
        seen += [it.value for it in read_records(answer["records"]) if it.offset == number]
        changelog.cluster.compact("users")

    assert seen == [b"%d" % number for number in range(30)]


def test_a_reader_within_the_retention_sees_every_tombstone(changelog: Changelog) -> None:
    """Promise 4: a tombstone stays for `delete.retention.ms` from its first round on, then goes."""
    changelog.send((b"a", b"1"), (b"b", b"2"))
    changelog.send((b"a", None))
    changelog.cluster.compact("users")
    assert pairs(changelog.read()) == [(1, b"b", b"2"), (2, b"a", None)]

    changelog.pass_time(DAY_MS - 1)
    changelog.send((b"c", b"3"))
    changelog.cluster.compact("users")
    assert (2, b"a", None) in pairs(changelog.read())

    changelog.pass_time(1)
    changelog.send((b"c", b"4"))
    changelog.cluster.compact("users")
    assert pairs(changelog.read()) == [(1, b"b", b"2"), (4, b"c", b"4")]


def test_a_record_without_a_key_is_rejected(changelog: Changelog) -> None:
    """Nobody could ever say whether it is the newest one."""
    rows = [(TIMESTAMP_MS, None, b"v", ())]
    answer = changelog.client.produced(encode_batch(rows), topic="users")

    assert answer["error_code"] == 87  # INVALID_RECORD
    assert "no key" in answer["record_errors"][0]["batch_index_error_message"]


def test_a_topic_that_is_not_compacted_says_so(changelog: Changelog) -> None:
    """Rather than that nothing happens."""
    changelog.cluster.create_topic("events", 1)
    with pytest.raises(Rejected, match=r"cleanup.policy='delete'"):
        changelog.cluster.compact("events")


def test_dirty_logs_are_compacted_without_being_asked(tmp_path: Path) -> None:
    """When more than `min.cleanable.dirty.ratio` of them is dirty, at the next look."""
    config = EmbeddedConfig(cleaner_backoff_ms=1_000, cleaner_io_max_bytes_per_second=1_000_000)
    world = World(brokers=1, topics={}, config=config, data_dir=tmp_path)
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}
    world.cluster.create_topic("users", 1, settings=settings)
    client = world.client()
    for number in range(100):
        rows = [(TIMESTAMP_MS, b"k", b"%d" % number, ())]
        assert client.produced(encode_batch(rows), topic="users")["error_code"] == 0
    assert len(world.cluster.records("users")[0]) == 100

    for _ in range(50):
        world.advance(100)

    left = world.cluster.records("users")[0]
    assert 1 < len(left) < 40
    assert left[-1].value == b"99"
    size_bytes = sum(map(len, world.cluster.batches("users")[0]))
    assert world.cluster._kprod.engine.state.log_bytes == size_bytes
    before = left
    world.cluster.kill()

    world = World(brokers=1, topics={}, config=config, data_dir=tmp_path)
    assert world.cluster.records("users")[0] == before
    assert world.cluster._kprod.engine.partition("users", 0).log.cleaned_offset > 0
    world.cluster.close()


def test_an_idle_cluster_has_nothing_due() -> None:
    """Once all is compacted, the next step is when something arrives."""
    changelog = Changelog()
    for number in range(5):
        changelog.send((b"k", b"%d" % number))
    changelog.cluster.compact("users")
    for _ in range(4):
        changelog.world.advance(600_000)
        changelog.world.advance(1)

    assert not changelog.partition.log.segments[-1].size_bytes
    assert changelog.cluster.metrics()["LogCleanerManager"]["max-dirty-percent"] == 0
    changelog.cluster.close()


def test_retried_batches_are_duplicates_after_compaction_and_restart(tmp_path: Path) -> None:
    """The last sequence of each producer outlives its records (KAFKA-5490, KAFKA-8335)."""
    changelog = Changelog(tmp_path)
    fields: dict[str, Any] = {"producer_id": 1_000, "producer_epoch": 0}
    changelog.send((b"a", b"1"), base_sequence=0, **fields)
    changelog.send((b"a", b"2"), base_sequence=1, **fields)
    changelog.send((b"a", b"newest, of another producer"))
    changelog.cluster.compact("users")
    assert len(changelog.records()) == 1
    changelog.cluster.kill()

    world = World(brokers=1, topics={}, data_dir=tmp_path)
    rows = [(TIMESTAMP_MS, b"a", b"2", ())]
    again = encode_batch(rows, base_sequence=1, **fields)
    answer = world.client().produced(again, topic="users")
    assert (answer["error_code"], answer["base_offset"]) == (0, 1)
    following = encode_batch(rows, base_sequence=2, **fields)
    assert world.client().produced(following, topic="users")["base_offset"] == 3
    world.cluster.close()


class Midway:
    """A cluster whose cleaner is in the middle of a round, and pauses between slices."""

    def __init__(self, directory: Path | None = None, policy: str = "compact") -> None:
        """Write five segments, and begin.

        Args:
            directory: Directory of the log; None for memory.
            policy: The topic's.
        """
        storage: dict[str, Any] = {} if directory is None else {"data_dir": directory}
        config = EmbeddedConfig(cleaner_backoff_ms=1_000, cleaner_io_max_bytes_per_second=1_024)
        self.world = World(topics={}, config=config, **storage)
        settings = {"cleanup.policy": policy, "internal.segment.bytes": "2000"}
        self.world.cluster.create_topic("users", 1, settings=settings)
        for number in range(120):
            self.send(number)
        self.world.advance(1_000)
        assert self.is_busy

    def send(self, number: int) -> None:
        """Produce one record of a key of two."""
        rows = [(TIMESTAMP_MS, b"k%d" % (number % 2), b"%d" % number, ())]
        answer = self.world.client().produced(encode_batch(rows), topic="users")
        assert answer["error_code"] == 0

    @property
    def state(self) -> Any:  # ClusterState
        """The cluster's state."""
        return self.world.cluster._kprod.engine.state

    @property
    def is_busy(self) -> bool:
        """Whether a round is in progress."""
        return self.state.cleaner.is_busy  # type: ignore[no-any-return]  # of Any

    def pass_slices(self, count: int) -> None:
        """Let some slices run."""
        for _ in range(count):
            self.world.advance(2_000)
        assert self.is_busy

    def finish(self) -> list[Record]:
        """Run the cleaner until it is idle; returns the retained records."""
        for _ in range(200):
            self.world.advance(2_000)
        assert not self.is_busy
        assert not self.state.cleaner.uncleanable
        assert self.world.cluster.failures == ()
        return self.world.cluster.records("users")[0]


@pytest.mark.parametrize("slice_count", range(0, 9, 2))
def test_a_deleted_topic_ends_its_round(tmp_path: Path, slice_count: int) -> None:
    """And one of its name that is made again is compacted from its beginning (KAFKA-14616)."""
    midway = Midway(tmp_path)
    midway.pass_slices(slice_count)
    midway.world.cluster.delete_topic("users")
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}
    midway.world.cluster.create_topic("users", 1, settings=settings)
    for number in range(120):
        midway.send(number)

    left = midway.finish()

    assert len(left) < 60
    assert {it.key: it.value for it in left} == {b"k0": b"118", b"k1": b"119"}
    midway.world.cluster.close()
    assert not [it for it in tmp_path.rglob("*") if it.suffix in {".cleaned", ".swap"}]


@pytest.mark.parametrize("slice_count", range(0, 9, 2))
def test_turning_compaction_off_ends_a_round(slice_count: int) -> None:
    """In the middle; turned on again, all is dirty (KAFKA-7322, 6568)."""
    midway = Midway()
    midway.pass_slices(slice_count)
    alter_policy(midway, "delete")
    midway.world.advance(2_000)
    assert not midway.is_busy
    before = midway.world.cluster.records("users")[0]
    assert before == midway.finish()

    alter_policy(midway, "compact")
    for number in range(120, 160):
        midway.send(number)
    left = midway.finish()

    assert len(left) < len(before)
    assert {it.key: it.value for it in left} == {b"k0": b"158", b"k1": b"159"}
    midway.world.cluster.close()


def alter_policy(midway: Midway, policy: str) -> None:
    """Ask as an administrator does."""
    entry = {"name": "cleanup.policy", "config_operation": 0, "value": policy}
    body = {
        "resources": [{"resource_type": 2, "resource_name": "users", "configs": [entry]}],
        "validate_only": False,
    }
    answer = midway.world.client().ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
    assert answer["responses"][0]["error_code"] == 0, answer


@pytest.mark.parametrize("slice_count", range(9))
def test_closing_ends_a_round_without_a_file(tmp_path: Path, slice_count: int) -> None:
    """At every slice; the next start finds a log that was closed (I7)."""
    midway = Midway(tmp_path)
    midway.pass_slices(slice_count)
    before = midway.world.cluster.records("users")[0]
    midway.world.cluster.close()
    assert not [it for it in tmp_path.rglob("*") if it.suffix in {".cleaned", ".swap"}]

    world = World(topics={}, data_dir=tmp_path)
    assert world.cluster.records("users")[0] == before
    assert "checked" not in str(world.cluster.loaded)
    world.cluster.close()


def test_truncation_in_the_middle_of_a_round_ends_it() -> None:
    """The rest is compacted later."""
    midway = Midway()
    midway.pass_slices(2)
    midway.world.cluster.truncate("users", 0, 60)

    left = midway.finish()

    assert {it.key: it.value for it in left} == {b"k0": b"58", b"k1": b"59"}
    midway.world.cluster.close()


def test_records_above_the_high_watermark_clean_nothing_away() -> None:
    """They may be lost, and the older ones are then the newest (KAFKA-13194)."""
    changelog = Changelog()
    changelog.world.cluster.close()
    world = World(topics={})
    world.cluster.create_topic("users", 1, settings={"cleanup.policy": "compact"})
    client = world.client()
    rows = [(TIMESTAMP_MS, b"k", b"replicated", ())]
    assert client.produced(encode_batch(rows), topic="users")["error_code"] == 0
    world.cluster.set_follower_lag("users", 0, 1, None)
    rows = [(TIMESTAMP_MS, b"k", b"not replicated", ())]
    assert client.produced(encode_batch(rows), topic="users", acks=1)["error_code"] == 0

    world.cluster.compact("users")

    assert [it.value for it in world.cluster.records("users")[0]] == [
        b"replicated",
        b"not replicated",
    ]
    world.cluster.move_leader("users", 0, to=1)
    assert [it.value for it in world.cluster.records("users")[0]] == [b"replicated"]
    world.cluster.close()


def test_young_records_are_left_alone() -> None:
    """`min.compaction.lag.ms` holds for `compact`, too; after it they go."""
    changelog = Changelog(min_compaction_lag_ms="60000")
    changelog.send((b"k", b"1"))
    changelog.send((b"k", b"2"))
    changelog.cluster.compact("users")
    assert len(changelog.records()) == 2

    changelog.pass_time(60_001)
    changelog.cluster.compact("users")
    assert [it.value for it in changelog.records()] == [b"2"]
    changelog.cluster.close()


def test_old_dirty_records_do_not_wait_for_the_ratio() -> None:
    """`max.compaction.lag.ms`: half of nothing is dirty, but it is old (KIP-354)."""
    changelog = Changelog(max_compaction_lag_ms="3600000", min_cleanable_dirty_ratio="1.0")
    changelog.send((b"k", b"1"))
    changelog.send((b"k", b"2"))
    changelog.pass_time(3_600_001)
    changelog.send((b"k", b"3"))  # begins a segment, since the older ones waited so long
    changelog.pass_time(15_000)

    assert [it.value for it in changelog.records()] == [b"2", b"3"]
    changelog.cluster.close()


def test_old_segments_go_where_both_policies_hold() -> None:
    """By time, though all their records are the newest of their keys."""
    changelog = Changelog(cleanup_policy="compact,delete", retention_ms="1000")
    changelog.send((b"a", b"1"), (b"b", b"2"))
    changelog.cluster.compact("users")
    changelog.pass_time(1_001)
    changelog.send((b"c", b"3"))

    changelog.cluster.apply_retention("users")

    assert [it.key for it in changelog.records()] == [b"c"]
    changelog.cluster.close()


def test_a_log_that_cannot_be_read_is_left_alone_and_others_are_compacted(tmp_path: Path) -> None:
    """It is counted as uncleanable (KAFKA-7215), and its requests are still served."""
    config = EmbeddedConfig(cleaner_backoff_ms=1_000)
    world = World(brokers=1, topics={}, config=config, data_dir=tmp_path)
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}
    for topic in ("bad", "good"):
        world.cluster.create_topic(topic, 1, settings=settings)
        for number in range(60):
            rows = [(TIMESTAMP_MS, b"k", b"%d" % number, ())]
            world.client().produced(encode_batch(rows), topic=topic)
    path = tmp_path / "bad-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)

    for _ in range(20):
        world.advance(1_000)

    cleaner = world.cluster._kprod.engine.state.cleaner
    assert {it.topic for it in cleaner.uncleanable} == {"bad"}
    metrics = world.cluster.metrics()
    assert metrics["LogCleanerManager"]["uncleanable-partitions-count"] == 1
    assert metrics["LogCleanerManager"]["uncleanable-bytes"] == metrics["Log.bad-0"]["Size"] > 2_000
    assert len(world.cluster.records("good")[0]) < 40
    assert world.client().fetched(59, topic="bad")["error_code"] == 0
    assert not [it for it in tmp_path.rglob("*") if it.suffix in {".cleaned", ".swap"}]
    world.cluster.close()


def test_compacting_one_topic_now_puts_off_another_one_only() -> None:
    """Its round is given up, and comes again."""
    midway = Midway()
    midway.world.cluster.create_topic("other", 1, settings={"cleanup.policy": "compact"})
    rows = [(TIMESTAMP_MS, b"k", b"1", ()), (TIMESTAMP_MS, b"k", b"2", ())]
    answer = midway.world.client().produced(encode_batch(rows), topic="other")
    assert answer["error_code"] == 0
    midway.pass_slices(2)

    assert midway.world.cluster.compact("other")[0].kept_records == 1

    assert not midway.is_busy
    assert len(midway.finish()) < 60
    midway.world.cluster.close()
