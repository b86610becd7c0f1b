"""`kprod groups offsets` and `kprod groups reset`: show and set the offsets of one group.

Thread-safety: a command; runs once, in one thread.
Source: kafka-consumer-groups.sh --reset-offsets (4.3.1); KIP-122.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from kprod.admin.group_admin import GroupAdmin
from kprod.admin.group_values import CommittedOffset, GroupDescription
from kprod.admin.offset_plan import PlannedOffset, ResetTarget, plan_offsets
from kprod.admin.partition_offsets import partitions_of
from kprod.cli.connecting import client_config, connection_options, open_admin
from kprod.cli.group_rows import offset_rows
from kprod.cli.group_selection import (
    complete_group,
    is_selected,
    reset_target,
    target_options,
    topic_filters,
    topic_option,
)
from kprod.cli.group_tables import offset_json, offsets_table, plan_json, plan_table
from kprod.cli.tables import shown_name
from kprod.errors import BrokerError, KprodError
from kprod.model import TopicPartition
from kprod.network.admin_client import AdminClient
from kprod.protocol.error_table import ErrorCode
from kprod.wording import counted

EXIT_FAILED = 1
_MEMBERS_SHOWN = 5

_group_argument = click.argument("name", metavar="GROUP", shell_complete=complete_group)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _output_options(command: _Command) -> _Command:
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--csv", "as_csv", is_flag=True, help="Print the rows that `reset --from-file` reads."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _output(options: dict[str, Any]) -> str:
    """Take the options of `_output_options`."""
    as_json, as_csv = options.pop("as_json"), options.pop("as_csv")
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    return "json" if as_json else "csv" if as_csv else "table"


@click.command("offsets")
@connection_options
@_group_argument
@topic_option
@_output_options
def offsets_command(
    *,
    name: str,
    topics: Sequence[str],
    **options: Any,  # noqa: ANN401 - click's
) -> None:
    """Print the committed offsets of a group, with the logs' ends and the lag."""
    output, filters = _output(options), topic_filters(topics)
    with open_admin(client_config(options)) as admin:
        group_admin = GroupAdmin(admin)
        group = group_admin.describe(name)
        committed = group_admin.committed(name)
        if output == "csv":
            kept = {key: it.offset for key, it in committed.items() if is_selected(key, filters)}
            click.echo(_csv(kept), nl=False)
            return
        rows, errors = offset_rows(admin, group, committed, with_starts=True)
    rows = [row for row in rows if is_selected(row.partition, filters)]
    if output == "json":
        for row in rows:
            click.echo(json.dumps({"group": name} | offset_json(row), ensure_ascii=False))
    else:
        for line in offsets_table(rows, is_full=True):
            click.echo(line)
    for error in errors:
        click.echo(f"kprod: {error}", err=True)


@click.command("reset")
@connection_options
@_group_argument
@topic_option
@click.option("--all-topics", is_flag=True, help="All topics that have a committed offset.")
@target_options
@click.option("--execute", is_flag=True, help="Set the offsets; without it they are only shown.")
@_output_options
def reset_command(
    *,
    name: str,
    topics: Sequence[str],
    all_topics: bool,
    execute: bool,
    **options: Any,  # noqa: ANN401 - click's
) -> int:
    """Set the committed offsets of a group without members.

    Without --execute it shows what would be set, and changes nothing. Offsets outside a log are
    moved to its nearer end.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: The topics or the target are not given.
        KprodError: The group has members.
    """  # noqa: D301 - click ends the help at \f
    output, filters = _output(options), topic_filters(topics)
    target = reset_target(name, options)
    if not target.offsets and bool(filters) == all_topics:
        raise click.UsageError("give the topics to reset as --topic, or --all-topics")
    with open_admin(client_config(options)) as admin:
        group_admin = GroupAdmin(admin)
        _check_inactive(group_admin, name)
        committed = group_admin.committed(name)
        keys = _selected(admin, filters, committed, target)
        plan = plan_offsets(admin, keys, committed, target)
        rejected: Mapping[TopicPartition, BrokerError] = {}
        if execute:
            rejected = group_admin.commit(name, {it.partition: it.offset for it in plan})
    done = [it for it in plan if it.partition not in rejected]
    _show(name, done, output)
    for error in rejected.values():
        click.echo(f"kprod: {_with_reason(name, error)}", err=True)
    shown = shown_name(name)
    if execute:
        click.echo(f"set {counted(len(done), 'offset')} of group {shown}", err=True)
    else:
        click.echo(f"nothing is changed: give --execute to set offsets of group {shown}", err=True)
    return EXIT_FAILED if rejected else 0


def _selected(
    admin: AdminClient,
    filters: Mapping[str, frozenset[int] | None],
    committed: Mapping[TopicPartition, CommittedOffset],
    target: ResetTarget,
) -> list[TopicPartition]:
    if target.offsets:
        return [key for key in sorted(target.offsets) if is_selected(key, filters)]
    if not filters:
        return sorted(committed)
    keys = {key: None for key in partitions_of(admin, filters) if is_selected(key, filters)}
    # Partitions that do not exist get an error from the query of their offsets.
    for topic, numbers in filters.items():
        keys.update({TopicPartition(topic, number): None for number in numbers or ()})
    return sorted(keys)


def _check_inactive(group_admin: GroupAdmin, name: str) -> None:
    try:
        group = group_admin.describe(name)
    except BrokerError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return  # the commit creates it
        raise
    if group.may_have_members:
        raise KprodError(_active(group))


def _active(group: GroupDescription) -> str:
    shown = shown_name(group.group_id)
    if group.members is None:
        return (
            f"group {shown} of type {group.group_type} is {group.state}: offsets are set only"
            " while it has no members"
        )
    members = [
        f"{shown_name(it.member_id)} (client id {shown_name(it.client_id)},"
        f" host {shown_name(it.client_host)})"
        for it in group.members[:_MEMBERS_SHOWN]
    ]
    further = len(group.members) - len(members)
    more = f" and {further} more" if further else ""
    return (
        f"group {shown} is {group.state} with {counted(len(group.members), 'member')}:"
        f" {', '.join(members)}{more}; offsets are set only while it has none: stop them first"
    )


def _with_reason(name: str, error: BrokerError) -> str:
    if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
        return f"{error}: a member has joined group {shown_name(name)} meanwhile"
    return str(error)


def _show(name: str, plan: Sequence[PlannedOffset], output: str) -> None:
    if output == "csv":
        click.echo(_csv({it.partition: it.offset for it in plan}), nl=False)
    elif output == "json":
        for entry in plan_json(name, plan):
            click.echo(json.dumps(entry, ensure_ascii=False))
    elif plan:
        for line in plan_table(plan):
            click.echo(line)


def _csv(offsets: Mapping[TopicPartition, int]) -> str:
    text = io.StringIO()
    rows: Iterable[tuple[str, int, int]] = ((*key, offset) for key, offset in offsets.items())
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
