"""A program without a mistake: no strict type checker may find one. It is checked, not run."""

import asyncio
from collections.abc import Iterable

import kprod
from kprod import (
    Acks,
    AsyncConsumer,
    AsyncProducer,
    Codec,
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    KprodError,
    OutgoingRecord,
    Persistence,
    Producer,
    ProducerSettings,
    RecordFuture,
    RecordMetadata,
    SendReceipt,
    TopicPartition,
    errors,
)
from kprod.broker import ApiKey, EmbeddedCluster, EmbeddedConfig, ErrorCode

SETTINGS: ProducerSettings = {"bootstrap_servers": ["a:9092", "b:9092"], "linger_ms": 5}
READING: ConsumerSettings = {"isolation_level": "read_committed", "fetch_min_bytes": 1}


def to_text(value: object) -> bytes:
    """Serialize."""
    return str(value).encode()


def report(metadata: RecordMetadata | None, error: KprodError | None) -> None:
    """Take an outcome."""
    if error is not None:
        print(error.persistence is Persistence.NOT_PERSISTED, type(error))
    if metadata is not None:
        print(metadata.topic, metadata.partition + 1, metadata.offset + 1)


class Stamp:
    """An interceptor."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Pass it on."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Look."""

    def close(self) -> None:
        """End."""


class Migrated(Producer):
    """Code that keeps another client's names for a while."""

    def produce(self, topic: str, value: bytes) -> RecordFuture:
        """Send."""
        return self.send(topic, value)

    def poll(self, timeout: float = 0.0) -> int:
        """Do nothing."""
        return int(timeout) * 0


def send(values: Iterable[bytes]) -> int:
    """Send in every way."""
    with Producer(
        bootstrap_servers="localhost:9092",
        acks=Acks.ALL,
        compression_type=Codec.ZSTD,
        partitioner="murmur2",
        interceptors=[Stamp()],
        value_serializer=to_text,
        sasl_password="secret",  # noqa: S106
    ) as producer:
        future: RecordFuture = producer.send(
            "orders", b"value", key=b"key", headers=[("trace", b"1")], on_delivery=report
        )
        offset: int = future.result(timeout=10).offset
        receipt: SendReceipt = producer.send_many("orders", values, keys=[None, b"k"])
        receipt.result(10)
        failed = kprod.failures_of([future], timeout=1.5)
        try:
            producer.send("orders", None, partition=3, timestamp_ms=1_700_000_000_000)
        except errors.BufferTimeout as error:
            print(error.persistence)
        return offset + len(failed) + producer.flush(timeout=1)


async def send_and_wait() -> RecordMetadata:
    """Await."""
    async with AsyncProducer(SETTINGS, linger_ms=0) as producer:
        future = await producer.send("orders", b"value")
        print((await future).offset + 1)
        return await producer.send_and_wait("orders", b"value", key=b"key")


def size_of(records: Iterable[ConsumerRecord]) -> int:
    """Use what a record says of itself."""
    return sum(len(record.value) + record.offset for record in records if record.topic == "orders")


def read() -> int:
    """Read in every way."""
    with Consumer(
        "orders",
        settings=READING,
        bootstrap_servers="localhost:9092",
        auto_offset_reset="earliest",
        value_deserializer=bytes.decode,
    ) as consumer:
        found = size_of(consumer.poll(timeout=1.5, max_records=10))
        consumer.assign([TopicPartition("orders", 0), ("orders", 1)])
        consumer.seek(TopicPartition("orders", 0), 3)
        for record in consumer:
            found += record.partition + len(record.headers)
        ends: dict[TopicPartition, int] = consumer.end_offsets([("orders", 0)])
        return found + sum(ends.values())


async def read_in_a_loop() -> int:
    """Read in every way of asyncio."""
    async with AsyncConsumer(
        "orders", settings=READING, bootstrap_servers="localhost:9092", max_poll_records=5
    ) as consumer:
        found = size_of(await consumer.poll(timeout=1.5, max_records=10))
        consumer.seek(("orders", 0), 3)
        async for record in consumer:
            found += record.partition + len(record.headers)
        ends: dict[TopicPartition, int] = await consumer.end_offsets([("orders", 0)])
        return found + sum(ends.values()) + await consumer.position(("orders", 0))


def on_a_broker() -> None:
    """Use the embedded broker."""
    with EmbeddedCluster(
        brokers=[1, 2], topics={"orders": 3}, config=EmbeddedConfig(), default_partitions=2
    ) as cluster:
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        cluster.move_leader("orders", 0, to=2)
        for records in cluster.records("orders").values():
            print([record.value for record in records])


if __name__ == "__main__":
    print(send([b"a", b"b"]))
    print(asyncio.run(send_and_wait()).offset)
    on_a_broker()
    print(read())
