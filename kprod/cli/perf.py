"""`kprod perf`: load a cluster and measure, with the options and lines of Kafka's own tool.

The load itself is `kprod.perf`; here are the options, Ctrl-C, and the order of the output.

Thread-safety: the main thread; signal handlers run on it.
Source: Kafka ProducerPerformance (tools 4.3.1) for the options' names.
"""

import contextlib
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypedDict, Unpack

import click

from kprod.cli.connecting import (
    all_settings,
    complete_topic,
    connection_options_named,
    open_admin,
)
from kprod.cli.lines import unescape
from kprod.clock import SystemClock
from kprod.config import ProducerConfig
from kprod.errors import ConfigError
from kprod.network.topic_admin import make_topic
from kprod.perf.end_offsets import end_offset_sum
from kprod.perf.perf_lines import (
    comparison_lines,
    detail_lines,
    interval_line,
    metrics_lines,
    summary_lines,
)
from kprod.perf.perf_round import Interval, PerfResult, PerfRound
from kprod.perf.workload import CLIENTS, PayloadPlan, Workload, sample_every

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_LIVE_PER_INTERVAL_MS = 250
_CONNECTING = ("bootstrap", "security", "sasl", "ssl")

ReportWriter = Callable[[Sequence[PerfResult], Sequence[int | None]], None]


class PerfOptions(TypedDict):
    """The options of the command."""

    bootstrap: str | None
    config: str | None
    setting: tuple[str, ...]
    topic: str
    partitions: int | None
    num_records: int
    throughput: float
    record_size: int | None
    payload_file: str | None
    payload_monotonic: bool
    payload_delimiter: str
    payload_order: str
    warmup_records: int
    reporting_interval: int
    producers: int
    client: tuple[str, ...]
    rounds: int
    sample: int | None
    latencies: str | None
    print_metrics: bool
    report: str | None


@click.command()
@connection_options_named(
    bootstrap="--bootstrap-server", config="--command-config", setting="--command-property"
)
@click.option(
    "--topic", "-t", required=True, help="Topic of the records.", shell_complete=complete_topic
)
@click.option(
    "--partitions", type=click.IntRange(1), help="Create the topic first, with these partitions."
)
@click.option(
    "--num-records", type=click.IntRange(1), required=True, help="Number of records, in all."
)
@click.option(
    "--throughput",
    type=float,
    default=-1,
    show_default=True,
    metavar="RECORDS/S",
    help="Records per second, in all; latencies count from when each is due. -1: full speed.",
)
@click.option("--record-size", type=click.IntRange(0), help="Size of a random value, in bytes.")
@click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Values to send.",
)
@click.option("--payload-monotonic", is_flag=True, help="Values are the records' numbers.")
@click.option(
    "--payload-delimiter",
    default="\\n",
    show_default=True,
    help="Delimiter of the values in the payload file.",
)
@click.option(
    "--payload-order",
    type=click.Choice(["random", "file"]),
    default="random",
    show_default=True,
    help="Draw from the file, or replay it.",
)
@click.option(
    "--warmup-records", type=click.IntRange(0), default=0, help="Records to skip at the start."
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(100),
    default=5_000,
    show_default=True,
    metavar="MS",
    help="Time between two progress lines.",
)
@click.option(
    "--producers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Each in a process of its own.",
)
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    multiple=True,
    default=("kprod",),
    show_default=True,
    help="Repeat it to compare several, one after the other.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=1, help="Rounds; the clients run in turn."
)
@click.option("--sample", type=click.IntRange(1), help="Measure the latency of every n-th record.")
@click.option(
    "--latencies",
    type=click.Path(dir_okay=False, writable=True),
    help="Write each measured latency there, in nanoseconds.",
)
@click.option("--print-metrics", is_flag=True, help="The client's own, at the end.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE.html",
    help="Write a page with plots, all in one file.",
)
def perf(**options: Unpack[PerfOptions]) -> int:
    """Send records at full speed or at a given rate, and measure throughput and latency.

    Options and lines are those of kafka-producer-perf-test. The exit code is 1 when a record was
    not delivered, 130 after Ctrl-C, which waits up to 10 s for records in flight.
    \f

    Returns:
        The exit code.
    """  # noqa: D301 - click ends the help at \f
    load = _load_of(options)
    write_report = _report_writer(load)
    with open_admin(ProducerConfig.parse(load.own_settings)) as admin:
        admin.connect()  # to say at once that the cluster is away
        if options["partitions"] is not None:
            make_topic(admin, options["topic"], options["partitions"])
    results: list[PerfResult] = []
    growths: list[int | None] = []
    is_interrupted = False
    for number in range(options["rounds"]):
        for client in options["client"]:
            if is_interrupted:
                break
            result, growth, is_interrupted = _run_round(load, client, number)
            results.append(result)
            growths.append(growth)
    if len(results) > 1:
        click.echo("\n".join(comparison_lines(results)))
    if options["print_metrics"]:
        click.echo("\n".join(metrics_lines(results[-1].metrics)))
    if write_report is not None:
        write_report(results, growths)
    if is_interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if any(result.errors for result in results) else 0


