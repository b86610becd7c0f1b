"""Converts every exception of a command into one line of text and an exit code.

Thread-safety: the main thread.
"""

import errno
import os
import sys
from collections.abc import Sequence

import click

from kprod.cli.group import main as group
from kprod.errors import ConfigError, KprodError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, by convention


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: As typed, without the program's name.

    Returns:
        The exit code. An error was printed as one line on standard error.

    Raises:
        SystemExit: A signal ends the command.
    """
    try:
        result = group.main(list(arguments), prog_name="kprod", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _say(_with_hint(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", EXIT_INTERRUPTED)
    except (KprodError, OSError) as error:
        return _fail(error)
    except SystemExit as error:
        if error.code != EXIT_FAILED:
            raise  # SIGTERM's
        _drop_output()  # by click, where the reader has closed the pipe
        return EXIT_FAILED
    return result if isinstance(result, int) else 0


def _with_hint(error: click.ClickException) -> str:
    text = error.format_message()
    if not isinstance(error, click.UsageError):
        return text
    command = "kprod" if error.ctx is None else error.ctx.command_path
    return f"{text} ({command} --help tells more)"


def _fail(error: KprodError | OSError) -> int:
    if isinstance(error, BlockingIOError):
        _drop_output()
        return _say(
            "standard output is non-blocking and took a part only: the rest is missing there; give"
            " a pipe whose writing end blocks, or a file",
            EXIT_FAILED,
        )
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _drop_output()  # the reader has closed the pipe
        return EXIT_FAILED
    if isinstance(error, OSError):
        _drop_unwritable_output()
    # An invalid setting on the command line is a usage error.
    code = EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED
    return _say(str(error) or type(error).__name__, code)


def _drop_unwritable_output() -> None:
    """Drop output that cannot be written, as on a full disk: the flush at exit would fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Write nothing more to standard output, not even in the flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str, code: int) -> int:
    click.echo(f"kprod: {' '.join(text.split())}", err=True)
    return code
