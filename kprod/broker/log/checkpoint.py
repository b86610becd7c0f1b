"""Checkpoints: small text tables of offsets by partition, one file of a kind in each directory.

A checkpoint is old or new, never half: the new content is written under another name, synced, and
renamed over the old one.

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
    """Give a file new content, all or nothing, that survives a crash.

    Args:
        disk: Holds the file.
        path: Of the file, which need not exist.
        content: All of it.

    Raises:
        OSError: It cannot be written; the old content is still there.
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
        disk: Holds the file.
        path: Of the file.
        offsets: By partition; written in order of topic and index.
    """
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{it.topic} {it.partition} {offset}" for it, offset in sorted(offsets.items())]
    replace_file(disk, path, "".join(f"{line}\n" for line in lines).encode())


def read_offsets(disk: Disk, path: str) -> Offsets:
    """Read a checkpoint; one that is missing, empty or malformed says nothing.

    Args:
        disk: Holds the file.
        path: Of the file.

    Returns:
        Offsets by partition. A malformed file is logged: its content is found
        by reading the logs themselves.
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
    if len(lines) == 1 or _number(lines[1]) != len(lines) - 2:
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