class Load(NamedTuple):
    """The input of every round.

    Attributes:
        options: As typed.
        settings: The clients' settings, as written.
        own_settings: Settings for kprod's own connections.
        payloads: Source of the values.
    """

    options: PerfOptions
    settings: Mapping[str, object]
    own_settings: Mapping[str, object]
    payloads: PayloadPlan

    def workloads(self, client: str, number: int) -> list[Workload]:
        """Share the load among the processes of one round."""
        options = self.options
        count = options["producers"]
        rate = options["throughput"]
        shares = _shares(options["num_records"], count)
        warmups = _shares(options["warmup_records"], count)
        every = options["sample"]
        return [
            Workload(
                client=client,
                topic=options["topic"],
                settings=self.settings if client == "kprod" else dotted(self.settings),
                payloads=replace(self.payloads, seed=index),
                record_count=shares[index],
                rate=None if rate <= 0 else rate / count,
                warmup_count=warmups[index],
                sample_every=every or sample_every(max(shares), None if rate <= 0 else rate),
                report_ms=min(options["reporting_interval"], _LIVE_PER_INTERVAL_MS),
                latencies_file=self._latencies_file(client, number, index),
            )
            for index in range(count)
        ]

    def _latencies_file(self, client: str, number: int, index: int) -> str | None:
        """As asked for; with its round, client and process after it where there are several."""
        options = self.options
        path = options["latencies"]
        if path is None:
            return None
        parts = [client] * (len(options["client"]) > 1)
        parts += [f"round-{number + 1}"] * (options["rounds"] > 1)
        parts += [f"producer-{index + 1}"] * (options["producers"] > 1)
        return ".".join([path, *parts])


