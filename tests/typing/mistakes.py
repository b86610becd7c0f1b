"""Mistakes of applications, one on each marked line. It is checked, never run."""

import kprod
from kprod import (
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    KprodError,
    Producer,
    ProducerSettings,
    RecordMetadata,
    TopicPartition,
)
from kprod.broker import ApiKey, EmbeddedCluster, ErrorCode
from kprod.errors import BufferTimeout

SETTINGS: ProducerSettings = {"linger.msec": 5}  # wrong
OTHERS: ProducerSettings = {"bootstrap_servers": 9092}  # wrong
READING: ConsumerSettings = {"isolation_level": "committed"}  # wrong


def one_argument(metadata: RecordMetadata | None) -> None:
    """Lack the error."""


def two_arguments(metadata: RecordMetadata | None, error: KprodError | None) -> None:
    """Forget that one of the two is None."""
    print(metadata.offset)  # wrong


class Half:
    """An interceptor that lacks two methods."""

    def close(self) -> None:
        """End."""


def settings() -> None:
    """Settings that are none."""
    Producer(bootstrap_servers="a:1", linger_msec=5)  # wrong
    Producer(bootstrap_servers="a:1", linger_ms="soon")  # wrong
    Producer(bootstrap_servers="a:1", acks="most")  # wrong
    Producer(bootstrap_servers="a:1", acks=2)  # wrong
    Producer(bootstrap_servers="a:1", compression_type="brotli")  # wrong
    Producer(bootstrap_servers="a:1", partitioner="random")  # wrong
    Producer(bootstrap_servers="a:1", interceptors=[Half()])  # wrong
    Producer("a:1")  # wrong
    AsyncProducer(bootstrap_server="a:1")  # wrong
    EmbeddedCluster(brokers=1, default_partition=3)  # wrong
    EmbeddedCluster(topics=["orders"])  # wrong
    EmbeddedCluster(message_timestamp_type="createTime")  # wrong


def sends(producer: Producer) -> None:
    """Calls that cannot work."""
    producer.send(b"orders", b"value")  # wrong
    producer.send("orders", b"value", headers=[("trace", 1)])  # wrong
    producer.send("orders", b"value", partition="3")  # wrong
    producer.send("orders", b"value", on_delivery=one_argument)  # wrong
    producer.send("orders", b"value").get(timeout=10)  # wrong: _CallResult
    producer.send("orders", b"value").add_callback(print)  # wrong: _CallAddDoneCallback
    producer.send("orders", b"value").result(timeout="10")  # wrong
    producer.send("orders", b"value").result().offsets  # wrong
    producer.poll(0)  # wrong: _NothingToPoll
    producer.produce("orders", b"value")  # wrong: _CallSend
    kprod.failures_of(producer.send("orders", b"value"))  # wrong
    try:
        producer.flush()
    except BufferTimeout as error:
        error.code()  # wrong


def readings() -> None:
    """Settings of a consumer that are none."""
    Consumer("orders", bootstrap_servers="a:1", fetch_min_byte=1)  # wrong
    Consumer("orders", bootstrap_servers="a:1", max_poll_records="many")  # wrong
    Consumer("orders", bootstrap_servers="a:1", linger_ms=5)  # wrong
    Consumer("orders", bootstrap_servers="a:1", value_type="str")  # wrong
    Consumer("orders", bootstrap_servers="a:1", interceptors=[Half()])  # wrong
    Consumer(["orders"], bootstrap_servers="a:1")  # wrong


def reads(consumer: Consumer) -> None:
    """Calls of a consumer that cannot work."""
    consumer.poll(timeout="1")  # wrong
    consumer.poll(1.0).value  # wrong
    consumer.assign(["orders"])  # wrong
    consumer.seek(TopicPartition("orders", 0), "earliest")  # wrong
    consumer.commit([1])  # wrong
    for record in consumer:
        print(record.values)  # wrong
        print(record.offset + record.topic)  # wrong


def takes(record: ConsumerRecord) -> bytes:
    """Forget that a record has no place to write to."""
    record.offset = 3  # wrong
    return record.headers[0].value  # wrong


async def awaits(producer: AsyncProducer) -> None:
    """Forget an await."""
    producer.send("orders", b"value").result()  # wrong
    metadata = await producer.send_and_wait("orders", b"value")
    print(metadata[0].offset)  # wrong


async def awaits_records(consumer: AsyncConsumer) -> None:
    """Forget an await, or that a consumer is asynchronous."""
    AsyncConsumer("orders", bootstrap_servers="a:1", fetch_min_byte=1)  # wrong
    print(len(consumer.poll(1)))  # wrong
    print(list(consumer))  # wrong
    print(await consumer.poll(max_records="many"))  # wrong


def faults(cluster: EmbeddedCluster) -> None:
    """Arm what does not exist."""
    cluster.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)  # wrong
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER)  # wrong
    cluster.move_leader("orders", 0, 2)  # wrong
