"""One client's sustained run: send for so long and so much, check every outcome, count the cost.

Clients that `kprod perf` supports use its loops (`kprod.perf.client_loops`) and settings. The other
ways of sending are here, and the two that `old_and_new` needs for trees that have no `kprod.perf`.

A client with futures keeps the last 100,000 of them at least, and looks at each before it is
dropped: kprod once it is settled, the others wait for it. A client with callbacks counts the calls,
and a failed record ends the run.

The clock runs from the first record after a warm-up record (so that connections, topic and producer
id are there) until everything is acknowledged. CPU time is of the whole process in that time, user
and system. Peak memory of a client other than kprod is without what kprod's own loops brought with
them.

Thread-safety: one client a process, on the main thread.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from measure import own_process_figures

BLOCK = 10_000
BLOCKS_KEPT = 10
"""Together the 100,000 futures that are kept."""

BATCH_BYTES = 1_000_000
LINGER_MS = 5


@dataclass(slots=True)
class Load:
    """A run's target and workload, and the records accepted so far.

    Attributes:
        address: `host:port`.
        topic: Exists, with one partition.
        seconds: Least time of sending.
        bytes_min: Least bytes of values.
        value: The value of every record.
        count: Records sent since the clocks began.
        warm_up_count: Records sent before.
        foreign_bytes: Memory of the process that is not the client's.
    """

    address: str
    topic: str
    seconds: float
    bytes_min: int
    value: bytes = field(default=b"v" * 100)
    count: int = field(default=0)
    warm_up_count: int = field(default=1)
    foreign_bytes: float = field(default=0.0)
    _began_s: float = field(default=0.0)
    _ended_s: float = field(default=0.0)
    _cpu_s: float = field(default=0.0)

    def begin(self) -> None:
        """Start the clocks; the warm-up is done."""
        self._cpu_s = time.process_time()
        self._began_s = time.perf_counter()

    def goes_on(self, block: int = BLOCK) -> bool:
        """Whether to send another block, which is counted."""
        enough = (
            time.perf_counter() - self._began_s >= self.seconds
            and self.count * len(self.value) >= self.bytes_min
        )
        self.count += 0 if enough else block
        return not enough

    def end(self) -> None:
        """Stop the clocks; everything is acknowledged."""
        self._ended_s = time.perf_counter()
        self._cpu_s = time.process_time() - self._cpu_s

    def take(self, count: int, elapsed_s: float, cpu_s: float) -> None:
        """Add records that another process has counted."""
        self.count, self._cpu_s = count, cpu_s
        self._ended_s = self._began_s + elapsed_s

    def figures(self) -> Mapping[str, float]:
        """The results of the run; `offset` is the topic's end if every record was accepted once."""
        return {
            "count": self.count,
            "offset": self.count + self.warm_up_count,
            "elapsed_s": self._ended_s - self._began_s,
            "cpu_s": self._cpu_s,
            "peak_bytes": own_process_figures()["peak_bytes"] - self.foreign_bytes,
        }


def kprod_futures(load: Load) -> None:
    """As it comes: no setting but the address."""
    import kprod  # noqa: PLC0415 - each process has one client only

    topic, value = load.topic, load.value
    with kprod.Producer(bootstrap_servers=load.address) as producer:
        send, failures_of = producer.send, kprod.failures_of
        failure_of = type(send(topic, value)).exception
        producer.flush()
        kept: deque[list[Any]] = deque()
        load.begin()
        while load.goes_on():
            kept.append([send(topic, value) for _ in itertools.repeat(None, BLOCK)])
            # Unsettled futures are kept: `buffer_memory` bounds how many there can be.
            while len(kept) > BLOCKS_KEPT and kept[0][-1].done():
                _check(map(failure_of, failures_of(kept.popleft())))
        while kept:
            _check(map(failure_of, failures_of(kept.popleft())))
        producer.flush()
        load.end()


def kprod_callbacks(load: Load) -> None:
    """As it comes, with a Python function called for each record."""
    import kprod  # noqa: PLC0415 - as above

    topic, value = load.topic, load.value
    count = 0
    failures: list[object] = []

    def on_delivery(_: object, error: object) -> None:
        nonlocal count
        count += 1
        if error is not None:
            failures.append(error)

    with kprod.Producer(bootstrap_servers=load.address) as producer:
        send = producer.send
        send(topic, value, on_delivery=on_delivery)
        producer.flush()
        load.begin()
        while load.goes_on():
            for _ in itertools.repeat(None, BLOCK):
                send(topic, value, on_delivery=on_delivery)
        producer.flush()
        load.end()
    _check_reports(load, count, failures)


def kprod_many(load: Load) -> None:
    """As it comes, ten thousand records a call: `send_many`."""
    values = [load.value] * BLOCK
    _kprod_bulk(load, lambda producer: producer.send_many(load.topic, values))


