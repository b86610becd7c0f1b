"""Suggests a command for a misspelt name, or for a word of another tool.

Thread-safety: pure functions.
"""

import difflib
from collections.abc import Collection, Mapping
from types import MappingProxyType

import click

from kprod.config.quoting import shown

_OTHER_WORDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("send", "publish", "write", "put", "producer"), "produce"),
        **dict.fromkeys(("read", "receive", "subscribe", "tail", "cat", "consumer"), "consume"),
        **dict.fromkeys(("serve", "server", "start", "run", "mock", "up"), "broker"),
        **dict.fromkeys(("topic", "create", "list", "ls", "describe", "delete"), "topics"),
        **dict.fromkeys(("group", "lag", "offsets", "reset", "consumer-groups"), "groups"),
        **dict.fromkeys(("bench", "benchmark", "load"), "perf"),
        **dict.fromkeys(("dump-log", "segments", "log"), "dump"),
    }
)
"""Names of commands in other tools, or common guesses, with kprod's name."""


def hint(typed: str, commands: Collection[str]) -> str:
    """Say which command was meant.

    Args:
        typed: No command's name.
        commands: Names of all there are.

    Returns:
        "did you mean …?", or what there is.
    """
    meant = _OTHER_WORDS.get(typed.lower(), "")
    close = difflib.get_close_matches(typed.lower(), commands, n=1)
    if close:
        meant = close[0]
    return f"did you mean {meant}?" if meant in commands else f"there are {', '.join(commands)}"


class HintingGroup(click.Group):
    """A group of commands that meets an unknown name with a hint."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; say which one was meant if there is none.

        Args:
            ctx: Context of the group.
            args: The command's name, and its arguments.

        Returns:
            The result of click's method.

        Raises:
            UsageError: There is no such command.
        """
        commands = self.list_commands(ctx)
        if args[0] not in commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            text = f"no such command: {shown(args[0])}; {hint(args[0], commands)}"
            raise click.UsageError(text, ctx)
        return super().resolve_command(ctx, args)
