"""A group of commands that stand in modules of their own, imported when they are wanted.

Thread-safety: the main thread.
Source: click's documentation on loading subcommands lazily.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import click

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "demo": "kprod.cli.demo",
        "broker": "kprod.cli.broker",
        "dump": "kprod.cli.dump",
    }
)
"""Name of each command to its module, in which the command has the same name."""


class LazyGroup(click.Group):
    """A group, some of whose commands are named by their modules.

    Args:
        lazy: Name of each such command to its module, in which the command has the same name.
        settings: What `click.Group` takes.
    """

    def __init__(self, *, lazy: Mapping[str, str], **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of help."""
        return sorted([*super().list_commands(ctx), *self._lazy])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None when there is none."""
        module_name = self._lazy.get(cmd_name)
        if module_name is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(module_name), cmd_name)
        return command if isinstance(command, click.Command) else None


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="kprod", prog_name="kprod", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Produce to Kafka, and look at what is in it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
