"""Computes the offsets that a reset of a group's offsets sets; the cluster is only asked.

An offset outside the log is moved to the nearer end of the log, as Kafka's own tool does.

Thread-safety: the client's thread.
Source: kafka-consumer-groups.sh, ConsumerGroupCommand.prepareOffsetsToReset (4.3.1); KIP-122.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kprod.admin.group_values import CommittedOffset
from kprod.admin.partition_offsets import find_offsets
from kprod.consumer.offset_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kprod.errors import KprodError
from kprod.model import TopicPartition
from kprod.network.admin_client import AdminClient


class TargetKind(enum.Enum):
    """The kinds of targets."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    GIVEN = "given"


class ResetTarget(NamedTuple):
    """The new place of offsets.

    Attributes:
        kind: The kind.
        value: An offset, a distance, or milliseconds since 1970; 0 for the other kinds.
        offsets: The offset of each partition, for `GIVEN`.
    """

    kind: TargetKind
    value: int = 0
    offsets: Mapping[TopicPartition, int] = {}


class PlannedOffset(NamedTuple):
    """The change of one partition's offset by a reset.

    Attributes:
        partition: The partition.
        committed: The committed offset before; None without one.
        offset: The new offset.
        wanted: The offset that was asked for, before it was moved into the log.
        start: Start offset of the log.
        end: End offset of the log.
    """

    partition: TopicPartition
    committed: int | None
    offset: int
    wanted: int
    start: int
    end: int


def plan_offsets(
    admin: AdminClient,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    target: ResetTarget,
) -> list[PlannedOffset]:
    """Compute the offsets of a reset.

    Args:
        admin: A client of the cluster.
        partitions: The partitions to reset.
        committed: The group's committed offsets.
        target: The new place of the offsets.

    Returns:
        The plan for each partition, in order.

    Raises:
        KprodError: A log's offsets are not known, such as those of a partition without leader; or
            a partition without a committed offset is to be shifted.
    """
    keys = list(partitions)
    starts = _offsets(admin, dict.fromkeys(keys, EARLIEST_TIMESTAMP))
    ends = _offsets(admin, dict.fromkeys(keys, LATEST_TIMESTAMP))
    now = {key: committed[key].offset for key in keys if key in committed}
    if target.kind is TargetKind.TIME:
        found = _offsets(admin, dict.fromkeys(keys, target.value))
        wanted = {key: ends[key] if offset < 0 else offset for key, offset in found.items()}
    else:
        places: Mapping[TargetKind, Callable[[TopicPartition], int]] = {
            TargetKind.EARLIEST: lambda key: starts[key],
            TargetKind.LATEST: lambda key: ends[key],
            TargetKind.CURRENT: lambda key: now.get(key, ends[key]),
            TargetKind.OFFSET: lambda _: target.value,
            TargetKind.SHIFT: lambda key: _shifted(key, now, target.value),
            TargetKind.GIVEN: lambda key: target.offsets[key],
        }
        wanted = {key: places[target.kind](key) for key in keys}
    return [
        PlannedOffset(
            key,
            now.get(key),
            min(max(wanted[key], starts[key]), ends[key]),
            wanted[key],
            starts[key],
            ends[key],
        )
        for key in keys
    ]


def _shifted(key: TopicPartition, now: Mapping[TopicPartition, int], distance: int) -> int:
    if key not in now:
        raise KprodError(
            f"topic {key.topic!r}, partition {key.partition}, has no committed offset to shift"
        )
    return now[key] + distance


def _offsets(admin: AdminClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found = {}
    for key, answer in find_offsets(admin, wanted).items():
        if isinstance(answer, KprodError):
            raise answer
        found[key] = answer.offset
    return found
