"""The `kprod` command: one file per subcommand, loaded when it is called.

Thread-safety: commands run once, in one thread.
Source: click's documentation on loading subcommands lazily.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType

import click

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "produce": "kprod.cli.produce",
        "dump": "kprod.cli.dump",
    }
)
"""Name of each command to its module, in which the command has the same name."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the names of all commands, in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Return the command of that name; None when there is none.

        Args:
            ctx: Not looked at.
            cmd_name: As typed.
        """
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return command if isinstance(command, click.Command) else None


COMPLETION = (
    'Shell completion: eval "$(_KPROD_COMPLETE=bash_source kprod)", or zsh_source; for fish:'
    " _KPROD_COMPLETE=fish_source kprod | source."
)


@click.group(cls=LazyGroup, epilog=COMPLETION)
@click.version_option(package_name="kprod")
def main() -> None:
    """Produce to Kafka, and look at what is in it."""
