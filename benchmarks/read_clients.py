"""One reader's sustained run: read a topic round and round, touch every value, count the cost.

Every reader is set up for throughput: answers of 4 MiB a partition where it takes one that large,
and confluent-kafka with `fetch.queue.backoff.ms=1`, without which it idles for a second whenever
its queue is full. Which of `QUEUES` is best for it is tried on the spot, by `read.py`.

A run begins with a check that is not timed: the offsets of the first half million records follow
one another without a gap. Then it goes back to the beginning and the clocks start. At the end of
each round every record of the topic must have come once; the timed loop itself takes nothing of a
record but the length of its value.

Thread-safety: one reader a process, on the main thread.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from read_load import CHUNK, FETCH_BYTES, QUEUES, ReadLoad, counted
from read_loops import aiokafka_async, aiokafka_getmany, kprod_async


def _kprod(load: ReadLoad) -> Any:  # noqa: ANN401 - each process imports one client only
    import kprod  # noqa: PLC0415 - as above

    consumer = kprod.Consumer(bootstrap_servers=load.address, auto_offset_reset="earliest")
    consumer.assign([(load.topic, number) for number in range(load.partitions)])
    while load.check([(it.partition, it.offset) for it in consumer.poll(1.0, CHUNK)]):
        pass
    consumer.seek_to_beginning()
    return consumer


def kprod_iterate(load: ReadLoad) -> None:
    """As it comes: no setting but the address; `for record in consumer`."""
    with _kprod(load) as consumer:
        load.begin()
        while load.goes_on:
            # Not one clock and no call of ours a record: the loop checks once per block.
            size = min(CHUNK * 10, load.record_count - load._in_round)  # noqa: SLF001
            total = 0
            for record in itertools.islice(consumer, size):
                total += len(record.value)
            if load.take(size, total):
                consumer.seek_to_beginning()


def kprod_poll(load: ReadLoad) -> None:
    """As it comes, `poll` with ten thousand records a call."""
    with _kprod(load) as consumer:
        load.begin()
        while load.goes_on:
            records = consumer.poll(1.0, CHUNK)
            total = 0
            for record in records:
                total += len(record.value)
            if load.take(len(records), total):
                consumer.seek_to_beginning()


def kprod_arrow(load: ReadLoad) -> None:
    """As it comes, `poll_arrow`; a kernel of pyarrow sums the lengths."""
    from pyarrow import compute  # noqa: PLC0415 - as above

    with _kprod(load) as consumer:
        load.begin()
        while load.goes_on:
            rows = consumer.poll_arrow(1.0)
            lengths = compute.sum(compute.binary_length(rows["value"])).as_py() or 0
            if load.take(rows.num_rows, lengths):
                consumer.seek_to_beginning()


def _confluent(load: ReadLoad) -> tuple[Any, Callable[[], None]]:
    """Make a reader that has passed the check, and the function that takes it to the beginning."""
    import confluent_kafka  # noqa: PLC0415 - as above

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": load.address,
            "group.id": "race",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 1,
            **QUEUES[load.queue],
        }
    )
    beginning = [
        confluent_kafka.TopicPartition(load.topic, number, 0) for number in range(load.partitions)
    ]

    def go_back() -> None:
        for each in beginning:
            consumer.seek(each)

    consumer.assign(beginning)
    while load.check(
        [(it.partition() or 0, it.offset() or 0) for it in consumer.consume(CHUNK, 1.0)]
    ):
        pass
    go_back()
    return consumer, go_back


def confluent_consume(load: ReadLoad) -> None:
    """confluent-kafka, `consume` with ten thousand messages a call."""
    consumer, go_back = _confluent(load)
    load.begin()
    while load.goes_on:
        messages = consumer.consume(CHUNK, 1.0)
        total = 0
        for message in messages:
            total += len(message.value())
        if load.take(len(messages), total):
            go_back()
    consumer.close()


def confluent_poll(load: ReadLoad) -> None:
    """confluent-kafka, `poll` message by message."""
    consumer, go_back = _confluent(load)
    poll = consumer.poll
    load.begin()
    while load.goes_on:
        count = total = 0
        for _ in range(min(CHUNK * 10, load.record_count - load._in_round)):  # noqa: SLF001
            message = poll(1.0)
            if message is None:
                break
            total += len(message.value())
            count += 1
        if load.take(count, total):
            go_back()
    consumer.close()


def confluent_arrow(load: ReadLoad) -> None:
    """confluent-kafka, `consume`, and the columns that `poll_arrow` gives built from messages."""
    import pyarrow as pa  # noqa: PLC0415 - as above
    from pyarrow import compute  # noqa: PLC0415 - as above

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    consumer, go_back = _confluent(load)
    load.begin()
    while load.goes_on:
        messages = consumer.consume(CHUNK, 1.0)
        rows = pa.record_batch(
            {
                "topic": pa.array([it.topic() for it in messages]).dictionary_encode(),
                "partition": pa.array([it.partition() for it in messages], pa.int32()),
                "offset": pa.array([it.offset() for it in messages], pa.int64()),
                "timestamp": pa.array(
                    [it.timestamp()[1] for it in messages], pa.timestamp("ms", "UTC")
                ),
                "key": pa.array([it.key() for it in messages], pa.binary()),
                "value": pa.array([it.value() for it in messages], pa.binary()),
                "headers": pa.array([it.headers() for it in messages], pa.list_(header)),
            }
        )
        lengths = compute.sum(compute.binary_length(rows["value"])).as_py() or 0
        if load.take(rows.num_rows, lengths):
            go_back()
    consumer.close()


def kafka_python_poll(load: ReadLoad) -> None:
    """kafka-python, `poll` with ten thousand records a call."""
    import kafka  # noqa: PLC0415 - as above

    partitions = [kafka.TopicPartition(load.topic, number) for number in range(load.partitions)]
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=load.address,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
        max_poll_records=CHUNK,
    )
    consumer.assign(partitions)
    is_checking = True
    while is_checking:
        found = consumer.poll(1_000)
        is_checking = load.check(
            [(it.partition, it.offset) for records in found.values() for it in records]
        )
    consumer.seek_to_beginning()
    load.begin()
    while load.goes_on:
        if load.take(*counted(consumer.poll(1_000))):
            consumer.seek_to_beginning()
    consumer.close()


READERS: Mapping[str, Callable[[ReadLoad], None]] = {
    "kprod, iterate": kprod_iterate,
    "kprod, poll": kprod_poll,
    "kprod, poll_arrow": kprod_arrow,
    "kprod, async for": kprod_async,
    "confluent-kafka, consume": confluent_consume,
    "confluent-kafka, poll": confluent_poll,
    "confluent-kafka, consume + Arrow": confluent_arrow,
    "aiokafka, getmany": aiokafka_getmany,
    "aiokafka, async for": aiokafka_async,
    "kafka-python, poll": kafka_python_poll,
}
