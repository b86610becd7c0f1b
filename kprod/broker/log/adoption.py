"""Takes over directories of an Apache Kafka, whose metadata log is not read.

Each topic's id is in `partition.metadata`, and its partitions are the directories of its name. Its
settings are not known: it gets the cluster's defaults, but keeps all records, since nothing may be
removed because of a guess. `__consumer_offsets` gets the settings that the group coordinator gives
it, and groups continue at their committed offsets.

Rules.
    All directories are checked before anything is written. Then the topics are stored, then every
    directory gets this cluster's identity, the one with the stored topics last. An adoption that
    was interrupted is done again by the next one.
    Topics of Kafka's own (`UNUSED_TOPICS`) are not served, and their directories are not changed.

Thread-safety: the broker's thread.
Source: Kafka LogManager and PartitionMetadataFile (4.3) for the content of a directory.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kprod.broker.internal_topics import OFFSETS_SETTINGS, OFFSETS_TOPIC, UNUSED_TOPICS
from kprod.broker.log.file_names import partition_directory_name
from kprod.broker.log.identity import IDENTITY_FILE
from kprod.broker.log.log_directory import LogDirectory
from kprod.broker.metadata_file import METADATA_FILE, ClusterFacts, TopicFacts
from kprod.broker.rejection import DirectoryRejected
from kprod.model import TopicPartition
from kprod.wording import counted

if TYPE_CHECKING:
    import uuid

_SETTINGS: Mapping[str, str | None] = {"retention.ms": "-1"}
_FIRST_PRODUCER_ID = 1 << 40  # Kafka assigns ids from 0 on, and the last one is not known
_MAGIC = 2
_SHOWN_MAX = 5


class Adoption(NamedTuple):
    """A completed adoption.

    Attributes:
        cluster_id: The id that the directories had.
        topic_count: Number of adopted topics.
        partition_count: Number of their partitions.
    """

    cluster_id: str
    topic_count: int
    partition_count: int

    def __str__(self) -> str:
        """Format the result as one line."""
        return (
            f"adopted {counted(self.topic_count, 'topic')} with "
            f"{counted(self.partition_count, 'partition')} of cluster {self.cluster_id}; their "
            "settings are not known: they have this cluster's defaults, and retention.ms=-1"
        )


def check_adoptable(directories: Sequence[LogDirectory]) -> None:
    """Check that directories were used before, without a change to them.

    Raises:
        DirectoryRejected: One does not exist, or has no identity.
    """
    for directory in directories:
        if not directory.is_used:
            raise DirectoryRejected(
                f"{directory.path} has no {IDENTITY_FILE}, so that there is nothing to adopt; a "
                "new directory is made without the request to adopt it"
            )


def adopt(
    directories: Sequence[LogDirectory],
    found: Mapping[TopicPartition, LogDirectory],
    *,
    cluster_id: str,
    node_id: int,
) -> Adoption | None:
    """Take over locked directories of another cluster.

    Args:
        directories: All directories of this cluster.
        found: The directory of each partition.
        cluster_id: This cluster's id.
        node_id: The broker that gets all partitions.

    Returns:
        A summary; None if all directories already belong to this cluster.

    Raises:
        DirectoryRejected: They belong to several clusters; or a partition is missing, has no id of
            a topic or a different one, or has records in a format older than magic 2.
        OSError: A file cannot be read or written.
    """
    ids = {it.path: it.cluster_id for it in directories}
    foreign = [it for it in directories if ids[it.path] != cluster_id]
    if not foreign:
        return None
    started = [it for it in directories if it.has_facts]
    is_interrupted = len(started) == 1 and started[0] in foreign
    if len({ids[it.path] for it in foreign}) > 1 or not (
        is_interrupted or (len(foreign) == len(directories) and not started)
    ):
        raise DirectoryRejected(
            "only directories of one cluster of Kafka can be adopted together; these are of: "
            + ", ".join(f"{path} {of!r}" for path, of in ids.items())
            + "".join(f"; {it.path} has {METADATA_FILE}" for it in started)
        )
    facts = adopted_facts(found, node_id)
    last = started[0] if started else foreign[0]
    last.write_facts(facts)
    for directory in sorted(foreign, key=lambda it: it is last):
        directory.take_over(cluster_id, node_id)
    partition_count = sum(len(it.assignment) for it in facts.topics)
    return Adoption(str(ids[last.path]), len(facts.topics), partition_count)


def adopted_facts(found: Mapping[TopicPartition, LogDirectory], node_id: int) -> ClusterFacts:
    """Derive the topics from the directories of their partitions.

    Args:
        found: The directory of each partition.
        node_id: The broker that gets all partitions.

    Returns:
        The metadata to store.

    Raises:
        DirectoryRejected: A partition is missing, has no id of a topic or a different one, or has
            records in a format older than magic 2.
        OSError: A file cannot be read.
    """
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(found):
        if topic not in UNUSED_TOPICS:
            indexes[topic].append(index)
    return ClusterFacts(
        topics=[_topic(found, name, its, node_id) for name, its in indexes.items()],
        created_count=len(indexes),
        next_producer_id=_FIRST_PRODUCER_ID,
    )


def _topic(
    found: Mapping[TopicPartition, LogDirectory], name: str, indexes: list[int], node_id: int
) -> TopicFacts:
    missing = sorted(set(range(indexes[-1])) - set(indexes))
    if missing:
        raise DirectoryRejected(
            f"topic {name!r} has partition {indexes[-1]}, and no directory has its "
            f"{counted(len(missing), 'partition')} {missing[:_SHOWN_MAX]}; the directories of all "
            "brokers are needed, one replica of each partition"
        )
    topic_ids: dict[str, uuid.UUID] = {}
    for index in indexes:
        partition = TopicPartition(name, index)
        path = f"{found[partition].path}/{partition_directory_name(partition)}"
        its_id = found[partition].topic_id_of(partition)
        if its_id is None:
            raise DirectoryRejected(f"{path} has no partition.metadata with its topic's id")
        topic_ids[path] = its_id
        old = found[partition].magics_of(partition) - {_MAGIC}
        if old:
            raise DirectoryRejected(
                f"{path} has records of magic {min(old)}; only magic {_MAGIC} is stored here, "
                "which Kafka writes since 0.11"
            )
    topic_id, *others = dict.fromkeys(topic_ids.values())
    if others:
        raise DirectoryRejected(
            f"the partitions of {name!r} have {1 + len(others)} different topic ids: "
            + ", ".join(f"{path} {it}" for path, it in list(topic_ids.items())[:_SHOWN_MAX])
        )
    return TopicFacts(
        name=name,
        topic_id=topic_id,
        settings=dict(OFFSETS_SETTINGS if name == OFFSETS_TOPIC else _SETTINGS),
        assignment=[[node_id] for _ in indexes],
        leader_epochs=[0 for _ in indexes],
    )