def _load_of(options: PerfOptions) -> Load:
    payloads = _payloads_of(options)
    if options["warmup_records"] >= options["num_records"]:
        raise click.UsageError("--warmup-records must be less than --num-records")
    if options["producers"] > options["num_records"]:
        raise click.UsageError("--producers must not be more than --num-records")
    settings = all_settings(options, ProducerConfig)
    own_settings = _own_settings(settings, options["client"])
    try:
        ProducerConfig.parse(own_settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    return Load(options, settings, own_settings, payloads)


def _payloads_of(options: PerfOptions) -> PayloadPlan:
    size, file, is_monotonic = (
        options["record_size"],
        options["payload_file"],
        options["payload_monotonic"],
    )
    if (size is not None) + (file is not None) + is_monotonic != 1:
        raise click.UsageError(
            "give exactly one of --record-size, --payload-file and --payload-monotonic"
        )
    delimiter = unescape(options["payload_delimiter"])
    if not delimiter:
        raise click.UsageError("--payload-delimiter must have at least one character")
    return PayloadPlan(
        record_size=size,
        file=file,
        is_monotonic=is_monotonic,
        delimiter=delimiter.decode("latin-1"),
        is_in_order=options["payload_order"] == "file",
    )


def _own_settings(settings: Mapping[str, object], clients: Sequence[str]) -> Mapping[str, object]:
    """Return the settings for kprod's own connections, which read end offsets for any client."""
    if "kprod" in clients:
        return settings
    return {name: value for name, value in settings.items() if name.startswith(_CONNECTING)}


def _run_round(load: Load, client: str, number: int) -> tuple[PerfResult, int | None, bool]:
    options = load.options
    workloads = load.workloads(client, number)
    if len(options["client"]) * options["rounds"] > 1:
        click.echo(f"== {client}, round {number + 1} of {options['rounds']}")
    before = end_offset_sum(load.own_settings, options["topic"])
    with PerfRound(workloads, SystemClock()) as running, _stopping(running) as interrupted:
        for interval in running.intervals(options["reporting_interval"] / 1_000, _live()):
            _clear_live()
            click.echo(interval_line(interval))
        result = running.result
    _clear_live()
    growth = end_offset_sum(load.own_settings, options["topic"]) - before
    for line in summary_lines(result, has_warmup=options["warmup_records"] > 0):
        click.echo(line)
    for line in detail_lines(result, workloads[0].sample_every, growth):
        click.echo(line)
    return result, growth, bool(interrupted)


@contextlib.contextmanager
def _stopping(running: PerfRound) -> Generator[list[int]]:
    """Let the first Ctrl-C stop the processes in order; the next one ends them."""
    interrupted: list[int] = []

    def on_interrupt(signal_number: int, frame: FrameType | None) -> None:
        del frame
        if interrupted:
            raise KeyboardInterrupt
        interrupted.append(signal_number)
        click.echo("interrupted: up to 10 s for records in flight, Ctrl-C gives up", err=True)
        running.stop()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _live() -> Callable[[Interval], None]:
    """Show the current interval on one line of a terminal, updating it."""
    if not sys.stderr.isatty():
        return lambda _: None

    def show(interval: Interval) -> None:
        rate = interval.record_count / interval.elapsed_s if interval.elapsed_s else 0.0
        latencies = interval.latencies
        sys.stderr.write(
            f"\r\x1b[K{interval.at_s:6.1f} s  {rate:,.0f} records/s"
            f"  p50 {latencies.percentile_ms(50):.2f} ms  p99 {latencies.percentile_ms(99):.2f} ms"
            f"  max {latencies.max_ms:.1f} ms"
        )
        sys.stderr.flush()

    return show


def _clear_live() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def dotted(settings: Mapping[str, object]) -> dict[str, object]:
    """Write settings as other clients have them.

    Args:
        settings: Settings by name, in any spelling.

    Returns:
        Settings by dotted name.
    """
    return {name.replace("_", "."): value for name, value in settings.items()}


def _shares(total: int, count: int) -> list[int]:
    """Share a number evenly; the first get the remainder."""
    whole, left = divmod(total, count)
    return [whole + (index < left) for index in range(count)]


def _asked(options: PerfOptions) -> Iterator[tuple[str, object]]:
    """Yield the options that the report shows; no client settings, one may be a password."""
    left_out = {"setting", "config", "report"}
    if options["payload_file"] is None:
        left_out |= {"payload_delimiter", "payload_order"}
    for name, value in options.items():
        if name == "throughput" and options["throughput"] <= 0:
            yield name, "full speed"
        elif name not in left_out and value not in {None, False, ()}:
            yield name.replace("_", "-"), value


def _report_writer(load: Load) -> ReportWriter | None:
    """Return the report's writer; created before the load, since a package may be missing."""
    path = load.options["report"]
    if path is None:
        return None
    from kprod.perf.html_report import html_report

    asked = dict(_asked(load.options))

    def write(results: Sequence[PerfResult], growths: Sequence[int | None]) -> None:
        title = f"kprod perf: {load.options['topic']}"
        Path(path).write_text(html_report(title, asked, results, growths), "utf-8")
        click.echo(f"report: {path}")

    return write
