"""`kprod demo`: sends a real table to a broker, reads it back and compares every record.

Steps: read the table, send it with a future for each record, read the topic back. The table is read
first, so that the measured rate is that of `send`, not of reading the file.

Thread-safety: the main thread; deliveries are timed in the sender thread.
"""

import contextlib
import functools
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Unpack

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kprod import Producer, RecordFuture
from kprod.broker import EmbeddedCluster
from kprod.cli.comparison import Comparison
from kprod.cli.connecting import (
    Connecting,
    connection_options,
    names_brokers,
    open_admin,
    open_reader,
    settings_of,
)
from kprod.cli.flights import FLIGHT_COUNT, find_flights, read_flights
from kprod.cli.summary import Sending, summary_lines
from kprod.clock import SystemClock
from kprod.config import ProducerConfig
from kprod.config.config_file import with_overrides
from kprod.consumer.whole_topic import records_to_end
from kprod.errors import ConfigError, KprodError
from kprod.model import RecordMetadata
from kprod.network.topic_admin import make_topic

TOPIC = "flights"
PARTITION_COUNT = 6
BROKER_COUNT = 3
SAMPLE_EVERY = 50  # every 50th delivery is timed: 6,700 samples, without slowing `send`
STEP_COUNT = 2_000  # records between two updates of the progress bar
RESULT_TIMEOUT_S = 150.0  # longer than the delivery timeout, which ends every send
FAILURES_SHOWN_MAX = 3
EXIT_FAILED = 1

Flight = tuple[bytes, bytes]
Advance = Callable[[int], object]


@click.command()
@connection_options
def demo(**options: Unpack[Connecting]) -> int:
    """Send 336,776 flights, read them back and compare each one.

    Where brokers are named, a topic is made there; otherwise three brokers run in this process.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: A setting is wrong.
    """  # noqa: D301 - click ends the help at \f
    settings = settings_of(options, ProducerConfig)
    try:
        return 0 if run_demo(settings) else EXIT_FAILED
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def run_demo(settings: Mapping[str, object]) -> bool:
    """Run the demonstration and print its summary.

    Args:
        settings: The producer's settings. If they name brokers, a topic is created there;
            otherwise three embedded brokers are started.

    Returns:
        Whether every flight was read back unchanged.

    Raises:
        ConfigError: A setting is wrong.
        KprodError: The table is missing, or the cluster cannot be used.
    """
    table = find_flights()
    with contextlib.ExitStack() as stack:
        if names_brokers(settings):
            topic = f"kprod-demo-{secrets.token_hex(4)}"
        else:
            cluster = stack.enter_context(EmbeddedCluster(BROKER_COUNT, {TOPIC: PARTITION_COUNT}))
            settings, topic = {**settings, "bootstrap.servers": cluster.bootstrap_servers}, TOPIC
        settings = with_overrides({"client.id": "kprod-demo"}, settings)
        if topic != TOPIC:
            with open_admin(ProducerConfig.parse(settings)) as admin:
                make_topic(admin, topic, PARTITION_COUNT)
        progress = stack.enter_context(_progress_bars())
        flights = list(_watched(progress, "reading the table", read_flights(table)))
        with _bar(progress, "sending") as advance:
            sending, futures = send_all(settings, topic, flights, advance)
        comparison = Comparison(flights)
        sending = acknowledge_all(futures, comparison, sending)
        with _bar(progress, "reading back") as advance:
            compare_all(settings, topic, comparison, advance)
    for line in summary_lines(sending, comparison, topic=topic):
        click.echo(line)
    return comparison.is_whole


def send_all(
    settings: Mapping[str, object], topic: str, flights: Sequence[Flight], advance: Advance
) -> tuple[Sending, list[RecordFuture]]:
    """Send every record and wait for every delivery.

    Args:
        settings: The producer's settings, including the bootstrap servers.
        topic: The topic to send to.
        flights: The keys and values to send.
        advance: Advances the progress bar by a number of records.

    Returns:
        Statistics of sending, and a completed future for each record.
    """
    clock = SystemClock()
    latencies_ns: list[int] = []
    futures: list[RecordFuture] = []
    with Producer(settings) as producer:
        began_ns = clock.now_ns()
        for index, (key, value) in enumerate(flights):
            on_delivery = None
            if index % SAMPLE_EVERY == 0:
                on_delivery = _stopwatch(clock, latencies_ns)
            futures.append(producer.send(topic, value, key=key, on_delivery=on_delivery))
            if index % STEP_COUNT == STEP_COUNT - 1:
                advance(STEP_COUNT)
        producer.flush()
        advance(len(flights) % STEP_COUNT)
        elapsed_ns = clock.now_ns() - began_ns
        batch_count = int(producer.metrics()["producer-metrics"]["batch-send-total"])
    sending = Sending(
        record_count=len(flights),
        batch_count=batch_count,
        bytes_count=sum(len(key) + len(value) for key, value in flights),
        elapsed_ns=elapsed_ns,
        latencies_ns=latencies_ns,
    )
    return sending, futures


def acknowledge_all(
    futures: Iterable[RecordFuture], comparison: Comparison, sending: Sending
) -> Sending:
    """Collect the outcome of every future.

    Args:
        futures: The futures, in the order of sending.
        comparison: Gets the position of each delivered record.
        sending: The statistics of sending.

    Returns:
        The statistics, with the failures added.
    """
    failures: list[str] = []
    failure_count = 0
    for index, future in enumerate(futures):
        try:
            comparison.acknowledge(index, future.result(RESULT_TIMEOUT_S))
        except KprodError as error:
            failure_count += 1
            if len(failures) < FAILURES_SHOWN_MAX:
                failures.append(f"{type(error).__name__}: {error}")
    return Sending(
        record_count=sending.record_count,
        batch_count=sending.batch_count,
        bytes_count=sending.bytes_count,
        elapsed_ns=sending.elapsed_ns,
        latencies_ns=sending.latencies_ns,
        failures=failures,
        failure_count=failure_count,
    )


def compare_all(
    settings: Mapping[str, object], topic: str, comparison: Comparison, advance: Advance
) -> None:
    """Read the topic back and compare every record.

    Args:
        settings: The client's settings.
        topic: The topic to read completely.
        comparison: Gets every record.
        advance: Advances the progress bar by a number of records.
    """
    with open_reader(settings) as consumer:
        for count, record in enumerate(records_to_end(consumer, topic), start=1):
            comparison.compare(record)
            if count % STEP_COUNT == 0:
                advance(STEP_COUNT)
        advance(comparison.verified_count % STEP_COUNT)


def _stopwatch(
    clock: SystemClock, latencies_ns: list[int]
) -> Callable[[RecordMetadata | None, BaseException | None], None]:
    sent_ns = clock.now_ns()

    def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
        del error
        if metadata is not None:
            latencies_ns.append(clock.now_ns() - sent_ns)

    return on_delivery


def _progress_bars() -> Progress:
    return Progress(
        TextColumn("{task.description:<18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),  # standard output gets only the summary
    )


@contextlib.contextmanager
def _bar(progress: Progress, title: str) -> Generator[Advance]:
    task = progress.add_task(title, total=FLIGHT_COUNT)
    yield functools.partial(progress.advance, task)


def _watched(progress: Progress, title: str, flights: Iterable[Flight]) -> Iterator[Flight]:
    with _bar(progress, title) as advance:
        for count, flight in enumerate(flights, start=1):
            if count % STEP_COUNT == 0:
                advance(STEP_COUNT)
            yield flight
        advance(FLIGHT_COUNT % STEP_COUNT)
