"""`kprod broker`: runs an embedded cluster on loopback until interrupted.

Thread-safety: the main thread; the cluster has its own thread.
"""

import contextlib
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from click.shell_completion import CompletionItem
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.cli.broker_settings import read_settings_of_broker, setting_names
from kprod.cli.connecting import pairs
from kprod.cli.progress_bar import ProgressBar
from kprod.config.address import parse_address
from kprod.errors import ConfigError
from kprod.model import PORT_MAX

if TYPE_CHECKING:
    from kprod.broker.log.partition_logs import LoadSummary, OnLoad

_PARTITIONS_MAX = 100_000
_SLICE_S = 0.2  # bounds how late Ctrl-C is


def _parse_topics(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, int]:
    """Parse NAME or NAME:PARTITIONS; a name alone means one partition."""
    topics: dict[str, int] = {}
    for value in values:
        name, colon, count = value.partition(":")
        if not name:
            raise click.BadParameter(f"{value!r} names no topic", context, parameter)
        if not colon:
            count = "1"
        if not (count.isascii() and count.isdecimal() and 1 <= int(count[:9]) <= _PARTITIONS_MAX):
            raise click.BadParameter(
                f"{value!r} needs a number of partitions, 1 to {_PARTITIONS_MAX}",
                context,
                parameter,
            )
        topics[name] = int(count)
    return topics


def _complete(
    context: click.Context,  # noqa: ARG001 - click's
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the name of a broker setting."""
    return [CompletionItem(f"{it}=") for it in setting_names() if it.startswith(incomplete)]


class BrokerOptions(TypedDict):
    """The options of the command."""

    host: str
    port: int
    unsafe: bool
    advertise: str | None
    broker_count: int
    topics: Mapping[str, int]
    directories: Sequence[str]
    adopt: bool
    given: Sequence[str]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=0,
    help="Port of the first broker, the others follow; by default any free ones.",
)
@click.option(
    "--unsafe",
    is_flag=True,
    help="Allow other than loopback: all who reach it may read and write everything.",
)
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="Where clients are told to connect, such as behind a forwarded port.",
)
@click.option(
    "--brokers", "broker_count", type=click.IntRange(1, 100), default=1, show_default=True
)
@click.option(
    "--topic",
    "topics",
    metavar="NAME:PARTITIONS",
    multiple=True,
    callback=_parse_topics,
    help="Made at the start; may be repeated.",
)
@click.option(
    "--data",
    "directories",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False),
    help="Where everything is kept; may be repeated. Without it, all is in memory.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over directories of an Apache Kafka, which must not use them any more.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, such as num.partitions=3 or auto_create_topics=false; may be repeated.",
    shell_complete=_complete,
)
def broker(**options: Unpack[BrokerOptions]) -> None:
    """Run a broker in miniature until Ctrl-C.

    Its address goes to standard output, for scripts.
    \f

    Raises:
        UsageError: An address is open to the network and --unsafe is not given, or malformed; or
            --adopt is given without --data.
    """  # noqa: D301 - click ends the help at \f
    if options["adopt"] and not options["directories"]:
        raise click.UsageError("--adopt needs --data DIR, the directories to adopt")
    advertised_host, advertised_port = _advertised(options["advertise"])
    try:
        config = EmbeddedConfig(
            host=options["host"],
            port=options["port"],
            unsafe=options["unsafe"],
            advertised_host=advertised_host,
            advertised_port=advertised_port,
            **read_settings_of_broker(pairs(options["given"], "--set")),  # type: ignore[arg-type]
        )
    except ConfigError as error:
        text = str(error).replace("set unsafe=True", "give --unsafe")
        raise click.UsageError(text) from error
    run_broker(
        config,
        broker_count=options["broker_count"],
        topics=options["topics"],
        directories=options["directories"],
        adopts=options["adopt"],
    )


def run_broker(
    config: EmbeddedConfig,
    *,
    broker_count: int,
    topics: Mapping[str, int],
    directories: Sequence[str] = (),
    adopts: bool = False,
) -> None:
    """Run a cluster until Ctrl-C.

    Args:
        config: Listener address and other settings.
        broker_count: Number of brokers, 1 to 100.
        topics: Number of partitions by topic; created unless a directory has the topics.
        directories: Data directories; none for a cluster in memory.
        adopts: Whether they may be an Apache Kafka's, and are then taken over.

    Raises:
        ConfigError: A number is out of bounds.
        OSError: A port is in use.
    """
    cluster = EmbeddedCluster(
        broker_count, topics, config=config, data_dirs=directories, adopt=adopts
    )
    with _loading() as on_load:
        cluster.open(on_load)
    with contextlib.suppress(KeyboardInterrupt), cluster:
        # Only the address goes to standard output, for scripts.
        click.echo(cluster.bootstrap_servers)
        where = "in memory" if cluster.loaded is None else str(cluster.loaded)
        reach = f"at {config.host}, open to the network" if config.unsafe else "on loopback"
        click.echo(f"{where}, {reach}, for tests; Ctrl-C ends it", err=True)
        never = threading.Event()
        while not never.wait(_SLICE_S):  # a signal as a wait begins is handled at its end
            pass


@contextlib.contextmanager
def _loading() -> "Generator[OnLoad]":
    """Show a progress bar on standard error while partitions are loaded, if it is a terminal."""
    with ProgressBar(
        TextColumn("loading"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("partitions, {task.fields[recovered]} segments checked"),
        TimeElapsedColumn(),
    ) as progress:
        task = progress.add_task("", total=None, recovered=0)

        def on_load(summary: "LoadSummary", partition_count: int) -> None:
            progress.update(
                task,
                completed=summary.partition_count,
                total=partition_count,
                recovered=summary.recovered_count,
            )

        yield on_load


def _advertised(written: str | None) -> tuple[str, int]:
    """Parse HOST or HOST:PORT; the port is 0 if absent."""
    if written is None:
        return "", 0
    has_port = ":" in written.rpartition("]")[2]
    try:
        address = parse_address(written if has_port else f"{written}:1")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--advertise") from error
    return address.host, address.port if has_port else 0
