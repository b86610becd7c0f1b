"""The commands, and one border where whatever goes wrong becomes one line and an exit code.

Thread-safety: the main thread.
"""

import errno
import os
import sys
from collections.abc import Mapping, Sequence

import click

from kprod.cli.group import LazyGroup
from kprod.errors import KprodError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it

_PARTITIONS_MAX = 100_000
_COMPLETION = (
    'Shell completion: eval "$(_KPROD_COMPLETE=bash_source kprod)", likewise zsh_source; fish:'
    " _KPROD_COMPLETE=fish_source kprod | source"
)


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


@click.group(
    cls=LazyGroup,
    lazy={"dump": "kprod.cli.dump", "produce": "kprod.cli.produce"},
    epilog=_COMPLETION,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(package_name="kprod", prog_name="kprod", message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Produce to Apache Kafka, or to a broker in miniature that comes along."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@app.command()
@click.option("--bootstrap", metavar="HOST:PORT", help="A cluster; else a broker of its own.")
def demo(bootstrap: str | None) -> int:
    """Send 336,776 flights, read them back and compare each one."""
    from kprod.cli.demo import run_demo

    return 0 if run_demo(bootstrap) else EXIT_FAILED


@app.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Of the first; 0: any.")
@click.option("--brokers", type=click.IntRange(1, 100), default=1, show_default=True)
@click.option(
    "--topic",
    "topics",
    metavar="NAME:PARTITIONS",
    multiple=True,
    callback=_parse_topics,
    help="Made at the start.",
)
def broker(port: int, brokers: int, topics: Mapping[str, int]) -> None:
    """Run a broker in miniature, in memory, until interrupted."""
    from kprod.cli.broker import run_broker

    run_broker(port=port, brokers=brokers, topics=topics)


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: As typed, without the program's name.

    Returns:
        The exit code. What went wrong was said in one line on standard error.
    """
    try:
        result = app.main(list(arguments), prog_name="kprod", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", EXIT_INTERRUPTED)
    except (KprodError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            # The reader of our output left; nothing more can be said there, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILED
        return _say(str(error) or type(error).__name__, EXIT_FAILED)
    return result if isinstance(result, int) else 0


def _say(text: str, code: int) -> int:
    click.echo(f"kprod: {' '.join(text.split())}", err=True)
    return code
