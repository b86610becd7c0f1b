"""`kprod produce`: send lines to a topic, as `kcat -P` does.

Lines are sent as they come, so a terminal or a pipe that never ends works. Ctrl-C or SIGTERM
flushes the records handed over, within a limit, and says how much was delivered; another Ctrl-C
gives up.

Thread-safety: a command; delivery callbacks count on the producer's thread, and the counts are read
when the producer is closed.
Source: kcat 1.7's manual for the options.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypedDict, Unpack

import click

from kprod.cli.lines import LineFormat, split_lines, unescape
from kprod.config.config_file import read_config_file, with_overrides
from kprod.errors import ConfigError, KprodError, RecordTooLarge
from kprod.model import Codec, RecordMetadata
from kprod.producer.producer import Producer
from kprod.wording import plural

EXIT_FAILED = 1
# What shells report for a command ended by SIGINT.
EXIT_INTERRUPTED = 130
# More kinds of errors than this would hide the first.
ERRORS_SHOWN_MAX = 5
_ADDRESSES = frozenset(
    {"bootstrap_servers", "bootstrap.servers", "metadata.broker.list", "metadata_broker_list"}
)

Delivered = Callable[[RecordMetadata | None, KprodError | None], object]
Headers = list[tuple[str, bytes | None]]


class SendingProducer(Protocol):
    """The used part of a producer's interface."""

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        on_delivery: Delivered | None = None,
    ) -> object:
        """Hand a record over."""

    def flush(self, timeout: float | None = None) -> int:
        """Wait for the records sent so far."""

    def close(self, timeout: float | None = None) -> int:
        """Flush and end."""


class Target(NamedTuple):
    """Where records go, and what they have in common."""

    topic: str
    partition: int | None
    headers: Headers


class ProduceOptions(TypedDict):
    """The command's options."""

    bootstrap: str | None
    config: str | None
    topic: str
    file: str
    key: str | None
    key_delimiter: str | None
    delimiter: str
    header: tuple[str, ...]
    partition: int | None
    codec: str | None
    empty_null: bool
    setting: tuple[str, ...]
    flush_timeout: float


