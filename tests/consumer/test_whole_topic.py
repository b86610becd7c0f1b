"""Reading what a topic has now, whatever its brokers do meanwhile."""

from collections.abc import Sequence
from typing import Any

import pytest

from kprod.consumer.whole_topic import offset_ranges, records_to_end
from kprod.errors import CorruptRecord, KprodError, KprodTimeout, UnknownPartition, UnknownTopic
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster, Rule
from tests.oracle.message_set import encode_message


def log_of(*batches: Sequence[bytes], leader_id: int = 1) -> Log:
    """A partition of such batches."""
    log = Log()
    log.leader_id = leader_id
    for values in batches:
        log.append(*values)
    return log


def read(
    cluster: LogCluster, partitions: list[int] | None = None, topic: str = "orders", **settings: Any
) -> dict[int, list[tuple[int, bytes | None]]]:
    """Everything there is, by partition."""
    found: dict[int, list[tuple[int, bytes | None]]] = {}
    with scripted_consumer(cluster, **settings) as consumer:
        for record in records_to_end(consumer, topic, partitions):
            found.setdefault(record.partition, []).append((record.offset, record.value))
    return found


def once(api_key: ApiKey, answer: dict[str, Any] | str, *, after: int = 0) -> Rule:
    """Answer one request of a kind, the one behind `after` others, in another way."""
    seen: list[int] = []

    def rule(
        _cluster: LogCluster, _node_id: int, request: PeerRequest
    ) -> dict[str, Any] | str | None:
        if request.api_key != api_key:
            return None
        seen.append(1)
        return answer if len(seen) == after + 1 else None

    return rule


def test_all_partitions_are_read_in_order() -> None:
    """Over two leaders, each partition from its first record to its end."""
    cluster = LogCluster(
        log_of([b"a", b"b"], [b"c"]), log_of([b"d"], leader_id=2), log_of(leader_id=2)
    )
    assert read(cluster) == {0: [(0, b"a"), (1, b"b"), (2, b"c")], 1: [(0, b"d")]}


def test_ranges() -> None:
    """First and end offset of each partition; the assignment stays."""
    log = log_of([b"a", b"b"], [b"c"])
    log.start_offset = 2
    with scripted_consumer(LogCluster(log, log_of())) as consumer:
        found = offset_ranges(consumer, "orders")
        assert found == {TopicPartition("orders", 0): (2, 3), TopicPartition("orders", 1): (0, 0)}
        assert consumer.assignment() == set()


def test_only_the_partitions_asked_for() -> None:
    """In any order, repeated or not."""
    cluster = LogCluster(log_of([b"a"]), log_of([b"b"]), log_of([b"c"]))
    assert read(cluster, [2, 0, 2]) == {0: [(0, b"a")], 2: [(0, b"c")]}
    assert read(LogCluster(log_of([b"a"])), []) == {}


def test_records_that_are_appended_meanwhile_are_left_out() -> None:
    """The end is the one that the log had when it was asked for."""
    cluster = LogCluster(log_of([b"a"]))

    def append(appended: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.api_key == ApiKey.FETCH and appended.logs[0].end_offset == 1:
            appended.logs[0].append(b"later", b"later still")

    cluster.rules.append(append)
    assert read(cluster) == {0: [(0, b"a")]}
    assert cluster.logs[0].end_offset == 3


def test_gaps_and_markers_are_passed_over() -> None:
    """Compaction leaves holes, transactions leave markers; the end is reached all the same."""
    log = Log()
    log.append(b"a", b"c", offset_deltas=[0, 4])
    log.append(b"marker", base_offset=7, is_control=True, is_transactional=True)
    log.append(b"d", base_offset=9)
    log.append(b"marker", base_offset=10, is_control=True, is_transactional=True)
    assert read(LogCluster(log)) == {0: [(0, b"a"), (4, b"c"), (9, b"d")]}


def test_old_formats_are_read() -> None:
    """A log that began before record batches."""
    log = Log()
    log.entries.append((0, 0, encode_message((0, 5, b"k", b"old"), magic=1)))
    log.append(b"new")
    assert read(LogCluster(log)) == {0: [(0, b"old"), (1, b"new")]}


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH])
@pytest.mark.parametrize("after", [0, 1])
def test_a_lost_connection_is_made_again(api_key: ApiKey, after: int) -> None:
    """Each request is repeated; no record twice, none missing."""
    cluster = LogCluster(log_of(*[[b"a", b"b"]] * 5))
    cluster.rules.append(once(api_key, "close", after=after))
    found = read(cluster, max_partition_fetch_bytes=100)
    assert [offset for offset, _ in found[0]] == list(range(10))


