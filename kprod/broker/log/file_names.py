"""Names of segment files (the base offset in 20 digits) and of partition directories.

Thread-safety: pure functions.
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
    """Return the name of one of a segment's files.

    Args:
        base_offset: The segment's base offset, 0 or more.
        suffix: The suffix of the file's kind, with its dot.

    Returns:
        The name, without a directory.
    """
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str = LOG_SUFFIX) -> int | None:
    """Parse the base offset in a segment file's name.

    Args:
        name: Any file name, without a directory.
        suffix: The expected suffix.

    Returns:
        The base offset; None if the file is of another kind.
    """
    if not name.endswith(suffix):
        return None  # most calls end here: a start asks about every file for several suffixes
    match = _SEGMENT_FILE.fullmatch(name)
    return int(match[1]) if match and match[2] == suffix else None


def partition_directory_name(partition: TopicPartition) -> str:
    """Return the name of a partition's directory."""
    return f"{partition.topic}-{partition.partition}"


def partition_of(name: str) -> TopicPartition | None:
    """Parse topic and index in the name of a partition's directory.

    Args:
        name: Any directory name, without its parents.

    Returns:
        The partition; None if the directory is of another kind.
    """
    match = _PARTITION.fullmatch(name)
    if match is None or name_fault(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def retired_directory_name(name: str, suffix: str, unique: uuid.UUID) -> str:
    """Return the new name of a directory that belongs to no partition any more.

    Args:
        name: The present name.
        suffix: The reason, as a suffix.
        unique: Distinguishes it from other directories of the same present name.

    Returns:
        A name of at most 255 characters.
    """
    ending = f".{unique.hex}{suffix}"
    return name[: _NAME_CHARACTERS_MAX - len(ending)] + ending
