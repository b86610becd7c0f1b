"""The consumer against the embedded broker: what an application does with it."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.consumer_metrics import GROUP, ROWS
from kprod.consumer.mailbox import StepUnfinished
from kprod.errors import (
    ClosedError,
    ConcurrentPoll,
    ConfigError,
    KprodError,
    NoOffset,
    UnknownPartition,
    UnknownTopic,
    WakeupError,
)
from kprod.model import TopicPartition
from tests.consumer.reading import CLOCK, LIMIT_S, consumer_of, fill, later, poll_count, poll_until

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with a topic of two partitions."""
    with EmbeddedCluster(brokers=1) as made:
        made.create_topic("t", 2)
        yield made


def offsets(records: list[Any], partition: int = 0) -> list[int]:
    """The offsets of one partition, as they came."""
    return [record.offset for record in records if record.partition == partition]


def test_records_are_whole(cluster: EmbeddedCluster) -> None:
    """Everything that was sent, and where it is."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(
            "t",
            b"value",
            key=b"key",
            headers=[("h", b"1"), ("h", None)],
            partition=1,
            timestamp_ms=1_234,
        )
    with consumer_of(cluster, "t") as consumer:
        (record,) = poll_count(consumer, 1)
    assert (record.topic, record.partition, record.offset) == ("t", 1, 0)
    assert (record.key, record.value, record.timestamp_ms) == (b"key", b"value", 1_234)
    assert record.headers == (("h", b"1"), ("h", None))
    assert record.leader_epoch == 0


def test_each_partition_in_order(cluster: EmbeddedCluster) -> None:
    """Every record once, ascending, over many batches and polls."""
    for partition in (0, 1):
        fill(cluster, "t", 3_000, partition=partition, batch_size=1_000)
    with consumer_of(cluster, max_poll_records=7) as consumer:
        consumer.assign([T0, T1])
        records = poll_count(consumer, 6_000)
    assert offsets(records) == offsets(records, 1) == list(range(3_000))
    assert all(record.value == str(record.offset).encode() for record in records)


def test_poll_returns_at_most_what_was_asked_for(cluster: EmbeddedCluster) -> None:
    """The argument goes before the setting."""
    fill(cluster, "t", 20)
    with consumer_of(cluster, max_poll_records=4) as consumer:
        consumer.assign([T0])
        first = poll_count(consumer, 1)
        assert len(first) <= 4
        assert len(consumer.poll(LIMIT_S, 2)) == 2


def test_poll_without_records_takes_its_time_and_no_more(cluster: EmbeddedCluster) -> None:
    """An empty list; with 0 at once."""
    with consumer_of(cluster, "t") as consumer:
        assert consumer.poll(0) == []
        assert consumer.poll(0.05) == []


def test_latest_reads_only_what_comes(cluster: EmbeddedCluster) -> None:
    """The default."""
    fill(cluster, "t", 5)
    with consumer_of(cluster, auto_offset_reset="latest") as consumer:
        consumer.assign([T0])
        assert consumer.position(T0) == 5
        fill(cluster, "t", 2)
        assert offsets(poll_count(consumer, 2)) == [5, 6]


def test_an_empty_result_is_a_new_list(cluster: EmbeddedCluster) -> None:
    """Also where a step for the polling thread is unfinished: the application may add to it."""

    def step() -> None:
        raise StepUnfinished

    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        engine_of(consumer).parts.mailbox.hand(step)
        for _ in range(2):
            records: list[Any] = consumer.poll(0)
            assert records == []
            records.append("the application's")
        assert consumer.poll(0, max_records=5) == []


def test_a_record_that_none_can_follow_is_not_skipped(cluster: EmbeddedCluster) -> None:
    """The position behind it would be no offset; the consumer reads on."""
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        for offset in (2**63 - 1, 2**80, -1):
            record = SimpleNamespace(topic="t", partition=0, offset=offset)
            with pytest.raises(ValueError, match="no record follows"):
                consumer.skip(record)
        fill(cluster, "t", 1)
        assert [record.offset for record in poll_count(consumer, 1)] == [0]


def test_by_duration_begins_at_a_time(cluster: EmbeddedCluster) -> None:
    """Records that are older than the duration are skipped; without younger ones, the end."""
    now_ms = CLOCK.timestamp_ms()
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for age_s in (7_200, 1_800, 0):
            producer.send("t", b"v", partition=0, timestamp_ms=now_ms - age_s * 1_000)
            producer.flush()
    with consumer_of(cluster, auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([T0, T1])
        assert offsets(poll_count(consumer, 2)) == [1, 2]
        assert consumer.position(T1) == 0


def test_the_policy_none_names_every_partition(cluster: EmbeddedCluster) -> None:
    """Until each has an offset."""
    fill(cluster, "t", 3)
    with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([T0, T1])
        with pytest.raises(NoOffset, match=r"t-0, t-1.*auto_offset_reset=none") as raised:
            consumer.poll(1)
        assert raised.value.partitions == (("t", 0), ("t", 1))
        consumer.seek(T0, 1)
        with pytest.raises(NoOffset) as raised:
            consumer.poll(1)
        assert raised.value.partitions == (("t", 1),)
        consumer.seek_to_beginning(T1)
        assert offsets(poll_count(consumer, 2)) == [1, 2]


def test_an_offset_beyond_the_log_is_reset(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The line in the log has both offsets and the policy."""
    fill(cluster, "t", 3)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 100)
        assert offsets(poll_count(consumer, 3)) == [0, 1, 2]
    (line,) = [it.getMessage() for it in caplog.records if "offset 100" in it.getMessage()]
    assert "continues at offset 0" in line
    assert "auto_offset_reset=earliest" in line


