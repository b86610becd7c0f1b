"""The loops that drive each client: send records as they become due, and look at every outcome.

Each client is set up as its own documentation advises for throughput, with the same promises:
acks=all, idempotent where the client can, linger 5 ms, batches of 1 MB. `defaults_of` has what that
means for each; a workload's settings win over it.

kprod, aiokafka and kafka-python return futures; at least the last 100,000 are kept, and each is
checked before it is dropped. confluent-kafka reports only the outcomes of records with a callback,
here the timed ones; without any, delivery reports are disabled.

The other clients are imported here, when their loop runs, and are not dependencies of kprod.

Thread-safety: one loop a process, on the main thread.
Source: librdkafka's introduction (2.16), aiokafka 0.14's and kafka-python 3.0's documentation.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice, repeat
from types import MappingProxyType
from typing import Any, NamedTuple

from kprod.errors import KprodError
from kprod.perf.perf_run import Block, Outstanding, PerfRun
from kprod.producer.future import RecordFuture, failures_of
from kprod.producer.producer import Producer

BATCH_BYTES = 1_000_000
LINGER_MS = 5
STOPPED_FLUSH_S = 10.0
"""Time that a stopped run waits for records in flight."""

POLL_EVERY = 1_000
POLL_S = 0.001
_POLL_MAX_S = 0.01
_SETTLE_S = 180.0  # past every client's delivery timeout


class Target(NamedTuple):
    """Topic and client settings of a loop.

    Attributes:
        topic: The topic's name.
        settings: The client's, by dotted names.
        is_primed: Send one record and wait for it before the clocks start, so that connections,
            topic and producer id are there. It is not counted.
    """

    topic: str
    settings: Mapping[str, object]
    is_primed: bool = False


def defaults_of(client: str) -> dict[str, object]:
    """Return what a client is set up with.

    Args:
        client: The client's name.

    Returns:
        Settings by dotted names.
    """
    return dict(_DEFAULTS[client])


# kprod


def drive_kprod(run: PerfRun, target: Target) -> None:
    """kprod, `send` with a future for each record, and a callback for those that are timed."""
    producer = Producer({**defaults_of("kprod"), **target.settings})
    try:
        if target.is_primed:
            producer.send(target.topic, b"first").result()
        outstanding = Outstanding(_check_kprod(run), RecordFuture.done)
        run.begin()
        for block in run.blocks():
            if block.wait_s:
                run.sleep(block.wait_s)
                continue
            outstanding.keep(_send_kprod(producer, target.topic, block, run))
        if run.is_stopped:
            producer.flush(STOPPED_FLUSH_S)
            producer.close(0)
        else:
            producer.flush()
        outstanding.settle_all()
        run.end()
        run.note_metrics(producer.metrics())
    finally:
        producer.close(0)


def _send_kprod(producer: Producer, topic: str, block: Block, run: PerfRun) -> list[RecordFuture]:
    futures: list[RecordFuture] = []
    send, values, topics = producer.send, block.values, repeat(topic)
    try:
        for place in block.timed:
            # No step of Python between two records; a slice costs less than an iterator's steps.
            futures += map(send, topics, values[len(futures) : place])
            on_delivery = partial(_told_by_kprod, *run.timed(block.first + place))
            futures.append(send(topic, values[place], on_delivery=on_delivery))
        futures += map(send, topics, values[len(futures) :])
    except KprodError as error:  # `futures` has those up to it
        run.reject(error, block, len(futures))
    return futures


def _told_by_kprod(
    note: Callable[[int], None], due_ns: int, _: object, error: KprodError | None
) -> None:
    if error is None:
        note(due_ns)


def _check_kprod(run: PerfRun) -> Callable[[list[RecordFuture]], None]:
    return lambda futures: run.check(map(RecordFuture.exception, failures_of(futures)))


# confluent-kafka


def drive_confluent(run: PerfRun, target: Target) -> None:
    """confluent-kafka, `produce`; polled after each thousand timed records, and when full."""
    import confluent_kafka  # noqa: PLC0415 - see the module

    settings = {**defaults_of("confluent-kafka"), **target.settings}
    if not run.is_timed:
        settings = {"delivery.report.only.error": True, **settings}
    producer = confluent_kafka.Producer(settings)
    if target.is_primed:
        producer.produce(target.topic, b"first")
        _flush_confluent(producer, run)
    run.begin()
    for block in run.blocks():
        if block.wait_s:
            producer.poll(min(block.wait_s, _POLL_MAX_S))
            continue
        try:
            _produce_block(producer, target.topic, block, run)
        except confluent_kafka.KafkaException as error:
            run.reject(error, block, 0)
    _flush_confluent(producer, run)
    run.end()


def _produce_block(producer: Any, topic: str, block: Block, run: PerfRun) -> None:  # noqa: ANN401
    values, at = iter(block.values), 0
    for timed_count, place in enumerate(block.timed):
        for value in islice(values, place - at):
            produce_waiting(producer, topic, value)
        on_delivery = partial(_told_by_confluent, run, *run.timed(block.first + place))
        produce_waiting(producer, topic, next(values), on_delivery=on_delivery)
        if not timed_count % POLL_EVERY:
            producer.poll(0)
        at = place + 1
    for value in values:
        produce_waiting(producer, topic, value)


def produce_waiting(producer: Any, topic: str, value: bytes, **more: object) -> None:  # noqa: ANN401
    """Produce a record; poll while the queue is full, as confluent-kafka's documentation shows.

    Args:
        producer: confluent-kafka's.
        topic: The topic to send to.
        value: The record's value.
        **more: Other arguments of `produce`.
    """
    while True:
        try:
            producer.produce(topic, value, **more)
        except BufferError:
            producer.poll(POLL_S)
        else:
            return


def _told_by_confluent(
    run: PerfRun, note: Callable[[int], None], due_ns: int, error: object, _: object
) -> None:
    if error is None:
        note(due_ns)
    else:
        run.fail(error)


def _flush_confluent(producer: Any, run: PerfRun) -> None:  # noqa: ANN401 - confluent-kafka's
    left = producer.flush(STOPPED_FLUSH_S if run.is_stopped else _SETTLE_S)
    if left:
        run.fail("not settled at the end", left)


# aiokafka


def drive_aiokafka(run: PerfRun, target: Target) -> None:
    """aiokafka, `await send()`, under uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - see the module
    except ModuleNotFoundError:
        asyncio.run(_drive_aiokafka(run, target))
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_drive_aiokafka(run, target))


