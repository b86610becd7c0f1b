"""Reading a topic back, whatever its brokers do meanwhile."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kprod.errors import (
    CorruptRecord,
    KprodError,
    MetadataTimeout,
    RequestTimeout,
    UnknownPartition,
    UnknownTopic,
)
from kprod.network.topic_reader import ReaderOptions, TopicReader
from kprod.protocol.api import ApiKey
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


def reader_of(cluster: LogCluster, **fields: Any) -> TopicReader:
    """A reader of the cluster's topic."""
    fields.setdefault("topic", cluster.topic)
    topic = fields.pop("topic")
    return TopicReader(cluster.bootstrap, topic, clock=cluster.clock, io=cluster.io, **fields)


def read(cluster: LogCluster, **fields: Any) -> dict[int, list[tuple[int, bytes | None]]]:
    """Everything there is, by partition."""
    found: dict[int, list[tuple[int, bytes | None]]] = {}
    with reader_of(cluster, **fields) as reader:
        for partition, record in reader:
            found.setdefault(partition, []).append((record.offset, record.value))
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


def test_chance_is_the_callers() -> None:
    """One seed asks for the same in the same order, whatever happened before; others do not."""

    def requests(seed: int) -> str:
        cluster = LogCluster(*(log_of([b"a"], [b"b"]) for _ in range(9)))
        read(cluster, rng=random.Random(seed), options=ReaderOptions(fetch_bytes_max=1))
        return str([request.body for _, request in cluster.requests])

    by_seed = {seed: requests(seed) for seed in range(8)}

    assert {seed: requests(seed) for seed in range(8)} == by_seed
    assert len(set(by_seed.values())) > 1


def test_whole_records_are_given() -> None:
    """Key, value, headers, timestamp, offset."""
    cluster = LogCluster(log_of([b"a"]))
    with reader_of(cluster) as reader:
        ((partition, record),) = list(reader)

    assert partition == 0
    assert (record.offset, record.key, record.value, record.headers) == (0, b"key", b"a", ())
    assert record.timestamp_ms == 1_000


def test_ranges_before_reading() -> None:
    """First and end offset of each partition, for a progress bar."""
    log = log_of([b"a", b"b"], [b"c"])
    log.start_offset = 2
    cluster = LogCluster(log, log_of())
    with reader_of(cluster) as reader:
        assert reader.ranges() == {0: (2, 3), 1: (0, 0)}
        assert [record.value for _, record in reader] == [b"c"]


def test_only_the_partitions_asked_for() -> None:
    """In any order, repeated or not."""
    cluster = LogCluster(log_of([b"a"]), log_of([b"b"]), log_of([b"c"]))

    assert read(cluster, partitions=[2, 0, 2]) == {0: [(0, b"a")], 2: [(0, b"c")]}
    assert read(LogCluster(log_of([b"a"])), partitions=[]) == {}


def test_bytes_appended_while_reading_are_left_out() -> None:
    """The end is the one that the log had when it was asked for."""
    cluster = LogCluster(log_of([b"a"]))
    found = []
    with reader_of(cluster) as reader:
        reader.ranges()
        cluster.logs[0].append(b"later", b"later still")
        found = [record.value for _, record in reader]

    assert found == [b"a"]


def test_small_fetches_reach_the_end() -> None:
    """A response ends in the middle of a batch, which the next one begins with."""
    cluster = LogCluster(log_of(*[[b"x" * 50, b"y"]] * 20))

    found = read(cluster, options=ReaderOptions(partition_fetch_bytes_max=200))

    assert [offset for offset, _ in found[0]] == list(range(40))
    assert cluster.count(ApiKey.FETCH) > 10


def test_gaps_and_markers_are_passed_over() -> None:
    """Compaction leaves holes, transactions leave markers; the end is reached all the same."""
    log = Log()
    log.append(b"a", b"c", offset_deltas=[0, 4])
    log.append(b"marker", base_offset=7, is_control=True, is_transactional=True)
    log.append(b"d", base_offset=9)
    log.append(b"marker", base_offset=10, is_control=True, is_transactional=True)

    assert read(LogCluster(log)) == {0: [(0, b"a"), (4, b"c"), (9, b"d")]}


def test_entries_are_given_as_they_are() -> None:
    """Batches and old messages, markers too, each once."""
    log = Log()
    log.entries.append((0, 0, encode_message((0, 5, b"k", b"old"), magic=1)))
    log.append(b"a", b"b")
    log.append(b"marker", base_offset=7, is_control=True, is_transactional=True)
    with reader_of(LogCluster(log)) as reader:
        found = [(partition, entry.magic) for partition, entry in reader.entries()]
    assert found == [(0, 1), (0, 2), (0, 2)]


