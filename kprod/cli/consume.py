"""`kprod consume`: prints records, as `kafka-console-consumer` and `kcat -C` do.

It runs until Ctrl-C, until a number of records, or with `--exit` until the end offsets that the
partitions had at the start. Records go to standard output, everything else to standard error. With
`--group` it is a member of a group instead: see `kprod.cli.consume_group`.

Thread-safety: a command.
Source: kcat 1.7's manual and kafka-console-consumer (Kafka 4.3.1) for the options.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, TypedDict, Unpack

import click

from kprod.cli.connecting import (
    all_settings,
    complete_topic,
    connection_options,
    open_admin,
)
from kprod.cli.consume_group import GroupRun, reset_policy
from kprod.cli.consume_progress import ConsumeProgress
from kprod.cli.json_lines import format_json_line
from kprod.cli.lines import unescape
from kprod.config.config_file import with_overrides
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.assignment import check_topic
from kprod.consumer.consumer import Consumer
from kprod.consumer.topic_pattern import as_pattern
from kprod.consumer.whole_topic import known_partitions
from kprod.errors import ConfigError, KprodError
from kprod.model import Record, TimestampType, TopicPartition
from kprod.wording import plural

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # the shells' exit code for a command ended by SIGINT
POLL_S = 0.2
ROWS_MAX = 1_000
_NO_GROUP = {"auto.offset.reset": "none"}  # an offset out of range is an error
_PLACE = re.compile(r"beginning|end|-?\d{1,19}|@\d{1,19}")


class ConsumeOptions(TypedDict):
    """The options of the command."""

    bootstrap: str | None
    config: str | None
    topic: str
    group: str | None
    partition: tuple[int, ...]
    begin: str
    to: str | None
    count: int | None
    exit_at_end: bool
    output: str
    key_delimiter: str | None
    delimiter: str
    headers: bool
    null: str
    isolation: str | None
    setting: tuple[str, ...]
    timeout: float | None


def _place(_context: object, option: click.Parameter, given: str | None) -> str | None:
    if given is not None and not _PLACE.fullmatch(given):
        raise click.BadParameter(
            f"{given!r} is not a place: beginning, end, an offset, -N for N before the end, or"
            " @MILLISECONDS since 1970",
            param=option,
        )
    return given


def _group(_context: object, _option: click.Parameter, given: str | None) -> str | None:
    if given is not None and not given:
        raise click.UsageError("--group is empty; without it, no group is needed")
    return given


def _check_topic(topic: str, *, in_group: bool) -> None:
    """Reject a text that is neither a topic's name nor, in a group, a pattern."""
    try:
        if in_group and topic.startswith("^"):
            as_pattern(topic)
        else:
            check_topic(topic)
    except ValueError as error:
        advice = " (with --group)" if topic.startswith("^") and not in_group else ""
        raise click.UsageError(f"--topic: {error}{advice}") from None