def kprod_arrow(load: Load) -> None:
    """As it comes, ten thousand rows of an Arrow table a call: `send_arrow`."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    rows = pa.record_batch({"value": pa.array([load.value] * BLOCK, pa.binary())})
    _kprod_bulk(load, lambda producer: producer.send_arrow(load.topic, rows))


def _kprod_bulk(load: Load, send_block: Callable[[Any], Any]) -> None:
    """Send by blocks; the receipts of the last 100,000 records are kept and each is checked."""
    import kprod  # noqa: PLC0415 - as above

    with kprod.Producer(bootstrap_servers=load.address) as producer:
        producer.send(load.topic, load.value).result()
        kept: deque[Any] = deque()
        load.begin()
        while load.goes_on():
            kept.append(send_block(producer))
            if len(kept) == BLOCKS_KEPT:
                kept.popleft().result()
        while kept:
            kept.popleft().result()
        producer.flush()
        load.end()


def _confluent_settings(load: Load) -> dict[str, Any]:
    """Choose what librdkafka's introduction advises for throughput: linger, batches, a long queue.

    A batch's limits are raised to what kprod's are; the queue holds more than a second of records.

    Returns:
        Settings, idempotence among them.
    """
    return {
        "bootstrap.servers": load.address,
        "enable.idempotence": True,
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 20,
    }


def confluent(load: Load) -> None:
    """confluent-kafka, `produce` without a callback; polled when its queue is full.

    `delivery.report.only.error` spares it the reports that nobody reads.
    """
    import confluent_kafka  # noqa: PLC0415 - as above

    settings = _confluent_settings(load) | {"delivery.report.only.error": True}
    producer = confluent_kafka.Producer(settings)
    _confluent_loop(load, producer, {})


def confluent_callbacks(load: Load) -> None:
    """confluent-kafka, `produce` with `on_delivery`; `poll(0)` after every thousand records."""
    import confluent_kafka  # noqa: PLC0415 - as above

    count = 0
    failures: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        nonlocal count
        count += 1
        if error is not None:
            failures.append(error)

    _confluent_loop(
        load, confluent_kafka.Producer(_confluent_settings(load)), {"on_delivery": on_delivery}
    )
    _check_reports(load, count, failures)


def confluent_batches(load: Load) -> None:
    """confluent-kafka, `produce_batch` with one list of messages again and again."""
    import confluent_kafka  # noqa: PLC0415 - as above

    settings = _confluent_settings(load) | {"delivery.report.only.error": True}
    producer = confluent_kafka.Producer(settings)
    topic, messages = load.topic, [{"value": load.value} for _ in range(BLOCK)]
    producer.produce(topic, load.value)
    producer.flush()
    load.begin()
    while load.goes_on():
        # It takes as many as there is room for; all are alike, so any of them may be the rest.
        left = BLOCK - producer.produce_batch(topic, messages)
        while left:
            producer.poll(0.001)
            left -= producer.produce_batch(topic, messages[:left])
    if producer.flush():
        raise RuntimeError("confluent-kafka did not deliver everything")
    load.end()


def _confluent_loop(load: Load, producer: Any, more: Mapping[str, Any]) -> None:  # noqa: ANN401 - confluent-kafka's
    topic, value, produce = load.topic, load.value, producer.produce
    produce(topic, value, **more)
    producer.flush()
    load.begin()
    while load.goes_on():
        for number in range(BLOCK):
            try:
                produce(topic, value, **more)
            except BufferError:
                _confluent_when_full(producer, lambda: produce(topic, value, **more))
            if more and not number % 1_000:
                producer.poll(0)
    if producer.flush():
        raise RuntimeError("confluent-kafka did not deliver everything")
    load.end()


def _confluent_when_full(producer: Any, produce: Callable[[], None]) -> None:  # noqa: ANN401 - confluent-kafka's
    while True:
        producer.poll(0.001)
        try:
            produce()
        except BufferError:
            continue
        return


def _by_perf(client: str) -> Callable[[Load], None]:
    """Make a client's run by the loop of `kprod perf`; returns it."""

    def drive(load: Load) -> None:
        before = own_process_figures()["peak_bytes"]
        from kprod.clock import SystemClock  # noqa: PLC0415 - its memory is measured
        from kprod.perf.client_loops import LOOPS, Target  # noqa: PLC0415 - as above
        from kprod.perf.pace import FullSpeed  # noqa: PLC0415 - as above
        from kprod.perf.payloads import Payloads  # noqa: PLC0415 - as above
        from kprod.perf.perf_run import Goal, PerfRun  # noqa: PLC0415 - as above

        if client != "kprod":
            load.foreign_bytes = own_process_figures()["peak_bytes"] - before
        clock = SystemClock()
        goal = Goal(seconds=load.seconds, bytes_min=load.bytes_min)
        run = PerfRun(clock, FullSpeed(clock), Payloads([load.value] * BLOCK), goal)
        settings = {"bootstrap.servers": load.address}
        LOOPS[client](run, Target(load.topic, settings, is_primed=True))
        if run.figures.errors:
            raise RuntimeError(run.figures.errors.most_common(3))
        load.take(run.figures.sent_count, run.figures.elapsed_ns / 1e9, run.figures.cpu_s)

    return drive


def _check_reports(load: Load, count: int, failures: list[object]) -> None:
    if failures or count != load.count + load.warm_up_count:
        raise RuntimeError(count, load.count, failures[:3])


def _check(failures: Any) -> None:  # noqa: ANN401 - an iterator of whatever a client gives
    for failure in filter(None, failures):
        raise failure


CLIENTS: Mapping[str, Callable[[Load], None]] = {
    "kprod": _by_perf("kprod"),
    "kprod, callbacks": kprod_callbacks,
    "kprod, send_many": kprod_many,
    "kprod, send_arrow": kprod_arrow,
    "confluent-kafka": _by_perf("confluent-kafka"),
    "confluent-kafka, callbacks": confluent_callbacks,
    "confluent-kafka, produce_batch": confluent_batches,
    "aiokafka": _by_perf("aiokafka"),
    "kafka-python": _by_perf("kafka-python"),
}
