"""Files that identify a directory: `meta.properties`, `partition.metadata`, the shutdown mark.

Thread-safety: the broker's thread.
Source: Kafka MetaProperties, PartitionMetadataFile and CleanShutdownFileHandler (4.3).
"""

import base64
import binascii
import uuid
from typing import NamedTuple

from kprod.broker.log.checkpoint import replace_file
from kprod.broker.log.disk import Disk
from kprod.broker.rejection import DirectoryRejected

IDENTITY_FILE = "meta.properties"
PARTITION_FILE = "partition.metadata"
CLEAN_CLOSE_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"

_CLEAN_CLOSE = b'{"version":0,"brokerEpoch":-1}'
_SPACE = uuid.UUID("6b70726f-6400-4000-8000-646972656374")
_ID_BYTES = 16
_TEXT_BYTES_MAX = 64 << 10  # these files have a few lines


class DirectoryIdentity(NamedTuple):
    """The content of `meta.properties`.

    Attributes:
        cluster_id: The cluster's id.
        node_id: The broker's id; in a cluster of several, that of the first broker.
        directory_id: The directory's id.
    """

    cluster_id: str
    node_id: int
    directory_id: str


def id_text(value: uuid.UUID) -> str:
    """Format an id as Kafka does, in 22 URL-safe characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def id_value(text: str) -> uuid.UUID:
    """Parse an id that `id_text` or Kafka wrote.

    Returns:
        The id.

    Raises:
        ValueError: The text is not an id.
    """
    try:
        decoded = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is not an id: {error}") from None
    if len(decoded) != _ID_BYTES:
        raise ValueError(f"{text[:40]!r} is not an id of {_ID_BYTES} bytes")
    return uuid.UUID(bytes=decoded)


def new_directory_id(path: str, timestamp_ms: int) -> str:
    """Create an id for a new directory; reproducible in a simulation."""
    return id_text(uuid.uuid5(_SPACE, f"{path}/{timestamp_ms}"))


def read_identity(disk: Disk, directory: str) -> DirectoryIdentity | None:
    """Read the identity of a directory.

    Returns:
        The content of the file; None if there is no file.

    Raises:
        DirectoryRejected: The file has another version or cannot be parsed.
    """
    path = f"{directory}/{IDENTITY_FILE}"
    if not disk.exists(path):
        return None
    values = _properties(disk, path, "=")
    try:
        if values["version"] != "1":
            raise DirectoryRejected(f"{path} has version {values['version'][:20]!r}; 1 is known")
        return DirectoryIdentity(
            values["cluster.id"], int(values["node.id"]), values.get("directory.id", "")
        )
    except (KeyError, ValueError) as error:
        raise DirectoryRejected(f"{path} cannot be read: {error!r}") from None


def write_identity(disk: Disk, directory: str, identity: DirectoryIdentity) -> None:
    """Write the identity of a directory."""
    lines = [
        "version=1",
        f"cluster.id={identity.cluster_id}",
        f"node.id={identity.node_id}",
        f"directory.id={identity.directory_id}",
    ]
    content = "".join(f"{line}\n" for line in lines).encode()
    replace_file(disk, f"{directory}/{IDENTITY_FILE}", content)


def read_topic_id(disk: Disk, directory: str) -> uuid.UUID | None:
    """Read the topic id of a partition's directory.

    Returns:
        The topic's id; None if the file is missing, is too large, or does not have a valid id.
    """
    path = f"{directory}/{PARTITION_FILE}"
    if not disk.exists(path):
        return None
    try:
        return id_value(_properties(disk, path, ":")["topic_id"])
    except (KeyError, ValueError, DirectoryRejected):
        return None


def write_topic_id(disk: Disk, directory: str, topic_id: uuid.UUID) -> None:
    """Write the topic id of a partition's directory."""
    content = f"version: 0\ntopic_id: {id_text(topic_id)}".encode()
    replace_file(disk, f"{directory}/{PARTITION_FILE}", content)


def mark_clean_close(disk: Disk, directory: str) -> None:
    """Mark a directory as cleanly closed: everything in it was synced."""
    path = f"{directory}/{CLEAN_CLOSE_FILE}"
    disk.create(path)
    disk.write(path, 0, _CLEAN_CLOSE)
    disk.sync(path)
    disk.sync_directory(directory)


def take_clean_close(disk: Disk, directory: str) -> bool:
    """Check whether the last close was clean, and remove the mark before anything is written.

    Returns:
        True if the mark existed.
    """
    path = f"{directory}/{CLEAN_CLOSE_FILE}"
    was_clean = disk.exists(path)
    if was_clean:
        disk.remove(path)
        disk.sync_directory(directory)
    return was_clean


def _properties(disk: Disk, path: str, separator: str) -> dict[str, str]:
    size_bytes = disk.size(path)
    if size_bytes > _TEXT_BYTES_MAX:
        raise DirectoryRejected(
            f"{path} has {size_bytes} bytes, and at most {_TEXT_BYTES_MAX} are allowed: it is not a"
            " file of Kafka"
        )
    text = disk.read(path, 0, size_bytes).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = (line.partition(separator) for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}