def test_an_answer_that_begins_before_the_offset() -> None:
    """A batch is given whole; records below the position are skipped."""
    log = log_of([b"a", b"b", b"c"])
    log.start_offset = 2

    assert read(LogCluster(log)) == {0: [(2, b"c")]}


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

    found = read(cluster, options=ReaderOptions(partition_fetch_bytes_max=100))

    assert [offset for offset, _ in found[0]] == list(range(10))


def test_a_silent_broker_is_asked_again() -> None:
    """Its request times out, its connection is replaced."""
    cluster = LogCluster(log_of([b"a"]))
    cluster.rules.append(once(ApiKey.FETCH, "silence"))

    assert read(cluster, options=ReaderOptions(timeout_ms=60_000)) == {0: [(0, b"a")]}


def test_a_new_leader_is_followed() -> None:
    """The old one rejects; metadata names the new one."""
    cluster = LogCluster(log_of([b"a"], [b"b"]))

    def move(moved: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.api_key == ApiKey.FETCH:
            moved.logs[0].leader_id, moved.logs[0].epoch = 2, 1

    cluster.rules.append(move)

    assert read(cluster) == {0: [(0, b"a"), (1, b"b")]}
    assert {node for node, request in cluster.requests if request.api_key == ApiKey.FETCH} == {1, 2}


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
        read(LogCluster(log_of([b"a"])), partitions=[3])


def test_no_broker_to_ask() -> None:
    """The error names the address and what happened there."""
    cluster = LogCluster(log_of([b"a"]))
    cluster.rules.append(lambda *_: "close")

    with pytest.raises(MetadataTimeout, match=r"127\.0\.0\.1:9101.*closed the connection"):
        read(cluster, options=ReaderOptions(timeout_ms=3_000))


def test_a_broker_that_never_gives_anything() -> None:
    """The error says where reading stands."""
    cluster = LogCluster(log_of([b"a"]))
    empty = {"responses": [{"topic": "orders", "partitions": [{"partition_index": 0}]}]}
    cluster.rules.append(
        lambda _cluster, _node, request: empty if request.api_key == ApiKey.FETCH else None
    )

    with pytest.raises(RequestTimeout, match="0 at 0 of 1"):
        read(cluster, options=ReaderOptions(timeout_ms=3_000))


@pytest.mark.parametrize("api_key", [ApiKey.LIST_OFFSETS, ApiKey.FETCH])
def test_a_rejection_that_time_cannot_mend(api_key: ApiKey) -> None:
    """Such as a missing right: an error at once, with topic and partition."""
    cluster = LogCluster(log_of([b"a"]))
    partitions = [{"partition_index": 0, "error_code": 29}]
    cluster.rules.append(
        once(ApiKey.FETCH, {"responses": [{"topic": "orders", "partitions": partitions}]})
        if api_key == ApiKey.FETCH
        else once(api_key, {"topics": [{"name": "orders", "partitions": partitions}]})
    )

    with pytest.raises(KprodError, match="orders, partition 0") as raised:
        read(cluster)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(raised.value)


def test_corrupt_records_are_an_error_with_the_place() -> None:
    """Topic, partition and offset; the records before are given."""
    log = log_of([b"a"], [b"b"])
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, batch[:-1] + b"\xff")
    given: list[bytes | None] = []

    with (
        reader_of(LogCluster(log)) as reader,
        pytest.raises(CorruptRecord, match="'orders', partition 0, at or after offset 1"),
    ):
        given.extend(record.value for _, record in reader)

    with reader_of(LogCluster(log), options=ReaderOptions(check_crc=False)) as reader:
        assert next(iter(reader))[1].value == b"a"


def test_reading_can_be_taken_up_again() -> None:
    """An iteration that was left continues behind the last record given."""
    cluster = LogCluster(log_of([b"a", b"b", b"c"]))
    with reader_of(cluster) as reader:
        for _, record in reader:
            first = record.value
            break
        rest = [record.value for _, record in reader]

    assert (first, rest) == (b"a", [b"b", b"c"])


def test_closing_leaves_nothing() -> None:
    """Sockets and selector are closed."""
    cluster = LogCluster(log_of([b"a"]))
    read(cluster)

    assert all(transport.is_closed for transport in cluster.transports)
    assert cluster.selector.is_closed
