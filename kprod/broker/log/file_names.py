"""Names of a segment's files: the base offset in 20 digits, and what the file holds.

Thread-safety: functions of their arguments.
Source: Kafka LogFileUtils (4.3).
"""

LOG_SUFFIX = ".log"


def log_file_name(base_offset: int) -> str:
    """Name the file that holds a segment's batches.

    Args:
        base_offset: The segment's, 0 or more.

    Returns:
        The name, without a directory.
    """
    return f"{base_offset:020d}{LOG_SUFFIX}"
