"""`kprod topics`: lists, describes, creates, changes and deletes topics.

Standard output is suitable for scripts: plain names, or JSON with `--json`. Everything else goes to
standard error.

Thread-safety: a command; runs once, in one thread.
Source: kafka-topics.sh and kafka-configs.sh (4.3.1) for the operations.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from kprod.broker.topic_settings import TOPIC_SETTINGS
from kprod.cli.connecting import (
    all_settings,
    client_config,
    complete_topic,
    connection_options,
    open_admin,
    open_reader,
    pairs,
)
from kprod.cli.hints import HintingGroup
from kprod.cli.tables import aligned, printable
from kprod.config import ClientConfig
from kprod.consumer.whole_topic import offset_ranges
from kprod.errors import BrokerError
from kprod.network import topic_admin
from kprod.network.topic_admin import OWN_SETTING, PartitionState, TopicSettingView, TopicState
from kprod.protocol.error_table import ErrorCode
from kprod.wording import counted

EXIT_FAILED = 1
_PARTITIONS = click.IntRange(min=1, max=2**31 - 1)
_COPIES = click.IntRange(min=1, max=2**15 - 1)


def _complete_topic_setting(
    context: click.Context,  # noqa: ARG001 - click's
    parameter: click.Parameter,
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the name of a topic setting."""
    end = "" if parameter.name == "removed" else "="
    names = [name for name in TOPIC_SETTINGS if name.startswith(incomplete)]
    return [CompletionItem(f"{name}{end}") for name in names]


_topic_argument = click.argument("topic", shell_complete=complete_topic)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_set_option = click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the topic, such as retention.ms=86400000; may be repeated.",
    shell_complete=_complete_topic_setting,
)


