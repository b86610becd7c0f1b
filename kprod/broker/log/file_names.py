"""Names of files and directories: a segment's base offset in 20 digits, a partition's topic.

Thread-safety: functions of their arguments.
Source: Kafka LogFileUtils (4.3).
"""

import re
import uuid

from kprod.model import TopicPartition
from kprod.topic_name import name_fault

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
INDEX_SUFFIXES = SEGMENT_SUFFIXES[1:]
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
_NAME_CHARACTERS_MAX = 255
_PARTITION = re.compile(r"(.+)-(0|[1-9]\d{0,5})", re.ASCII)
_SEGMENT_FILE = re.compile(r"(\d{20})(\.[a-z]+)", re.ASCII)


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Name one of a segment's files.

    Args:
        base_offset: The segment's, 0 or more.
        suffix: What the file holds, with its dot.

    Returns:
        The name, without a directory.
    """
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str = LOG_SUFFIX) -> int | None:
    """Read the base offset from the name of one of a segment's files.

    Args:
        name: Of any file, without a directory.
        suffix: What the file must hold.

    Returns:
        The base offset; None for a file of another kind.
    """
    match = _SEGMENT_FILE.fullmatch(name)
    return int(match[1]) if match and match[2] == suffix else None


def partition_directory_name(partition: TopicPartition) -> str:
    """Name a partition's directory."""
    return f"{partition.topic}-{partition.partition}"


def partition_of(name: str) -> TopicPartition | None:
    """Read topic and index from the name of a partition's directory.

    Args:
        name: Of any directory, without its parents.

    Returns:
        The partition; None for a directory of another kind.
    """
    match = _PARTITION.fullmatch(name)
    if match is None or name_fault(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def retired_directory_name(name: str, suffix: str, unique: uuid.UUID) -> str:
    """Name a directory that is no partition's any more.

    Args:
        name: Its present name.
        suffix: Says why.
        unique: Tells it from others of the same present name.

    Returns:
        A name of at most 255 characters.
    """
    ending = f".{unique.hex}{suffix}"
    return name[: _NAME_CHARACTERS_MAX - len(ending)] + ending