@click.command()
@connection_options
@click.option("--topic", "-t", required=True, help="Topic to read.", shell_complete=complete_topic)
@click.option(
    "--group",
    "-g",
    metavar="NAME",
    callback=_group,
    help="Read as a member of this group, and commit printed records; a topic of ^ and more is a"
    " regular expression for topics.",
)
@click.option(
    "--partition", "-p", type=click.IntRange(min=0), multiple=True, help="Only these; may repeat."
)
@click.option(
    "--from",
    "-o",
    "begin",
    default="beginning",
    show_default=True,
    metavar="PLACE",
    callback=_place,
    help="beginning, end, an offset, -N (N before the end) or @MS (milliseconds since 1970).",
)
@click.option(
    "--to",
    metavar="PLACE",
    callback=_place,
    help="Exit there: end (now), an offset (not printed), -N or @MS.",
)
@click.option(
    "--count", "-c", type=click.IntRange(min=1), help="Exit after this number of records."
)
@click.option("--exit", "-e", "exit_at_end", is_flag=True, help="Exit at the end; as --to end.")
@click.option(
    "--format",
    "-f",
    "output",
    type=click.Choice(["raw", "json"]),
    default="raw",
    show_default=True,
    help="raw: values as they are; json: a line with everything for each record.",
)
@click.option("--key-delimiter", "-K", help="Print keys too, and this after them.")
@click.option("--delimiter", "-D", default="\\n", show_default=True, help="Print after a record.")
@click.option("--headers", is_flag=True, help="Print headers before each value, as NAME=VALUE,...")
@click.option(
    "--null", "-Z", default="", metavar="TEXT", help="Print for null; nothing by default."
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    show_default="read_uncommitted",
    help="Whether to print records of open and aborted transactions.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Exit when no record has arrived for this time.",
)
def consume(**options: Unpack[ConsumeOptions]) -> int:
    """Print the records of a topic, and follow it.

    The exit code is 1 when something could not be read, 130 after Ctrl-C. `kprod produce --json`
    reads what `--format json` writes.
    \f

    Returns:
        The exit code.
    """  # noqa: D301 - click ends the help at \f
    stream = sys.stdout.buffer
    _check_topic(options["topic"], in_group=options["group"] is not None)
    if options["group"] is not None:
        return _consume_in_group(options, stream)
    with _open_consumer(options) as consumer:
        progress = ConsumeProgress()
        run = ConsumeRun(consumer, stream, _writer(options), options["count"], progress=progress)
        code = 0
        try:
            with progress:
                run.begin(options)
                run.follow(options["timeout"])
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except KprodError as error:
            click.echo(f"kprod: {error}", err=True)
            code = EXIT_FAILED
        run.report()
    return code


def _consume_in_group(options: ConsumeOptions, stream: BinaryIO) -> int:
    """Print the records that the group assigns, and commit those that are printed."""
    more = {"group.id": options["group"] or "", "auto.offset.reset": reset_policy(options)}
    consumer = _open_consumer(options, more)
    run = GroupRun(consumer, stream, _writer(options), options["count"])
    code = 0
    try:
        run.read(options["topic"], options["timeout"])
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except KprodError as error:
        click.echo(f"kprod: {error}", err=True)
        code = EXIT_FAILED
    _report(run.count)
    return code


class ConsumeRun:
    """Prints the records of some partitions.

    Args:
        consumer: A consumer without assigned partitions.
        stream: Stream that the records are written to.
        line_of: Formats one record as bytes.
        limit: Maximum number of records; None for no limit.
        progress: Shows the progress on a terminal.
    """

    __slots__ = (
        "_consumer",
        "_count",
        "_flush",
        "_limit",
        "_line_of",
        "_open",
        "_progress",
        "_write",
    )

    def __init__(
        self,
        consumer: Consumer,
        stream: BinaryIO,
        line_of: Callable[[Any], bytes],
        limit: int | None,
        *,
        progress: ConsumeProgress,
    ) -> None:
        self._consumer = consumer
        self._progress = progress
        self._write = stream.write
        self._flush = stream.flush
        self._line_of = line_of
        self._limit = limit
        self._count = 0
        self._open: dict[TopicPartition, int | None] = {}  # end offsets of unfinished partitions

    def begin(self, options: ConsumeOptions) -> None:
        """Assign the partitions and seek to the start.

        Args:
            options: The command's options.
        """
        consumer = self._consumer
        keys = known_partitions(
            consumer, options["topic"], options["partition"] or None, topic_wait_ms=0
        )
        to = "end" if options["exit_at_end"] and options["to"] is None else options["to"]
        starts = self._offsets(keys, options["begin"])
        ends: Mapping[TopicPartition, int | None] = (
            dict.fromkeys(keys) if to is None else self._offsets(keys, to)
        )
        self._progress.begin(starts, ends)
        consumer.assign(keys)
        for key in keys:
            consumer.seek(key, starts[key])
        self._open = {key: end for key in keys if (end := ends[key]) is None or starts[key] < end}
        consumer.pause(*[key for key in keys if key not in self._open])

    def follow(self, timeout: float | None) -> None:
        """Print records until the limit, the end or the timeout.

        Args:
            timeout: Seconds without a record after which it ends; None for no limit.
        """
        silent_s = 0.0
        while self._open and not self._is_full:
            rest = ROWS_MAX if self._limit is None else self._limit - self._count
            records = self._consumer.poll(POLL_S, min(rest, ROWS_MAX))
            self._print(records)
            if records:
                self._flush()
            self._show()
            self._leave_finished()
            silent_s = 0.0 if records else silent_s + POLL_S
            if timeout is not None and silent_s >= timeout:
                return

    def report(self) -> None:
        """Print the number of printed records to standard error."""
        _report(self._count)

    @property
    def _is_full(self) -> bool:
        return self._limit is not None and self._count >= self._limit

    def _print(self, records: Iterable[Any]) -> None:
        for record in records:
            key = TopicPartition(record.topic, record.partition)
            end = self._open.get(key)
            if key in self._open and (end is None or record.offset < end):
                line = self._line_of(record)
                self._count += 1  # counted before the write, since Ctrl-C may come right after it
                self._write(line)

    def _show(self) -> None:
        """Move the bar, where there is one: to ask for positions takes time."""
        if self._progress.is_shown:
            keys = self._consumer.assignment()
            positions = {key: self._consumer.position(key) for key in keys}
            self._progress.move(positions, self._count)

    def _leave_finished(self) -> None:
        for key, end in list(self._open.items()):
            if end is not None and self._consumer.position(key) >= end:
                del self._open[key]
                self._consumer.pause(key)

    def _offsets(self, keys: list[TopicPartition], place: str) -> dict[TopicPartition, int]:
        """Convert a start or end option to offsets."""
        consumer = self._consumer
        if place == "beginning":
            return consumer.beginning_offsets(keys)
        if place == "end":
            return consumer.end_offsets(keys)
        if place.startswith("@"):
            found = consumer.offsets_for_times(dict.fromkeys(keys, int(place[1:])))
            ends = consumer.end_offsets(keys)
            return {key: ends[key] if (it := found[key]) is None else it.offset for key in keys}
        if place.startswith("-"):
            begins, ends = consumer.beginning_offsets(keys), consumer.end_offsets(keys)
            return {key: max(begins[key], ends[key] + int(place)) for key in keys}
        return dict.fromkeys(keys, int(place))