def test_a_log_that_loses_its_beginning() -> None:
    """Retention is faster than the reader: it continues where the log now begins."""
    cluster = LogCluster(log_of([b"a"], [b"b"], [b"c"]))

    def expire(expired: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.api_key == ApiKey.FETCH:
            expired.logs[0].start_offset = 2

    cluster.rules.append(expire)
    assert read(cluster) == {0: [(2, b"c")]}


def test_an_unknown_topic_is_an_error_with_its_name() -> None:
    """After a few seconds, in which it may still appear."""
    with pytest.raises(UnknownTopic, match="'nowhere'"):
        read(LogCluster(log_of([b"a"])), topic="nowhere")


def test_a_topic_that_appears_late() -> None:
    """A topic that was just made is not known everywhere at once."""
    cluster = LogCluster()

    def appear(late: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.api_key == ApiKey.METADATA and late.count(ApiKey.METADATA) > 3 and not late.logs:
            late.logs.append(log_of([b"a"]))

    cluster.rules.append(appear)
    assert read(cluster) == {0: [(0, b"a")]}


def test_an_unknown_partition_is_an_error_with_the_range() -> None:
    """The text says which there are."""
    with pytest.raises(UnknownPartition, match="partitions 0 to 0, not 3"):
        read(LogCluster(log_of([b"a"])), [3])


def test_no_broker_to_ask() -> None:
    """The error names the address and what happened there."""
    cluster = LogCluster(log_of([b"a"]))
    cluster.rules.append(lambda *_: "close")
    with pytest.raises(KprodTimeout, match=r"127\.0\.0\.1:9101.*closed the connection"):
        read(cluster, default_api_timeout_ms=3_000)


def test_a_broker_that_never_gives_anything() -> None:
    """The error says where reading stands, and the limit."""
    cluster = LogCluster(log_of([b"a"]))
    cluster.rules.append(
        lambda _cluster, _node, request: "silence" if request.api_key == ApiKey.FETCH else None
    )
    with pytest.raises(KprodTimeout, match=r"orders-0 for 3000 ms \(default_api_.*0 at 0: "):
        read(cluster, default_api_timeout_ms=3_000)


@pytest.mark.parametrize("api_key", [ApiKey.LIST_OFFSETS, ApiKey.FETCH])
def test_a_rejection_that_time_cannot_mend(api_key: ApiKey) -> None:
    """Such as a missing right, which concerns all partitions: an error at once, with the topic."""
    cluster = LogCluster(log_of([b"a"]))

    def reject(made: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != api_key:
            return None
        body = made.usual_response(node_id, request)
        topics = body.get("responses") or body["topics"]
        topics[0]["partitions"] = [{"partition_index": 0, "error_code": 29}]
        return body

    cluster.rules.append(reject)
    with pytest.raises(KprodError, match=r"TOPIC_AUTHORIZATION_FAILED.* on topic 'orders'"):
        read(cluster)


def test_corrupt_records_are_an_error_with_the_place() -> None:
    """Topic, partition and offset; the records before are given."""
    log = log_of([b"a"], [b"b"])
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, batch[:-1] + b"\xff")
    given: list[bytes | None] = []
    with (
        scripted_consumer(LogCluster(log)) as consumer,
        pytest.raises(CorruptRecord, match=r"orders.*partition 0.*offset 1"),
    ):
        given.extend(record.value for record in records_to_end(consumer, "orders"))
    assert given == [b"a"]
