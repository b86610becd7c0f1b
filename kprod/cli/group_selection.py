"""The options of `kprod groups` that select groups, partitions and offsets.

Thread-safety: the main thread.
Source: kafka-consumer-groups.sh (4.3.1) for the options' names and the form of its files.
"""

import csv
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from kprod.admin.group_admin import GroupAdmin
from kprod.admin.offset_plan import ResetTarget, TargetKind
from kprod.cli.connecting import complete_topic, completed_by
from kprod.clock import SystemClock
from kprod.config.consumer_kinds import duration_ms
from kprod.model import TopicPartition
from kprod.network.admin_client import AdminClient
from kprod.topic_name import name_fault

OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
FILE_BYTES_MAX = 64 << 20  # a million partitions with long names
_COMMAND = TypeVar("_COMMAND", bound=Callable[..., Any])
_THREE, _FOUR = 3, 4  # cells of a row
_DIGITS = re.compile(r"[0-9]{1,19}")


def complete_group(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's
    incomplete: str,
) -> list[CompletionItem]:
    """Complete a group's name by a query to the cluster; returns nothing on errors.

    Args:
        context: Context with the options typed so far.
        parameter: Unused.
        incomplete: The part of the name typed so far.

    Returns:
        The names with this beginning.
    """
    return completed_by(context, incomplete, _group_ids)


def _group_ids(admin: AdminClient) -> list[str]:
    return [group.group_id for group in GroupAdmin(admin).list_groups().groups]


topic_option = click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,...]",
    help="Only this topic, or only these partitions of it; may be repeated.",
    shell_complete=complete_topic,
)


def topic_filters(texts: Sequence[str]) -> dict[str, frozenset[int] | None]:
    """Parse the values of `--topic`.

    Args:
        texts: Topics, or topics with partition numbers, as `orders:0,2`.

    Returns:
        By topic, the partitions; None for all of them.

    Raises:
        BadParameter: A name or a number is invalid.
    """
    filters: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, found, listed = text.partition(":")
        fault = name_fault(topic)
        if fault is not None:
            raise click.BadParameter(fault, param_hint="--topic")
        numbers = frozenset(_partition(it, text) for it in listed.split(",")) if found else None
        before = filters.get(topic, frozenset())
        filters[topic] = None if numbers is None or before is None else before | numbers
    return filters


def _partition(text: str, whole: str) -> int:
    if not (_DIGITS.fullmatch(text) and int(text) <= PARTITION_MAX):
        raise click.BadParameter(
            f"{whole!r} is not TOPIC or TOPIC:0,1: {text!r} is no partition", param_hint="--topic"
        )
    return int(text)


def is_selected(key: TopicPartition, filters: Mapping[str, frozenset[int] | None]) -> bool:
    """Whether a partition is in the selection.

    Args:
        key: The partition.
        filters: The result of `topic_filters`; an empty one selects everything.

    Returns:
        Whether it is.
    """
    if not filters:
        return True
    numbers = filters.get(key.topic, frozenset())
    return numbers is None or key.partition in numbers


