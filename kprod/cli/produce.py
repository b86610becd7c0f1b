"""`kprod produce`: send lines, lines of JSON or whole files to a topic, as `kcat -P` does.

Lines are sent as they come, so a terminal or a pipe that never ends works. Ctrl-C or SIGTERM
flushes the records handed over, within a limit, and says how many were delivered; another Ctrl-C
gives up.

Thread-safety: a command; runs once, in one thread.
Source: kcat 1.7's manual and kafka-console-producer.sh (4.3.1) for the options.
"""

from collections.abc import Iterable
from typing import TypedDict, Unpack

import click

from kprod.cli.connecting import (
    all_settings,
    complete_topic,
    connection_options,
    open_admin,
)
from kprod.cli.lines import JsonFormat, LineFormat, unescape
from kprod.cli.produce_input import watched_files, watched_lines
from kprod.cli.produce_run import Headers, ProduceRun, RecordFormat, SendingProducer, Target
from kprod.config import ProducerConfig
from kprod.config.config_file import with_overrides
from kprod.errors import ConfigError
from kprod.model import Codec
from kprod.producer.producer import Producer


class ProduceOptions(TypedDict):
    """The options of the command."""

    bootstrap: str | None
    config: str | None
    setting: tuple[str, ...]
    topic: str | None
    files: tuple[str, ...]
    as_json: bool
    whole: bool
    key: str | None
    key_delimiter: str | None
    delimiter: str
    header: tuple[str, ...]
    partition: int | None
    ignore_partitions: bool
    codec: str | None
    empty_null: bool
    null_marker: str | None
    flush_timeout: float


@click.command()
@connection_options
@click.option(
    "--topic",
    "-t",
    help="Topic of the records; lines of JSON may name it instead.",
    shell_complete=complete_topic,
)
@click.option("--json", "-J", "as_json", is_flag=True, help="Lines are JSON, as consume writes.")
@click.option("--whole", "-w", is_flag=True, help="Each FILE is one record.")
@click.option("--key", "-k", help="Key of records whose line has none.")
@click.option("--key-delimiter", "-K", help="Separator of key and value in a line.")
@click.option("--delimiter", "-D", default="\\n", show_default=True, help="End of a record.")
@click.option("--header", "-H", multiple=True, metavar="NAME=VALUE", help="Add to every record.")
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Instead of the key's.")
@click.option(
    "--ignore-partitions",
    is_flag=True,
    help="Let keys choose, though lines of JSON name partitions.",
)
@click.option(
    "--codec",
    "-z",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    help="Compression; none by default.",
)
@click.option("--empty-null", "-Z", is_flag=True, help="Send empty keys and values as null.")
@click.option("--null-marker", "-N", metavar="TEXT", help="A key or value that means null.")
@click.option(
    "--flush-timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long Ctrl-C waits for the records handed over.",
)
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE...]",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
def produce(**options: Unpack[ProduceOptions]) -> int:
    """Send the lines of FILEs, or of standard input, as records.

    Delimiters may be written with \\n, \\t, \\0 and \\xNN. With --json a line is an object with
    "value", and perhaps "key", "headers", "partition", "timestamp" and "topic"; see
    docs/command_line.md. The exit code is 1 when a record was not delivered, 130 after Ctrl-C.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: Options contradict each other, or no topic is named.
    """  # noqa: D301 - click ends the help at \f
    line_format, delimiter = _format(options)
    topic = options["topic"]
    if topic is None and not options["as_json"]:
        raise click.UsageError("no topic is named: give --topic")
    target = Target(
        topic, options["partition"], _headers(options["header"]), options["ignore_partitions"]
    )
    files = options["files"] or ("-",)
    producer = _open_producer(options)
    watched = watched_files(files) if options["whole"] else watched_lines(files, delimiter)
    with watched as (pieces, advance):
        run = ProduceRun(producer, target, line_format, advance)
        return run.run(pieces, flush_timeout_s=options["flush_timeout"])


def _format(options: ProduceOptions) -> tuple[RecordFormat, bytes]:
    """Read how the input becomes records.

    Args:
        options: The command's options.

    Returns:
        The format, and what ends a line.

    Raises:
        UsageError: Options contradict each other.
        BadParameter: A delimiter is empty.
    """
    key = None if options["key"] is None else options["key"].encode()
    delimiter = unescape(options["delimiter"])
    if not delimiter:
        raise click.BadParameter("must have at least one byte", param_hint="--delimiter")
    if options["as_json"] or options["whole"]:
        other = "--json" if options["as_json"] else "--whole"
        clashing = {
            "--whole": options["as_json"] and options["whole"],
            "--key-delimiter": options["key_delimiter"] is not None,
            "--empty-null": options["as_json"] and options["empty_null"],
            "--null-marker": options["as_json"] and options["null_marker"] is not None,
        }
        for name, is_clash in clashing.items():
            if is_clash:
                raise click.UsageError(f"{name} has no meaning with {other}")
    if options["as_json"]:
        return JsonFormat(key), delimiter
    marker = options["null_marker"]
    line_format = LineFormat(
        key=key,
        key_delimiter=unescape(options["key_delimiter"] or ""),
        is_empty_null=options["empty_null"],
        null_marker=None if marker is None else marker.encode(),
    )
    return line_format, delimiter


def _headers(pairs: Iterable[str]) -> Headers:
    """Read NAME=VALUE; a name alone has a null value."""
    headers: Headers = []
    for pair in pairs:
        name, found, value = pair.partition("=")
        headers.append((name, value.encode() if found else None))
    return headers


def _open_producer(options: ProduceOptions) -> SendingProducer:
    """Make the producer, once a broker has responded; a wrong setting is the caller's mistake."""
    settings = all_settings(options, ProducerConfig)
    if options["codec"] is not None:
        settings = with_overrides(settings, {"compression.type": options["codec"]})
    try:
        config = ProducerConfig.parse(settings)
        with open_admin(config) as admin:
            admin.connect()
        return Producer(settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
