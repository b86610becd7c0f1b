"""The `kprod` command: one file per subcommand, loaded when it is called.

Thread-safety: commands run once, in one thread.
Source: click's documentation on loading subcommands lazily.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType

import click

from kprod.cli.hints import HintingGroup
from kprod.version import __version__

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "demo": "kprod.cli.demo",
        "broker": "kprod.cli.broker",
        "dump": "kprod.cli.dump",
        "produce": "kprod.cli.produce",
        "consume": "kprod.cli.consume",
        "perf": "kprod.cli.perf",
        "topics": "kprod.cli.topics_command",
        "groups": "kprod.cli.groups_command",
    }
)
"""Name of each command to its module, in which the command has the same name."""

_COMPLETION = (
    'Shell completion: eval "$(_KPROD_COMPLETE=bash_source kprod)", likewise zsh_source; fish:'
    " _KPROD_COMPLETE=fish_source kprod | source"
)


class LazyGroup(HintingGroup):
    """A group that imports a command's module when the command is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the names of all commands, in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Return the command of that name; None when there is none.

        Args:
            ctx: The context; not used.
            cmd_name: As typed.
        """
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return command if isinstance(command, click.Command) else None


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    epilog=_COMPLETION,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kprod", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Produce to Kafka, and read from it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
