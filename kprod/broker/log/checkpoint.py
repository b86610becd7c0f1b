"""Reads and writes checkpoint files: small text tables of one offset for each partition.

A directory has one file of each kind.

A checkpoint file is always the old or the new one, never half of each: the new content is written
under another name, synced, and renamed over the old file.

Thread-safety: the broker's thread.
Source: Kafka CheckpointFile and OffsetCheckpointFile (4.3).
"""

from collections.abc import Mapping

from kprod.broker.log.disk import Disk
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS)
"""Names of the files."""

TEMPORARY_SUFFIX = ".tmp"
_VERSION = "0"
_OFFSET_MAX = 2**63 - 1
_FIELD_COUNT = 3
_logger = guarded_logger("kprod.broker")

Offsets = dict[TopicPartition, int]


def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Replace a file's content atomically and durably.

    Args:
        disk: The disk that holds the file.
        path: The file's path; it need not exist.
        content: The whole new content.

    Raises:
        OSError: The file cannot be written; the old content is still there.
    """
    temporary = path + TEMPORARY_SUFFIX
    disk.create(temporary)
    disk.write(temporary, 0, content)
    disk.sync(temporary)
    disk.rename(temporary, path)
    disk.sync_directory(path.rpartition("/")[0])


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write a checkpoint.

    Args:
        disk: The disk that holds the file.
        path: The file's path.
        offsets: Offsets by partition, written in order of topic and index.
    """
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{it.topic} {it.partition} {offset}" for it, offset in sorted(offsets.items())]
    replace_file(disk, path, "".join(f"{line}\n" for line in lines).encode())


def read_offsets(disk: Disk, path: str) -> Offsets:
    """Read a checkpoint file; empty if the file is missing, empty or malformed.

    Args:
        disk: The disk that holds the file.
        path: The file's path.

    Returns:
        Offsets by partition. A malformed file is logged and ignored: the logs are then read from
        their beginning.
    """
    if not disk.exists(path):
        return {}
    content = disk.read(path, 0, disk.size(path))
    try:
        return _decoded(content)
    except ValueError as error:
        _logger.warning("%s is ignored: %s", path, error)
        return {}


def _decoded(content: bytes) -> Offsets:
    lines = content.decode("ascii").splitlines()
    if not lines:
        return {}
    if lines[0] != _VERSION:
        raise ValueError(f"version {lines[0][:20]!r} is not {_VERSION}")
    if len(lines) == 1:
        raise ValueError("line 2 is missing, which says how many lines follow")
    if _number(lines[1]) != len(lines) - 2:
        raise ValueError(f"line 2 does not say how many lines follow; there are {len(lines) - 2}")
    if not content.endswith(b"\n"):
        raise ValueError("its last line is cut off")
    offsets: Offsets = {}
    for line in lines[2:]:
        fields = line.split(" ")
        if len(fields) != _FIELD_COUNT or not fields[0]:
            raise ValueError(f"line {line[:300]!r} is not a topic, a partition and an offset")
        name = TopicPartition(fields[0], _number(fields[1]))
        if name in offsets:
            raise ValueError(f"{name} is there twice")
        offsets[name] = _number(fields[2])
    return offsets


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:20]) <= _OFFSET_MAX):
        raise ValueError(f"{text[:30]!r} is not a number from 0 to {_OFFSET_MAX}")
    return int(text)