def target_options(command: _COMMAND) -> _COMMAND:
    """Add the options that say where a reset moves offsets to."""
    options = (
        click.option("--to-earliest", is_flag=True, help="To the beginning of the log."),
        click.option("--to-latest", is_flag=True, help="To the end of the log."),
        click.option("--to-current", is_flag=True, help="To the committed offset, or the end."),
        click.option("--to-offset", type=click.IntRange(0, OFFSET_MAX), metavar="N"),
        click.option(
            "--shift-by",
            type=click.IntRange(-OFFSET_MAX, OFFSET_MAX),
            metavar="N",
            help="Forward, or backward if N is negative.",
        ),
        click.option(
            "--by-duration",
            metavar="PnDTnHnMnS",
            help="To the first record of the last such time, as PT1H30M.",
        ),
        click.option(
            "--to-datetime",
            metavar="YYYY-MM-DDTHH:MM:SS.sss",
            help="To the first record since then; in UTC unless it ends with an offset, as +02:00.",
        ),
        click.option(
            "--from-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="CSV",
            help="To the offsets of a file with rows TOPIC,PARTITION,OFFSET.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def reset_target(group_id: str, options: Mapping[str, Any]) -> ResetTarget:
    """Return the target that the options of `target_options` name.

    Args:
        group_id: The group, for rows of a file.
        options: Values of the options.

    Returns:
        The target.

    Raises:
        UsageError: None, or more than one, is named; or its value is invalid.
    """
    given = [name for name in _TARGETS if options[name] is not None and options[name] is not False]
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in _TARGETS)
        raise click.UsageError(f"give one of {names}")
    return _TARGETS[given[0]](group_id, options[given[0]])


def _by_duration(text: str) -> ResetTarget:
    distance_ms = duration_ms(text)
    if distance_ms is None:
        raise click.BadParameter(
            f"{text!r} is no duration of ISO 8601, such as PT1H30M or P7D",
            param_hint="--by-duration",
        )
    return ResetTarget(TargetKind.TIME, max(SystemClock().timestamp_ms() - distance_ms, 0))


def _to_datetime(text: str) -> ResetTarget:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None:
        raise click.BadParameter(
            f"{text!r} is no time, such as 2026-01-31T23:59:59.999", param_hint="--to-datetime"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    time_ms = since // dt.timedelta(milliseconds=1)
    if time_ms < 0:
        raise click.BadParameter(f"{text!r} is before 1970", param_hint="--to-datetime")
    return ResetTarget(TargetKind.TIME, time_ms)


def _from_file(group_id: str, path: Path) -> ResetTarget:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise click.BadParameter(
            f"{path} has more than {FILE_BYTES_MAX} bytes", param_hint="--from-file"
        )
    with path.open(encoding="utf-8", newline="") as file:
        try:
            offsets = dict(_offsets_of(group_id, file))
        except (ValueError, csv.Error) as error:
            text = f"{path}: {error}"
            raise click.BadParameter(text, param_hint="--from-file") from error
    if not offsets:
        raise click.BadParameter(
            f"{path} has no row of group {group_id!r}", param_hint="--from-file"
        )
    return ResetTarget(TargetKind.GIVEN, offsets=offsets)


def _offsets_of(group_id: str, lines: Iterable[str]) -> Iterator[tuple[TopicPartition, int]]:
    """Parse rows, with or without a group before the topic; yields the group's own."""
    reader = csv.reader(lines)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) not in {_THREE, _FOUR}:
            _reject(reader.line_num, "has not the form TOPIC,PARTITION,OFFSET")
        topic, partition, offset = cells[-3:]
        fault = name_fault(topic)
        if fault is not None:
            _reject(reader.line_num, f"names no topic: {fault}")
        key = TopicPartition(topic, _number(reader.line_num, partition, PARTITION_MAX))
        number = _number(reader.line_num, offset, OFFSET_MAX)
        if len(cells) == _THREE or row[0] == group_id:
            yield key, number


def _number(line: int, text: str, highest: int) -> int:
    if not (_DIGITS.fullmatch(text) and int(text) <= highest):
        _reject(line, f"has {text!r:.40}, which is no number from 0 to {highest}")
    return int(text)


def _reject(line: int, fault: str) -> NoReturn:
    raise ValueError(f"line {line} {fault}")


_TARGETS: Mapping[str, Callable[[str, Any], ResetTarget]] = {
    "to_earliest": lambda _, __: ResetTarget(TargetKind.EARLIEST),
    "to_latest": lambda _, __: ResetTarget(TargetKind.LATEST),
    "to_current": lambda _, __: ResetTarget(TargetKind.CURRENT),
    "to_offset": lambda _, offset: ResetTarget(TargetKind.OFFSET, offset),
    "shift_by": lambda _, distance: ResetTarget(TargetKind.SHIFT, distance),
    "by_duration": lambda _, text: _by_duration(text),
    "to_datetime": lambda _, text: _to_datetime(text),
    "from_file": _from_file,
}
