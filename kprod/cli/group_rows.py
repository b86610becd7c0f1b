"""Combines the committed offsets of a group with the ends of the logs and the members' partitions.

Thread-safety: the client's thread.
Source: kafka-consumer-groups.sh, ConsumerGroupCommand.collectGroupsOffsets (4.3.1).
"""

from collections.abc import Mapping

from kprod.admin.group_values import CommittedOffset, GroupDescription
from kprod.admin.partition_offsets import find_offsets
from kprod.cli.group_tables import OffsetRow, owners
from kprod.consumer.offset_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kprod.errors import KprodError
from kprod.model import TopicPartition
from kprod.network.admin_client import AdminClient


def offset_rows(
    admin: AdminClient,
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    *,
    with_starts: bool = False,
) -> tuple[list[OffsetRow], list[KprodError]]:
    """Make the rows of a group's table.

    Args:
        admin: A client of the cluster.
        group: The group.
        committed: Its committed offsets.
        with_starts: Whether to ask for the log starts, too.

    Returns:
        A row for each partition with a committed offset or a member, and the errors for log ends
        that are not known.

    Raises:
        KprodError: No broker has told of the topics.
    """
    members = owners(group)
    keys = sorted({**committed, **members})
    ends, errors = _known(admin, keys, LATEST_TIMESTAMP)
    starts: Mapping[TopicPartition, int] = {}
    if with_starts:
        starts, _ = _known(admin, list(ends), EARLIEST_TIMESTAMP)
    rows = [
        OffsetRow(key, committed.get(key), starts.get(key), ends.get(key), members.get(key))
        for key in keys
    ]
    return rows, errors


def _known(
    admin: AdminClient, keys: list[TopicPartition], at: int
) -> tuple[dict[TopicPartition, int], list[KprodError]]:
    found: dict[TopicPartition, int] = {}
    errors: dict[str, KprodError] = {}
    for key, answer in find_offsets(admin, dict.fromkeys(keys, at)).items():
        if isinstance(answer, KprodError):
            errors.setdefault(str(answer), answer)
        else:
            found[key] = answer.offset
    return found, list(errors.values())