def test_an_offset_beyond_the_log_is_an_error_without_a_policy(cluster: EmbeddedCluster) -> None:
    """It names the partition and the offset; a seek continues."""
    fill(cluster, "t", 3)
    with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 100)
        with pytest.raises(NoOffset, match=r"t-0 \(offset 100 is not in the log\)"):
            poll_count(consumer, 1)
        consumer.seek(T0, 2)
        assert offsets(poll_count(consumer, 1)) == [2]


def test_seek_takes_effect_before_the_next_record(cluster: EmbeddedCluster) -> None:
    """Prefetched records are dropped, when seeking back and when seeking to the end."""
    fill(cluster, "t", 1_000)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        assert offsets(consumer.poll(LIMIT_S, 10)) == list(range(10))
        consumer.seek(T0, 500)
        assert consumer.position(T0) == 500
        assert offsets(consumer.poll(LIMIT_S, 3)) == [500, 501, 502]
        consumer.seek(T0, 0)
        assert offsets(consumer.poll(LIMIT_S, 2)) == [0, 1]
        consumer.seek_to_end()
        assert consumer.position(T0) == 1_000
        assert consumer.poll(0.2) == []
        fill(cluster, "t", 1)
        assert offsets(poll_count(consumer, 1)) == [1_000]


@pytest.mark.parametrize("offset", [-1, 2**63, True, 1.5, "1"])
def test_an_impossible_offset_is_rejected(cluster: EmbeddedCluster, offset: Any) -> None:
    """Before anything happens."""
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        with pytest.raises((ValueError, TypeError), match="offset"):
            consumer.seek(T0, offset)
        assert consumer.position(T0) == 0


def test_only_what_is_assigned_can_be_sought(cluster: EmbeddedCluster) -> None:
    """The error names the partition."""
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        for call in (consumer.position, consumer.lag, consumer.pause, consumer.seek_to_end):
            with pytest.raises(KprodError, match="partition 1 of topic 't' is not assigned"):
                call(T1)


@pytest.mark.parametrize(
    "wrong", ["t", T0, ["t"], [("t",)], [("t", "0")], [("t", -1)], [("a b", 0)], [("t", True)]]
)
def test_what_is_no_list_of_partitions_is_rejected(cluster: EmbeddedCluster, wrong: Any) -> None:
    """A topic alone, one partition alone, impossible names and numbers."""
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        with pytest.raises((TypeError, ValueError)):
            consumer.assign(wrong)
        assert consumer.assignment() == {T0}