@click.group(cls=HintingGroup, invoke_without_command=True)
@click.pass_context
def topics(context: click.Context) -> None:
    """List, describe, create, delete and alter topics."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@topics.command("list")
@connection_options
@click.option("--internal", is_flag=True, help="Kafka's own topics too.")
@_json_option
def list_command(*, internal: bool, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - click's
    """Print the names of all topics, one on each line."""
    with open_admin(client_config(options)) as admin:
        found = topic_admin.list_topics(admin)
    for topic in found:
        if topic.is_internal and not internal:
            continue
        if as_json:
            copies = max((len(it.replicas) for it in topic.partitions), default=0)
            facts = {"topic": topic.name, "partitions": len(topic.partitions), "replicas": copies}
            click.echo(json.dumps(facts | {"internal": topic.is_internal}, ensure_ascii=False))
        else:
            click.echo(topic.name)


@topics.command("describe")
@connection_options
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("--all-settings", is_flag=True, help="Also those that the topic has from elsewhere.")
@click.option("--offsets", is_flag=True, help="First and end offset of each partition too.")
@_json_option
def describe_command(
    *,
    names: Sequence[str],
    all_settings: bool,
    offsets: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's
) -> None:
    """Print topics with their partitions, leaders, replicas and settings."""
    with open_admin(client_config(options)) as admin:
        for state in topic_admin.describe_topics(admin, list(dict.fromkeys(names))):
            settings = [
                view
                for view in topic_admin.describe_settings(admin, state.name)
                if all_settings or view.source == OWN_SETTING
            ]
            ranges = _ranges(options, state.name) if offsets else {}
            if as_json:
                described = _as_json(state, settings, ranges)
                click.echo(json.dumps(described, ensure_ascii=False))
            else:
                click.echo("\n".join(_as_text(state, settings, ranges)))


@topics.command("create")
@connection_options
@_topic_argument
@click.option("--partitions", "-p", type=_PARTITIONS, help="The cluster's own number by default.")
@click.option("--replicas", "-r", type=_COPIES, help="The cluster's own number by default.")
@_set_option
@click.option("--if-missing", is_flag=True, help="No error if there is such a topic already.")
def create_command(
    *,
    topic: str,
    partitions: int | None,
    replicas: int | None,
    given: Sequence[str],
    if_missing: bool,
    **options: Any,  # noqa: ANN401 - click's
) -> None:
    """Create a topic."""
    settings = pairs(given, "--set")
    with open_admin(client_config(options)) as admin:
        try:
            topic_admin.make_topic(
                admin,
                topic,
                partitions or -1,
                replication_factor=replicas or -1,
                settings=settings,
            )
        except BrokerError as error:
            if not (if_missing and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            click.echo(f"topic {topic} is there already", err=True)
            return
    click.echo(f"made topic {topic}", err=True)


@topics.command("alter")
@connection_options
@_topic_argument
@click.option(
    "--partitions",
    "-p",
    type=_PARTITIONS,
    help="New number of partitions, larger than the present one.",
)
@_set_option
@click.option(
    "--unset",
    "removed",
    multiple=True,
    metavar="NAME",
    help="Let the topic have the cluster's value again; may be repeated.",
    shell_complete=_complete_topic_setting,
)
def alter_command(
    *,
    topic: str,
    partitions: int | None,
    given: Sequence[str],
    removed: Sequence[str],
    **options: Any,  # noqa: ANN401 - click's
) -> None:
    """Add partitions to a topic, or change its settings.

    More partitions send keys to others than before: records of one key are then in two of them.
    \f

    Raises:
        UsageError: There is nothing to change, or a setting is to be set and unset.
    """  # noqa: D301 - click ends the help at \f
    settings = pairs(given, "--set")
    if partitions is None and not settings and not removed:
        raise click.UsageError("nothing to change: give --partitions, --set or --unset")
    both = sorted(settings.keys() & set(removed))
    if both:
        raise click.UsageError(f"{both[0]} is both in --set and in --unset")
    with open_admin(client_config(options)) as admin:
        if settings or removed:
            topic_admin.alter_settings(admin, topic, settings, removed)
            changed = counted(len(settings) + len(set(removed)), "setting")
            click.echo(f"changed {changed} of topic {topic}", err=True)
        if partitions is not None:
            topic_admin.add_partitions(admin, topic, partitions)
            click.echo(f"topic {topic} has {counted(partitions, 'partition')}", err=True)


@topics.command("delete")
@connection_options
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("--yes", "-y", "is_agreed", is_flag=True, help="Do not ask.")
def delete_command(*, names: Sequence[str], is_agreed: bool, **options: Any) -> int:  # noqa: ANN401
    """Delete topics with all their records.

    On a terminal it asks first; in a script it needs --yes. The exit code is 1 when a topic was not
    deleted.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: Nobody can be asked, and --yes is not given.
    """  # noqa: D301 - click ends the help at \f
    wanted = list(dict.fromkeys(names))
    config = client_config(options)
    if not is_agreed:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked here: give --yes to delete")
        what = f"Delete {', '.join(wanted)} and all records there?"
        click.confirm(what, abort=True, err=True)
    with open_admin(config) as admin:
        rejected = topic_admin.delete_topics(admin, wanted)
    for name in wanted:
        if name not in rejected:
            click.echo(f"deleted topic {name}", err=True)
    for error in rejected.values():
        click.echo(f"kprod: {error}", err=True)
    return EXIT_FAILED if rejected else 0


def _ranges(options: Mapping[str, Any], topic: str) -> Mapping[int, tuple[int, int]]:
    with open_reader(all_settings(options, ClientConfig)) as consumer:
        ranges = offset_ranges(consumer, topic)
    return {key.partition: it for key, it in ranges.items()}


def _as_json(
    state: TopicState,
    settings: Iterable[TopicSettingView],
    ranges: Mapping[int, tuple[int, int]],
) -> dict[str, object]:
    partitions = []
    for it in state.partitions:
        partition: dict[str, object] = {
            "partition": it.partition,
            "leader": it.leader_id,
            "leader_epoch": it.leader_epoch,
            "replicas": list(it.replicas),
            "in_sync": list(it.in_sync_replicas),
            "offline": list(it.offline_replicas),
        }
        if it.partition in ranges:
            partition["first_offset"], partition["end_offset"] = ranges[it.partition]
        partitions.append(partition)
    return {
        "topic": state.name,
        "id": state.topic_id,
        "internal": state.is_internal,
        "partitions": partitions,
        "settings": {
            view.name: {"value": view.value, "from": view.source_name} for view in settings
        },
    }


def _as_text(
    state: TopicState,
    settings: Iterable[TopicSettingView],
    ranges: Mapping[int, tuple[int, int]],
) -> list[str]:
    head = f"{state.name}: {counted(len(state.partitions), 'partition')}"
    lines = [head + (f", id {state.topic_id}" if state.topic_id else "")]
    columns = ["partition", "leader", "replicas", "in sync"]
    columns += ["first offset", "end offset"] if ranges else []
    table = [columns] + [_row(it, ranges) for it in state.partitions]
    lines += [f"  {line}" for line in aligned(table)]
    values = [[view.name, _value(view), f"({view.source_name})"] for view in settings]
    return lines + [f"  {line}" for line in aligned(values)]


def _row(it: PartitionState, ranges: Mapping[int, tuple[int, int]]) -> list[str]:
    leader = "none" if it.leader_id < 0 else str(it.leader_id)
    return [
        str(it.partition),
        leader,
        ",".join(map(str, it.replicas)),
        ",".join(map(str, it.in_sync_replicas)),
        *map(str, ranges.get(it.partition, ())),
    ]


def _value(view: TopicSettingView) -> str:
    return "(secret)" if view.value is None else printable(view.value)
