"""`kprod groups`: lists, describes and deletes groups, and shows and resets their offsets.

Standard output is suitable for scripts: plain names, or JSON with `--json`. Everything else goes to
standard error.

Thread-safety: a command; runs once, in one thread.
Source: kafka-consumer-groups.sh (4.3.1) for the operations.
"""

import contextlib
import json
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import click
from rich.progress import BarColumn, TaskProgressColumn, TextColumn

from kprod.admin.group_admin import GroupAdmin
from kprod.admin.group_values import STATES, GroupDescription
from kprod.cli.connecting import client_config, connection_options, open_admin
from kprod.cli.group_offsets_command import offsets_command, reset_command
from kprod.cli.group_rows import offset_rows
from kprod.cli.group_selection import complete_group, is_selected, topic_filters, topic_option
from kprod.cli.group_tables import group_json, group_text, listing_json
from kprod.cli.hints import HintingGroup
from kprod.cli.progress_bar import ProgressBar
from kprod.cli.tables import printable, shown_name
from kprod.errors import KprodError
from kprod.network.admin_client import AdminClient
from kprod.wording import counted

EXIT_FAILED = 1

_groups_argument = click.argument(
    "names", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_group
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=HintingGroup, invoke_without_command=True)
@click.pass_context
def groups(context: click.Context) -> None:
    """List, describe and delete groups; show and reset their offsets."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


groups.add_command(offsets_command)
groups.add_command(reset_command)


@groups.command("list")
@connection_options
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state; may be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(["classic", "consumer", "share", "streams"], case_sensitive=False),
    help="Only groups of this type; may be repeated.",
)
@click.option("--long", "-l", "is_long", is_flag=True, help="State, type and protocol, too.")
@_json_option
def list_command(
    *,
    states: Sequence[str],
    types: Sequence[str],
    is_long: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's
) -> int:
    """Print the names of all groups, one on each line.

    The exit code is 1 when a broker has not told its groups.
    \f

    Returns:
        The exit code.
    """  # noqa: D301 - click ends the help at \f
    with open_admin(client_config(options)) as admin:
        found = GroupAdmin(admin).list_groups(states=states, types=types)
    for group in found.groups:
        if as_json:
            click.echo(json.dumps(listing_json(group), ensure_ascii=False))
        elif is_long:
            cells = [group.state, group.group_type, group.protocol_type]
            facts = [shown_name(it) if it else "-" for it in cells]
            click.echo("\t".join([printable(group.group_id), *facts]))
        else:
            click.echo(printable(group.group_id))
    for node_id, error in found.errors.items():
        click.echo(f"kprod: broker {node_id} has not told its groups: {error}", err=True)
    return EXIT_FAILED if found.errors else 0


@groups.command("describe")
@connection_options
@click.argument("names", metavar="GROUP...", nargs=-1, shell_complete=complete_group)
@click.option("--all", "is_all", is_flag=True, help="All groups.")
@_json_option
def describe_command(
    *,
    names: Sequence[str],
    is_all: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's
) -> int:
    """Print groups with state, coordinator, members, offsets and lag.

    The lag is the number of offsets from the committed one to the end of the log. The exit code is
    1 when a group could not be described.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: Neither groups nor --all are given, or both.
    """  # noqa: D301 - click ends the help at \f
    if bool(names) == is_all:
        raise click.UsageError("give groups, or --all")
    code = 0
    with open_admin(client_config(options)) as admin:
        group_admin = GroupAdmin(admin)
        wanted = list(dict.fromkeys(names))
        if is_all:
            found = group_admin.list_groups()
            wanted = [it.group_id for it in found.groups]
            for node_id, error in found.errors.items():
                code = EXIT_FAILED
                click.echo(f"kprod: broker {node_id} has not told its groups: {error}", err=True)
        for name in _with_progress(wanted):
            try:
                lines = _described(admin, group_admin, name, as_json=as_json)
            except KprodError as error:
                code = EXIT_FAILED
                click.echo(f"kprod: {error}", err=True)
            else:
                click.echo(lines)
    return code


@groups.command("delete")
@connection_options
@_groups_argument
@topic_option
@click.option("--yes", "-y", "is_agreed", is_flag=True, help="Do not ask.")
def delete_command(
    *,
    names: Sequence[str],
    topics: Sequence[str],
    is_agreed: bool,
    **options: Any,  # noqa: ANN401 - click's
) -> int:
    """Delete groups without members; or with --topic only their offsets of these topics.

    On a terminal it asks first; in a script it needs --yes. The exit code is 1 when something was
    not deleted.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: Nobody can be asked, and --yes is not given.
    """  # noqa: D301 - click ends the help at \f
    wanted = list(dict.fromkeys(names))
    filters = topic_filters(topics)
    config = client_config(options)
    if not is_agreed:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked here: give --yes to delete")
        shown = ", ".join(map(shown_name, wanted))
        what = f"the offsets of {', '.join(topics)} of {shown}" if topics else f"{shown}"
        click.confirm(f"Delete {what}?", abort=True, err=True)
    code = 0
    with open_admin(config) as admin:
        group_admin = GroupAdmin(admin)
        for name in _with_progress(wanted):
            try:
                errors = _deleted(group_admin, name, filters)
            except KprodError as error:
                errors = [error]
            for each in errors:
                code = EXIT_FAILED
                click.echo(f"kprod: {each}", err=True)
    return code


def _deleted(
    group_admin: GroupAdmin, name: str, filters: Mapping[str, frozenset[int] | None]
) -> Sequence[KprodError]:
    """Delete a group, or its offsets of topics; say so, and return the errors."""
    if not filters:
        group_admin.delete(name)
        click.echo(f"deleted group {shown_name(name)}", err=True)
        return []
    committed = group_admin.committed(name)
    keys = [key for key in committed if is_selected(key, filters)]
    rejected = group_admin.delete_offsets(name, keys)
    done = len(keys) - len(rejected)
    click.echo(f"deleted {counted(done, 'offset')} of group {shown_name(name)}", err=True)
    missing = sorted(filters.keys() - {key.topic for key in keys})
    return [
        *(KprodError(f"group {name!r} has no offsets of topic {topic!r}") for topic in missing),
        *{str(error): error for error in rejected.values()}.values(),
    ]


def _described(admin: AdminClient, group_admin: GroupAdmin, name: str, *, as_json: bool) -> str:
    group: GroupDescription = group_admin.describe(name)
    rows, errors = offset_rows(admin, group, group_admin.committed(name))
    for error in errors:
        click.echo(f"kprod: {error}", err=True)
    if as_json:
        return json.dumps(group_json(group, rows), ensure_ascii=False)
    return "\n".join(group_text(group, rows))


@contextlib.contextmanager
def _bar(count: int) -> Generator[ProgressBar]:
    columns = TextColumn("groups"), BarColumn(), TaskProgressColumn()
    with ProgressBar(*columns, is_wanted=count > 1 and not sys.stdout.isatty()) as bar:
        yield bar


def _with_progress(names: Sequence[str]) -> Iterable[str]:
    """Yield groups, and show on a terminal how many are done."""
    with _bar(len(names)) as bar:
        yield from bar.track(names, total=len(names))