def test_partitions_that_stay_keep_their_positions(cluster: EmbeddedCluster) -> None:
    """A new assignment only starts the new partitions."""
    fill(cluster, "t", 10)
    fill(cluster, "t", 10, partition=1)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        assert offsets(consumer.poll(LIMIT_S, 4)) == [0, 1, 2, 3]
        consumer.assign([T0, T1])
        records = poll_count(consumer, 16)
        assert offsets(records) == list(range(4, 10))
        assert offsets(records, 1) == list(range(10))
        consumer.assign([T1])
        fill(cluster, "t", 1)
        fill(cluster, "t", 1, partition=1)
        assert {record.partition for record in poll_count(consumer, 1)} == {1}
        with pytest.raises(KprodError, match="not assigned"):
            consumer.position(T0)


def test_a_pause_keeps_what_was_fetched(cluster: EmbeddedCluster) -> None:
    """Nothing of it is handed out; after resuming it continues, without another fetch."""
    fill(cluster, "t", 100)
    fill(cluster, "t", 100, partition=1)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0, T1])
        first = poll_until(consumer, lambda found: bool(offsets(found)))
        seen = len(offsets(first))
        consumer.pause(T0)
        assert consumer.paused() == {T0}
        rest = poll_until(
            consumer, lambda found: len(offsets(found, 1)) >= 100 - len(offsets(first, 1))
        )
        assert offsets(rest) == []
        assert consumer.poll(0.2) == []
        fetched = consumer.metrics()["consumer-fetch-manager-metrics"]["bytes-consumed-total"]
        consumer.resume(T0)
        assert offsets(poll_count(consumer, 100 - seen)) == list(range(seen, 100))
        now = consumer.metrics()["consumer-fetch-manager-metrics"]["bytes-consumed-total"]
        assert now == fetched


