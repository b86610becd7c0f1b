"""Prints groups, members and offsets, as tables and as JSON.

Thread-safety: pure functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kprod.admin.group_values import (
    CLASSIC,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from kprod.admin.offset_plan import PlannedOffset
from kprod.cli.tables import aligned, shown_name
from kprod.consumer.group.protocol_data import by_topic
from kprod.model import TopicPartition
from kprod.wording import counted

NONE = "-"


class OffsetRow(NamedTuple):
    """A partition of a group.

    Attributes:
        partition: The partition.
        committed: The committed offset; None without one.
        start: Start offset of the log; None if it is not known.
        end: End offset of the log; None if it is not known.
        member_id: The member that reads the partition; None if none does.
    """

    partition: TopicPartition
    committed: CommittedOffset | None
    start: int | None
    end: int | None
    member_id: str | None

    @property
    def lag(self) -> int | None:
        """Number of offsets from the committed one to the end; None if it is not known.

        It is negative if the log was truncated, or its topic was created again, since the commit.
        """
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


def listing_json(group: GroupListing) -> dict[str, object]:
    """Return a line of `list --json`."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.group_type,
        "protocol_type": group.protocol_type,
        "coordinator": group.coordinator_id,
    }


def group_json(group: GroupDescription, rows: Iterable[OffsetRow]) -> dict[str, object]:
    """Return what `describe --json` prints of a group."""
    node = group.coordinator
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.group_type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": {"id": node.node_id, "host": node.host, "port": node.port},
        "members": None if group.members is None else [_member_json(it) for it in group.members],
        "offsets": [offset_json(row) for row in rows],
    }


def _member_json(member: MemberDescription) -> dict[str, object]:
    assignment = None if member.assignment is None else by_topic(member.assignment)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "topics": member.topics,
        "assignment": assignment,
        "metadata_bytes": member.metadata_bytes,
        "assignment_bytes": member.assignment_bytes,
        **({} if member.epoch is None else {"epoch": member.epoch, "pattern": member.pattern}),
    }


def offset_json(row: OffsetRow) -> dict[str, object]:
    """Return a partition of `offsets --json`."""
    committed = row.committed
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "committed": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "log_start": row.start,
        "log_end": row.end,
        "lag": row.lag,
        "member_id": row.member_id,
    }


def plan_json(group_id: str, plan: Iterable[PlannedOffset]) -> list[dict[str, object]]:
    """Return the lines of `reset --json`."""
    return [
        {
            "group": group_id,
            "topic": it.partition.topic,
            "partition": it.partition.partition,
            "committed": it.committed,
            "offset": it.offset,
            "wanted": it.wanted,
            "log_start": it.start,
            "log_end": it.end,
        }
        for it in plan
    ]


def group_text(group: GroupDescription, rows: Sequence[OffsetRow]) -> list[str]:
    """Return the lines of `describe`."""
    members = group.members
    kind = "" if members is None else counted(len(members), "member")
    if group.group_type != CLASSIC:
        unknown = " (its members are not known to this client)" if members is None else ""
        kind = ", ".join(filter(None, (kind, f"type {group.group_type}{unknown}")))
    protocol = f"protocol {shown_name(group.protocol_type)}" if group.protocol_type else ""
    assignor = f"assignor {shown_name(group.assignor)}" if group.assignor else ""
    node = group.coordinator
    place = f"coordinator {node.node_id} ({node.host}:{node.port})"
    facts = [group.state or "state unknown", kind, protocol, assignor, place]
    lines = [f"{shown_name(group.group_id)}: {', '.join(filter(None, facts))}"]
    lines += [f"  {line}" for line in _members_table(members or ())]
    return lines + [f"  {line}" for line in offsets_table(rows)]


def _members_table(members: Sequence[MemberDescription]) -> list[str]:
    if not members:
        return []
    has_instances = any(it.instance_id is not None for it in members)
    head = ["member", *(["instance"] if has_instances else []), "client id", "host", "partitions"]
    table = [head]
    for it in members:
        instance = NONE if it.instance_id is None else shown_name(it.instance_id)
        table.append(
            [
                shown_name(it.member_id),
                *([instance] if has_instances else []),
                shown_name(it.client_id),
                shown_name(it.client_host),
                _assigned(it),
            ]
        )
    return aligned(table)


def _assigned(member: MemberDescription) -> str:
    if member.assignment is None:
        size = member.assignment_bytes
        return f"({counted(size, 'byte')} of another protocol)" if size else NONE
    return " ".join(
        f"{shown_name(each['topic'])}:{','.join(map(str, each['partitions']))}"
        for each in by_topic(member.assignment)
    )


def offsets_table(rows: Sequence[OffsetRow], *, is_full: bool = False) -> list[str]:
    """Return a table of offsets.

    Args:
        rows: The partitions.
        is_full: Whether to show log starts and the commits' texts.

    Returns:
        The lines; none without partitions.
    """
    if not rows:
        return []
    has_members = any(row.member_id is not None for row in rows)
    head = ["topic", "partition", "committed", *(["log start"] if is_full else [])]
    head += ["log end", "lag", *(["member"] if has_members else [])]
    table = [head + (["metadata"] if is_full else [])]
    for row in rows:
        committed = row.committed
        cells = [
            shown_name(row.partition.topic),
            str(row.partition.partition),
            NONE if committed is None else str(committed.offset),
        ]
        cells += [_number(row.start)] if is_full else []
        cells += [_number(row.end), _number(row.lag)]
        if has_members:
            cells.append(NONE if row.member_id is None else shown_name(row.member_id))
        if is_full:
            text = "" if committed is None else committed.metadata
            cells.append(shown_name(text) if text else NONE)
        table.append(cells)
    return aligned(table)


def plan_table(plan: Sequence[PlannedOffset]) -> list[str]:
    """Return the table of `reset`."""
    table = [["topic", "partition", "committed", "new offset", "change", ""]]
    for it in plan:
        change = NONE if it.committed is None else f"{it.offset - it.committed:+d}"
        note = "" if it.offset == it.wanted else f"(the log has no {it.wanted})"
        table.append(
            [
                shown_name(it.partition.topic),
                str(it.partition.partition),
                _number(it.committed),
                str(it.offset),
                change,
                note,
            ]
        )
    return aligned(table)


def _number(value: int | None) -> str:
    return NONE if value is None else str(value)


def owners(group: GroupDescription) -> Mapping[TopicPartition, str]:
    """Return the member of each assigned partition."""
    return {key: it.member_id for it in group.members or () for key in it.assignment or ()}
