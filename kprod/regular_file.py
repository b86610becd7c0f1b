"""Opens files that are read again and again: certificates, keys, tokens.

Thread-safety: pure functions.
"""

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str) -> BinaryIO:
    """Open a file without waiting: the open of a pipe would wait for a writer.

    Args:
        path: The file's path.

    Returns:
        The file, opened for bytes.

    Raises:
        OSError: It cannot be opened, or is a pipe, a device or a directory.
    """
    try:
        file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - the caller closes it
    except UnicodeEncodeError:
        text = "the path cannot be written in the file system's encoding"
        raise OSError(errno.EINVAL, text) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file, which can be read again")
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