def test_a_pause_in_the_loop_holds_the_next_record_back(cluster: EmbeddedCluster) -> None:
    """The record in hand is the last one until it is resumed."""
    fill(cluster, "t", 50)
    with consumer_of(cluster, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 10:
                consumer.pause(T0)
        assert seen == list(range(11))
        assert consumer.position(T0) == 11
        consumer.resume(T0)
        assert [record.offset for record in consumer] == list(range(11, 50))


def test_a_seek_in_the_loop_is_followed(cluster: EmbeddedCluster) -> None:
    """The next record is the one sought."""
    fill(cluster, "t", 50)
    with consumer_of(cluster, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 3:
                consumer.seek(T0, 40)
        assert seen == [0, 1, 2, *range(40, 50)]


def test_a_loop_that_was_left_continues(cluster: EmbeddedCluster) -> None:
    """By break, by an exception, by poll in the middle of it."""
    fill(cluster, "t", 20)
    seen: list[int] = []

    def read(count: int, leave: Callable[[], object]) -> None:
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == count:
                leave()

    def fail() -> None:
        raise ZeroDivisionError

    with consumer_of(cluster, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        for record in consumer:
            seen.append(record.offset)
            break
        assert consumer.position(T0) == 1
        with pytest.raises(ZeroDivisionError):
            read(6, fail)
        read(8, lambda: seen.extend(offsets(consumer.poll(1, 4))))
    assert seen == list(range(20))


def test_the_position_follows_the_loop(cluster: EmbeddedCluster) -> None:
    """It is behind the record in hand."""
    fill(cluster, "t", 5)
    with consumer_of(cluster, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        assert [(record.offset + 1, consumer.position(T0)) for record in consumer] == [
            (number, number) for number in range(1, 6)
        ]


def test_the_end_of_a_log_and_the_lag(cluster: EmbeddedCluster) -> None:
    """They are known of partitions that are assigned, or not."""
    fill(cluster, "t", 12)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        assert consumer.beginning_offsets([T0, T1]) == {T0: 0, T1: 0}
        assert consumer.end_offsets([T0, T1]) == {T0: 12, T1: 0}
        consumer.poll(LIMIT_S, 5)
        assert consumer.lag(T0) == 7
        poll_count(consumer, 7)
        assert consumer.lag(T0) == 0


def test_offsets_of_times(cluster: EmbeddedCluster) -> None:
    """The first record stamped then or later, or None."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for timestamp_ms in (1_000, 2_000, 3_000):
            producer.send("t", b"v", partition=0, timestamp_ms=timestamp_ms)
    with consumer_of(cluster) as consumer:
        found = consumer.offsets_for_times({T0: 1_500, T1: 0})
        assert found == {T0: (1, 2_000, 0), T1: None}
        assert consumer.offsets_for_times({T0: 4_000}) == {T0: None}
        with pytest.raises(ValueError, match="milliseconds since 1970"):
            consumer.offsets_for_times({T0: -1})


def test_partitions_of_a_topic(cluster: EmbeddedCluster) -> None:
    """Also of one that nobody reads; an unknown one is an error."""
    with consumer_of(cluster) as consumer:
        assert consumer.partitions_for("t") == [T0, T1]
        with pytest.raises(KprodError, match="nowhere"):
            consumer.partitions_for("nowhere")


def test_a_topic_grows(cluster: EmbeddedCluster) -> None:
    """New partitions are read from their beginning, although the policy is latest."""
    fill(cluster, "t", 1)
    with consumer_of(cluster, "t", auto_offset_reset="latest", metadata_max_age_ms=300) as consumer:
        poll_until(consumer, lambda _: len(consumer.assignment()) == 2)
        assert consumer.subscription() == {"t"}
        consumer.position(T0)
        consumer.position(T1)
        _grow(cluster, "t", 3)
        fill(cluster, "t", 4, partition=2)
        assert offsets(poll_count(consumer, 4), 2) == [0, 1, 2, 3]


def _grow(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewPartitions  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result(LIMIT_S)


def test_an_unknown_topic_is_an_error(cluster: EmbeddedCluster) -> None:
    """It is raised again only by a poll that finds nothing; other topics are read meanwhile."""
    fill(cluster, "t", 3)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0, TopicPartition("nowhere", 0)])
        assert offsets(poll_count(consumer, 3)) == [0, 1, 2]
        with pytest.raises(UnknownTopic, match="nowhere"):
            poll_count(consumer, 1)
        with pytest.raises(UnknownTopic, match="nowhere"):
            consumer.poll(0.1)
        fill(cluster, "t", 1)
        assert offsets(consumer.poll(LIMIT_S)) == [3]


def test_an_unknown_partition_is_an_error(cluster: EmbeddedCluster) -> None:
    """The text says which there are."""
    with consumer_of(cluster) as consumer:
        consumer.assign([T0, TopicPartition("t", 7)])
        with pytest.raises(UnknownPartition, match="partitions 0 to 1, not 7"):
            poll_count(consumer, 1)


def test_nothing_to_read_is_an_error(cluster: EmbeddedCluster) -> None:
    """Before anything was assigned, and after all was given up."""
    with consumer_of(cluster) as consumer:
        with pytest.raises(KprodError, match="nothing to read"):
            consumer.poll(0)
        consumer.subscribe("t")
        assert consumer.poll(0) == []
        consumer.unsubscribe()
        with pytest.raises(KprodError, match="nothing to read"):
            next(iter(consumer))


def test_wakeup_ends_a_poll(cluster: EmbeddedCluster) -> None:
    """The one in progress, or the next; only one."""
    with consumer_of(cluster, "t") as consumer:
        thread = later(consumer.wakeup)
        with pytest.raises(WakeupError):
            consumer.poll(LIMIT_S)
        thread.join()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(0)
        assert consumer.poll(0) == []


def test_close_ends_a_poll(cluster: EmbeddedCluster) -> None:
    """Another thread's; then every call is rejected."""
    consumer = consumer_of(cluster, "t")
    thread = later(consumer.close)
    with pytest.raises(ClosedError):
        consumer.poll(LIMIT_S)
    thread.join()
    for call in (consumer.poll, lambda: consumer.assign([T0]), lambda: next(iter(consumer))):
        with pytest.raises(ClosedError, match="closed"):
            call()
    consumer.close()
    assert "closed" in repr(consumer)


def test_a_second_thread_is_rejected(cluster: EmbeddedCluster) -> None:
    """While the first one polls; afterwards it may."""
    with consumer_of(cluster, "t") as consumer:
        entered = threading.Event()
        found: list[BaseException] = []

        def poll() -> None:
            entered.set()
            try:
                consumer.poll(LIMIT_S)
            except KprodError as error:
                found.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        entered.wait()
        rejected = _rejection(consumer)
        assert "one thread at a time" in str(rejected)
        consumer.wakeup()
        thread.join()
        assert isinstance(found[0], WakeupError)
        assert consumer.poll(0) == []


def _rejection(consumer: Consumer) -> ConcurrentPoll:
    until_ms = CLOCK.now_ms() + LIMIT_S * 1_000
    while CLOCK.now_ms() < until_ms:
        try:
            consumer.poll(0)
        except ConcurrentPoll as error:
            return error
    raise AssertionError("a second thread was never rejected")


def test_values_may_be_views(cluster: EmbeddedCluster) -> None:
    """They stay readable after the block is gone."""
    fill(cluster, "t", 100)
    with consumer_of(cluster, "t", value_type="memoryview") as consumer:
        records = poll_count(consumer, 100)
    assert all(isinstance(record.value, memoryview) for record in records)
    assert [bytes(record.value) for record in records] == [str(it).encode() for it in range(100)]


def test_one_partition_does_not_starve_another(cluster: EmbeddedCluster) -> None:
    """Blocks of partitions take turns, however much each has."""
    for partition in (0, 1):
        fill(cluster, "t", 20_000, partition=partition, batch_size=2_000)
    with consumer_of(cluster, max_partition_fetch_bytes=10_000) as consumer:
        consumer.assign([T0, T1])
        records = poll_count(consumer, 8_000)
    assert min(len(offsets(records)), len(offsets(records, 1))) > 1_000


def test_memory_is_bounded(cluster: EmbeddedCluster) -> None:
    """An application that does not read stops the fetching."""
    for partition in (0, 1):
        fill(cluster, "t", 20_000, partition=partition, batch_size=2_000)
    with consumer_of(cluster, fetch_buffer_memory=64 * 1024) as consumer:
        consumer.assign([T0, T1])
        consumer.poll(LIMIT_S, 1)
        for _ in range(20):  # the other thread fetches all the time
            metrics = consumer.metrics()["consumer-fetch-manager-metrics"]
            assert metrics["buffered-bytes"] <= 64 * 1024
            threading.Event().wait(0.02)
        assert metrics["buffered-bytes"] > 0
        assert len(poll_count(consumer, 39_999)) == 39_999


def test_a_wrong_setting_leaves_nothing_open(cluster: EmbeddedCluster) -> None:
    """Neither a thread nor a socket, which another test would find."""
    with pytest.raises(ConfigError, match="max_poll_records"):
        consumer_of(cluster, "t", max_poll_records=0)
    with pytest.raises(ValueError, match="topic name"):
        consumer_of(cluster, "no topic")
    with pytest.raises(ConfigError, match="classic protocol"):
        consumer_of(cluster, "t", group_protocol="consumer")
    with consumer_of(cluster, "t") as consumer, pytest.raises(ValueError, match="timeout"):
        consumer.close(-1)


def test_kafkas_names_as_a_mapping(cluster: EmbeddedCluster) -> None:
    """As for the producer."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
    fill(cluster, "t", 1)
    with Consumer("t", settings=settings) as consumer:
        assert offsets(poll_count(consumer, 1)) == [0]


def test_a_consumer_that_nobody_has_ends(cluster: EmbeddedCluster) -> None:
    """Its thread would fetch for ever, so the fixture that looks for leaks would find it."""
    consumer = consumer_of(cluster, "t")
    thread = consumer._kprod.parts.thread  # type: ignore[union-attr]
    with pytest.warns(ResourceWarning, match="was not closed"):
        del consumer
    assert thread.wait_ended(LIMIT_S)


def test_metrics_are_those_of_their_page(cluster: EmbeddedCluster) -> None:
    """The table of the page has every name, in its group, and no other."""
    fill(cluster, "t", 3)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        poll_count(consumer, 3)
        metrics = consumer.metrics()
    assert list(metrics) == [GROUP, f"{GROUP}.t-0"]
    for group, of_partition in zip(metrics.values(), (False, True), strict=True):
        assert list(group) == [it.name for it in ROWS if it.of_partition == of_partition]
    assert metrics[GROUP]["records-consumed-total"] == 3
    assert metrics[f"{GROUP}.t-0"]["records-lag"] == 0
