"""`kprod broker`: a cluster in miniature on loopback, until interrupted.

Thread-safety: the main thread; the cluster has one of its own.
"""

import contextlib
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kprod.broker import EmbeddedCluster, EmbeddedConfig

if TYPE_CHECKING:
    from kprod.broker.log.partition_logs import LoadSummary, OnLoad

_PARTITIONS_MAX = 100_000


def _parse_topics(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, int]:
    """Return partitions by topic; a name alone has one."""
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


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Of the first broker, the others follow; by default any that are free.",
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
def broker(
    port: int, broker_count: int, topics: Mapping[str, int], directories: Sequence[str]
) -> None:
    """Run a broker in miniature until interrupted."""
    run_broker(port=port, broker_count=broker_count, topics=topics, directories=directories)


def run_broker(
    *, port: int, broker_count: int, topics: Mapping[str, int], directories: Sequence[str] = ()
) -> None:
    """Run a cluster until the process is interrupted.

    Args:
        port: Of the first broker, the others follow; 0 takes free ones.
        broker_count: How many, 1 to 100.
        topics: Partitions by topic, made at once, unless a directory has them.
        directories: Where everything is kept; none for memory.

    Raises:
        ConfigError: A number is out of bounds.
        OSError: A port is taken.
    """
    config = EmbeddedConfig(port=port)
    cluster = EmbeddedCluster(broker_count, topics, config=config, data_dirs=directories)
    with _loading() as on_load:
        cluster.open(on_load)
    with cluster:
        # The address alone on standard output, for scripts.
        click.echo(cluster.bootstrap_servers)
        where = "in memory" if cluster.loaded is None else str(cluster.loaded)
        click.echo(f"{where}, on loopback, for tests; Ctrl-C ends it", err=True)
        threading.Event().wait()


@contextlib.contextmanager
def _loading() -> "Generator[OnLoad]":
    """Show a bar on standard error while partitions are loaded, if that is a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("loading"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("partitions, {task.fields[recovered]} segments checked"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
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