@click.command()
@click.option("--bootstrap", "-b", metavar="HOST:PORT,...", help="Brokers to ask.")
@click.option(
    "--config",
    "-F",
    type=click.Path(exists=True, dir_okay=False),
    help="Settings, as .properties or .toml: the place for passwords.",
)
@click.option("--topic", "-t", required=True, help="Where records go.")
@click.option("--key", "-k", help="Key of records whose line has none.")
@click.option("--key-delimiter", "-K", help="What separates key and value in a line.")
@click.option("--delimiter", "-D", default="\\n", show_default=True, help="What ends a record.")
@click.option("--header", "-H", multiple=True, metavar="NAME=VALUE", help="Add to every record.")
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Instead of the key's.")
@click.option(
    "--codec",
    "-z",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    help="Compression; none by default.",
)
@click.option("--empty-null", "-Z", is_flag=True, help="Send empty keys and values as null.")
@click.option("--setting", "-X", multiple=True, metavar="NAME=VALUE", help="Any other setting.")
@click.option(
    "--flush-timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long Ctrl-C waits for the records handed over.",
)
@click.argument("file", default="-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def produce(**options: Unpack[ProduceOptions]) -> int:
    """Send the lines of FILE, or of standard input, as records.

    Delimiters may be written with \\n, \\t, \\0 and \\xNN. The exit code is 1 when a record was not
    delivered, 130 after Ctrl-C.
    \f

    Returns:
        The exit code.

    Raises:
        BadParameter: A delimiter is empty.
    """  # noqa: D301 - click ends the help at \f
    target = Target(options["topic"], options["partition"], _headers(options["header"]))
    line_format = LineFormat(
        key=None if options["key"] is None else options["key"].encode(),
        key_delimiter=unescape(options["key_delimiter"] or ""),
        is_empty_null=options["empty_null"],
    )
    delimiter = unescape(options["delimiter"])
    if not delimiter:
        raise click.BadParameter("must have at least one byte", param_hint="--delimiter")
    run = ProduceRun(_open_producer(options), target, line_format)
    with click.open_file(options["file"], "rb") as stream:
        # `read1` returns what there is, so that a terminal's lines do not wait for more.
        read = getattr(stream, "read1", stream.read)
        return run.run(split_lines(read, delimiter), flush_timeout_s=options["flush_timeout"])


class ProduceRun:
    """Sends lines and counts what becomes of them.

    Args:
        producer: Closed at the end of the run.
        target: Where records go.
        line_format: How a line becomes a record.
    """

    __slots__ = (
        "_delivered_count",
        "_errors",
        "_handed_count",
        "_line_format",
        "_producer",
        "_target",
    )

    def __init__(self, producer: SendingProducer, target: Target, line_format: LineFormat) -> None:
        self._producer = producer
        self._target = target
        self._line_format = line_format
        self._handed_count = 0
        self._delivered_count = 0
        self._errors: Counter[str] = Counter()

    def run(self, lines: Iterable[bytes], *, flush_timeout_s: float) -> int:
        """Send all lines, and report.

        Args:
            lines: Without delimiters.
            flush_timeout_s: How long an interrupted run waits for the records handed over.

        Returns:
            The exit code.

        Raises:
            SystemExit: That ended the run.
        """
        try:
            self._send_all(lines)
            # A close that is interrupted gives up; a flush can be begun again, with a limit.
            self._producer.flush()
            self._producer.close()
        except KeyboardInterrupt:
            self._flush_interrupted(flush_timeout_s)
            self._report()
            return EXIT_INTERRUPTED
        except SystemExit:
            self._flush_interrupted(flush_timeout_s)
            self._report()
            raise
        return self._report()

    def _send_all(self, lines: Iterable[bytes]) -> None:
        """Send until the lines end, or an error that the next record would meet as well."""
        try:
            for line in lines:
                self._send(line)
        except (KprodError, ValueError) as error:
            self._errors[str(error)] += 1

    def _send(self, line: bytes) -> None:
        key, value = self._line_format.parse(line)
        target = self._target
        try:
            self._producer.send(
                target.topic,
                value,
                key=key,
                headers=target.headers,
                partition=target.partition,
                on_delivery=self._count,
            )
        except RecordTooLarge as error:
            self._errors[str(error)] += 1
        else:
            self._handed_count += 1

    def _count(self, _: RecordMetadata | None, error: KprodError | None) -> None:
        if error is None:
            self._delivered_count += 1
        else:
            self._errors[str(error)] += 1

    def _flush_interrupted(self, timeout_s: float) -> None:
        click.echo(f"interrupted: flushing for up to {timeout_s:g} s, Ctrl-C gives up", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            self._producer.flush(timeout_s)
        self._producer.close(0)

    def _report(self) -> int:
        """Say what became of the records; return the exit code."""
        for text, count in self._errors.most_common(ERRORS_SHOWN_MAX):
            click.echo(f"{count:,} × {text}", err=True)
        failed_count = sum(self._errors.values())
        unknown_count = max(self._handed_count - self._delivered_count - failed_count, 0)
        summary = (
            f"{self._delivered_count:,} {plural(self._delivered_count, 'record')} delivered,"
            f" {failed_count:,} failed"
        )
        if unknown_count:
            summary += f", {unknown_count:,} given up"
        click.echo(summary, err=True)
        return EXIT_FAILED if failed_count or unknown_count else 0


def _headers(pairs: Iterable[str]) -> Headers:
    """Read NAME=VALUE; a name alone has a null value."""
    headers: Headers = []
    for pair in pairs:
        name, found, value = pair.partition("=")
        headers.append((name, value.encode() if found else None))
    return headers


def _open_producer(options: ProduceOptions) -> SendingProducer:
    """Make the producer; a wrong setting is the caller's mistake."""
    settings: dict[str, object] = {
        "bootstrap.servers": options["bootstrap"],
        "compression.type": options["codec"],
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    for pair in options["setting"]:
        name, found, value = pair.partition("=")
        if not found:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--setting")
        settings[name] = value
    try:
        if options["config"] is not None:
            settings = with_overrides(read_config_file(options["config"]), settings)
        _check_bootstrap(settings)
        return Producer(settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _check_bootstrap(settings: Mapping[str, object]) -> None:
    if _ADDRESSES.isdisjoint(settings):
        raise click.UsageError(
            "no brokers are named: give --bootstrap, or bootstrap.servers in a --config file"
        )