async def _drive_aiokafka(run: PerfRun, target: Target) -> None:
    import aiokafka  # noqa: PLC0415 - see the module

    settings = {**defaults_of("aiokafka"), **target.settings}
    producer = aiokafka.AIOKafkaProducer(**underscored(settings))
    await producer.start()
    try:
        if target.is_primed:
            await producer.send_and_wait(target.topic, b"first")
        kept: deque[asyncio.Future[object]] = deque()
        run.begin()
        for block in run.blocks():
            if block.wait_s:
                await asyncio.sleep(block.wait_s)
                continue
            kept += await _send_aiokafka(producer, target.topic, block, run)
            while len(kept) > Outstanding.KEPT_COUNT:
                await _settle_aiokafka(kept.popleft(), run)
        while kept:
            await _settle_aiokafka(kept.popleft(), run)
        run.end()
    finally:
        await producer.stop()


async def _send_aiokafka(
    producer: Any,  # noqa: ANN401 - aiokafka's
    topic: str,
    block: Block,
    run: PerfRun,
) -> list["asyncio.Future[object]"]:
    futures: list[asyncio.Future[object]] = []
    for place, value in enumerate(block.values):
        timed = run.timed(block.first + place) if place in block.timed else None
        try:
            future = await producer.send(topic, value)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs in the report
            run.reject(error, block, place)
            break
        if timed is not None:
            future.add_done_callback(partial(_told_by_future, *timed))
        futures.append(future)
    return futures


def _told_by_future(
    note: Callable[[int], None], due_ns: int, future: "asyncio.Future[object]"
) -> None:
    if not future.cancelled() and future.exception() is None:
        note(due_ns)


async def _settle_aiokafka(future: "asyncio.Future[object]", run: PerfRun) -> None:
    try:
        await future
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs in the report
        run.fail(error)


# kafka-python


def drive_kafka_python(run: PerfRun, target: Target) -> None:
    """kafka-python, `send()`; with the native checksum, which kprod requires as well."""
    import kafka  # noqa: PLC0415 - see the module

    settings = {**defaults_of("kafka-python"), **target.settings}
    producer = kafka.KafkaProducer(**underscored(settings))
    if target.is_primed:
        producer.send(target.topic, b"first").get(_SETTLE_S)
    outstanding: Outstanding[Any] = Outstanding(
        lambda futures: run.check(map(_outcome_of, futures))
    )
    run.begin()
    for block in run.blocks():
        if block.wait_s:
            run.sleep(block.wait_s)
            continue
        outstanding.keep(_send_kafka_python(producer, target.topic, block, run))
    with contextlib.suppress(Exception):  # each record's outcome says it
        producer.flush(STOPPED_FLUSH_S if run.is_stopped else _SETTLE_S)
    outstanding.settle_all()
    run.end()
    producer.close(STOPPED_FLUSH_S)


def _send_kafka_python(
    producer: Any,  # noqa: ANN401 - kafka-python's
    topic: str,
    block: Block,
    run: PerfRun,
) -> list[Any]:
    futures: list[Any] = []
    for place, value in enumerate(block.values):
        timed = run.timed(block.first + place) if place in block.timed else None
        try:
            future = producer.send(topic, value)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs in the report
            run.reject(error, block, place)
            break
        if timed is not None:
            future.add_callback(partial(_told_by_kafka_python, *timed))
        futures.append(future)
    return futures


def _told_by_kafka_python(note: Callable[[int], None], due_ns: int, _: object) -> None:
    note(due_ns)


def _outcome_of(future: Any) -> object | None:  # noqa: ANN401 - kafka-python's
    try:
        future.get(_SETTLE_S)
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs in the report
        return error
    return None


def underscored(settings: Mapping[str, object]) -> dict[str, object]:
    """Write settings as aiokafka and kafka-python take them.

    Args:
        settings: Settings by dotted names; texts if they come from a command line or a file.

    Returns:
        Values by name with underscores; texts that are numbers or truth values are converted.
    """
    return {name.replace(".", "_"): _as_value(value) for name, value in settings.items()}


def _as_value(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return value


_DEFAULTS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "kprod": {},
        "confluent-kafka": {
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            # A batch's limits are raised to kprod's; the queue holds more than a second of records.
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        },
        "aiokafka": {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "max.batch.size": BATCH_BYTES,
        },
        "kafka-python": {
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "max.request.size": BATCH_BYTES + (1 << 16),
        },
    }
)

LOOPS: Mapping[str, Callable[[PerfRun, Target], None]] = MappingProxyType(
    {
        "kprod": drive_kprod,
        "confluent-kafka": drive_confluent,
        "aiokafka": drive_aiokafka,
        "kafka-python": drive_kafka_python,
    }
)
"""The loop of each client by its name."""