def _report(count: int) -> None:
    click.echo(f"{count:,} {plural(count, 'record')}", err=True)


def _writer(options: ConsumeOptions) -> Callable[[Any], bytes]:
    """Return the function that formats a record."""
    if options["output"] == "json":
        return _json_line
    null, delimiter = options["null"].encode(), unescape(options["delimiter"])
    key_delimiter = options["key_delimiter"]
    behind_key = None if key_delimiter is None else unescape(key_delimiter)

    def raw(record: Any) -> bytes:  # noqa: ANN401 - a consumer's record
        pieces = []
        if options["headers"]:
            pieces += [_headers(record.headers, null), b"\t"]
        if behind_key is not None:
            pieces += [null if record.key is None else record.key, behind_key]
        pieces += [null if record.value is None else record.value, delimiter]
        return b"".join(pieces)

    return raw


def _json_line(record: Any) -> bytes:  # noqa: ANN401 - a consumer's record
    row = Record(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
    stamped = record.timestamp_type or TimestampType.CREATE_TIME
    return format_json_line(record.topic, record.partition, row, stamped).encode() + b"\n"


def _headers(headers: Iterable[tuple[str, bytes | None]], null: bytes) -> bytes:
    return b",".join(
        name.encode() + b"=" + (null if value is None else value) for name, value in headers
    )


def _open_consumer(options: ConsumeOptions, more: Mapping[str, str] = _NO_GROUP) -> Consumer:
    """Create the consumer once a broker has responded; an invalid setting is a usage error."""
    given = all_settings(options, ConsumerConfig)
    settings = with_overrides({"client.id": "kprod", **more}, given)
    if options["isolation"] is not None:
        settings = with_overrides(settings, {"isolation.level": options["isolation"]})
    try:
        config = ConsumerConfig.parse(settings)
        if config.group_id != (options["group"] or ""):
            raise click.UsageError(
                f"group_id={config.group_id!r}: this command reads partitions without a group, and"
                " commits nothing, unless --group names one; remove the setting"
            )
        with open_admin(config) as admin:
            admin.connect()
        return Consumer(settings=settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
