"""Names of a segment's files: the base offset in 20 digits, and what the file holds.

Thread-safety: functions of their arguments.
Source: Kafka LogFileUtils (4.3).
"""

import re

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"
_LOG_FILE = re.compile(r"(\d{20})\.log", re.ASCII)


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Name one of a segment's files.

    Args:
        base_offset: The segment's, 0 or more.
        suffix: What the file holds, with its dot.

    Returns:
        The name, without a directory.
    """
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """Read the base offset from the name of a segment's `.log` file.

    Args:
        name: Of any file, without a directory.

    Returns:
        The base offset; None for a file of another kind.
    """
    match = _LOG_FILE.fullmatch(name)
    return int(match[1]) if match else None
