"""Loads on many partitions: one record to each in turn, by kprod or by confluent-kafka.

Each client's memory and linger let a batch of each partition gather.

Thread-safety: one client a process, on the main thread.
"""

import itertools
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from measure import own_process_figures
from race_clients import BATCH_BYTES

LINGER_MS = 500
VALUE = b"v" * 100
BLOCK = 10_000
FLUSH_S = 60.0


class Turns(NamedTuple):
    """One run's target and load.

    Attributes:
        address: `host:port`.
        topic: Exists, and is empty.
        partitions: Their number.
        memory: Bytes of records that the client may hold.
        seconds: Least time of sending; of sleeping, for `kprod_idle`.
    """

    address: str
    topic: str
    partitions: int
    memory: int
    seconds: float


class _Begun:
    """The clocks since the first record that counts."""

    def __init__(self, warm_up: int) -> None:
        self.warm_up = warm_up
        self.peak_bytes = own_process_figures()["peak_bytes"]
        self.cpu_s = time.process_time()
        self.began_s = time.perf_counter()

    def elapsed_s(self) -> float:
        """Return seconds since then."""
        return time.perf_counter() - self.began_s

    def figures(self, sent: int) -> Mapping[str, float]:
        """Return the run's figures, now that everything is acknowledged."""
        return {
            "count": sent,
            "offset": self.warm_up + sent,
            "elapsed_s": self.elapsed_s(),
            "cpu_s": time.process_time() - self.cpu_s,
            "grown_bytes": own_process_figures()["peak_bytes"] - self.peak_bytes,
        }


def kprod_turns(turns: Turns) -> Mapping[str, float]:
    """Send by kprod.

    Args:
        turns: The load.

    Returns:
        `count`, `elapsed_s`, `cpu_s`, `grown_bytes` of resident memory, and `offset`, which is the
        sum of the partitions' ends if every record was accepted once.
    """
    with _kprod(turns) as producer:
        send, topic = producer.send, turns.topic
        begun = _warmed_up(producer, turns)
        order, sent = itertools.cycle(range(turns.partitions)), 0
        while begun.elapsed_s() < turns.seconds:
            for partition in itertools.islice(order, BLOCK):
                send(topic, VALUE, partition=partition)
            sent += BLOCK
        _flush(producer)
        return begun.figures(sent)


def kprod_idle(turns: Turns) -> Mapping[str, float]:
    """Send one record to each partition by kprod, and then nothing.

    Args:
        turns: The load.

    Returns:
        As for `kprod_turns`; the times are those of doing nothing.
    """
    with _kprod(turns) as producer:
        begun = _warmed_up(producer, turns)
        time.sleep(turns.seconds)
        return begun.figures(0)


def confluent_turns(turns: Turns) -> Mapping[str, float]:
    """Send by confluent-kafka, its queue full at as many bytes.

    Args:
        turns: The load.

    Returns:
        As for `kprod_turns`.
    """
    import confluent_kafka  # noqa: PLC0415 - each process has one client only

    settings = {
        "bootstrap.servers": turns.address,
        "enable.idempotence": True,
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": turns.memory >> 10,
        "delivery.report.only.error": True,
    }
    producer = confluent_kafka.Producer(settings)
    for partition in range(turns.partitions):
        producer.produce(turns.topic, VALUE, partition=partition)
    _flush(producer)
    begun = _Begun(turns.partitions)
    order, sent = itertools.cycle(range(turns.partitions)), 0
    while begun.elapsed_s() < turns.seconds:
        for partition in itertools.islice(order, BLOCK):
            _produce(producer, turns.topic, partition)
        sent += BLOCK
        producer.poll(0)
    _flush(producer)
    return begun.figures(sent)


def _kprod(turns: Turns) -> Any:  # noqa: ANN401 - kprod is imported here alone
    import kprod  # noqa: PLC0415 - as above; the tree may be chosen before

    return kprod.Producer(
        bootstrap_servers=turns.address, buffer_memory=turns.memory, linger_ms=LINGER_MS
    )


def _warmed_up(producer: Any, turns: Turns) -> _Begun:  # noqa: ANN401 - as above
    for partition in range(turns.partitions):
        producer.send(turns.topic, VALUE, partition=partition)
    _flush(producer)
    return _Begun(turns.partitions)


def _produce(producer: Any, topic: str, partition: int) -> None:  # noqa: ANN401 - confluent-kafka's
    while True:
        try:
            producer.produce(topic, VALUE, partition=partition)
        except BufferError:  # the queue is full
            producer.poll(0.01)
        else:
            return


def _flush(producer: Any) -> None:  # noqa: ANN401 - of either client
    undelivered = producer.flush(FLUSH_S)
    if undelivered:
        raise RuntimeError(f"{undelivered:,} records were not delivered")
