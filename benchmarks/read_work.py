"""One client's run of work on a topic: read, transform, send, commit, at least once.

Both clients read ten thousand records a call, make a new value of each, send it with its key, and
commit when the brokers have all of them. Each is set up for throughput, as in `read_clients.py` and
`race_clients.py`.

Thread-safety: one client a process, on the main thread.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from measure import own_process_figures
from race_clients import BATCH_BYTES, LINGER_MS
from read_load import CHUNK, FETCH_BYTES


class Work(NamedTuple):
    """The work of one run.

    Attributes:
        address: `host:port` of a broker.
        topic: The topic to read, of one partition.
        output: The topic to send to; empty.
        size: Number of records.
    """

    address: str
    topic: str
    output: str
    size: int


def work_of_kprod(work: Work) -> Mapping[str, float]:
    """As it comes: no setting but the address and those that this work needs.

    Args:
        work: The work.

    Returns:
        Seconds, CPU seconds and peak memory.

    Raises:
        RuntimeError: A record was lost.
    """
    import kprod  # noqa: PLC0415 - each process imports one client only

    with (
        kprod.Producer(bootstrap_servers=work.address) as producer,
        kprod.Consumer(
            work.topic,
            bootstrap_servers=work.address,
            group_id=work.output,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        begun, done = _begin(lambda: consumer.poll(0.1, 1)), 1
        producer.send(work.output, b"first")
        while done < work.size:
            records = consumer.poll(1.0, CHUNK)
            for record in records:
                producer.send(work.output, record.value.upper(), key=record.key)
            if producer.flush():
                raise RuntimeError("not everything was sent")
            consumer.commit()
            done += len(records)
        figures = begun()
        (place,) = consumer.committed([(work.topic, 0)]).values()
    return _checked(figures, work, -1 if place is None else place.offset)


def work_of_confluent(work: Work) -> Mapping[str, float]:
    """`consume` and `produce`; reports of failed deliveries alone, and no idle queue.

    Args:
        work: The work.

    Returns:
        Seconds, CPU seconds and peak memory.

    Raises:
        RuntimeError: A record was lost.
    """
    import confluent_kafka  # noqa: PLC0415 - each process imports one client only

    failures: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": work.address,
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failures.append(error),
        }
    )
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": work.address,
            "group.id": work.output,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "max.partition.fetch.bytes": FETCH_BYTES,
        }
    )
    consumer.subscribe([work.topic])
    begun, done = _begin(lambda: consumer.consume(1, 0.1)), 1
    producer.produce(work.output, b"first")
    while done < work.size:
        messages = consumer.consume(CHUNK, 1.0)
        for message in messages:
            _produce(producer, work.output, (message.value() or b"").upper(), message.key())
        if producer.flush() or failures:
            raise RuntimeError("not everything was sent")
        consumer.commit(asynchronous=False)
        done += len(messages)
    figures = begun()
    (place,) = consumer.committed([confluent_kafka.TopicPartition(work.topic, 0)], 30)
    consumer.close()
    return _checked(figures, work, place.offset)


WORKERS: Mapping[str, Callable[[Work], Mapping[str, float]]] = {
    "kprod": work_of_kprod,
    "confluent-kafka": work_of_confluent,
}


def _produce(producer: Any, topic: str, value: bytes, key: bytes | None) -> None:  # noqa: ANN401
    try:
        producer.produce(topic, value, key)
    except BufferError:  # the queue is full
        while True:
            producer.poll(0.01)
            with contextlib.suppress(BufferError):
                producer.produce(topic, value, key)
                return


def _begin(read: Callable[[], list[Any]]) -> Callable[[], dict[str, float]]:
    """Join the group and read the first record, then start the clocks."""
    while not read():
        pass
    cpu_s, began_s = time.process_time(), time.perf_counter()
    return lambda: {
        "elapsed_s": time.perf_counter() - began_s,
        "cpu_s": time.process_time() - cpu_s,
        "peak_bytes": own_process_figures()["peak_bytes"],
    }


def _checked(figures: dict[str, float], work: Work, committed: int) -> dict[str, float]:
    if committed != work.size:
        raise RuntimeError(f"{committed} is committed, not {work.size}")
    return {**figures, "count": work.size}
