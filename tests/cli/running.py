"""Runs the command line in this process, as the shell would."""

import sys

import click
from click.testing import CliRunner, Result

from kprod.cli import app


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _kprod(arguments: tuple[str, ...]) -> None:
    sys.exit(app.run(arguments))


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    """Run one command.

    Args:
        arguments: Arguments as typed after `kprod`.
        stdin: The text on standard input.

    Returns:
        Exit code and both outputs.
    """
    return CliRunner().invoke(_kprod, ["--", *arguments], input=stdin)
