"""Stores the content of Kafka's metadata log: topics, ids, settings, assignments, producer ids.

It is one JSON file in the first directory, replaced as a whole before a change is confirmed: a
topic that a client has seen exists after a crash.

Thread-safety: the broker's thread.
Source: kprod's own; Kafka's metadata log (KRaft) for the content.
"""

import dataclasses
import itertools
import json
import uuid
from collections.abc import Sequence
from typing import Any

from kprod.broker.log.checkpoint import replace_file
from kprod.broker.log.disk import Disk
from kprod.broker.log.identity import id_text, id_value
from kprod.broker.rejection import DirectoryRejected
from kprod.topic_name import name_fault

METADATA_FILE = "kprod-metadata.json"
_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The stored data of a topic.

    Attributes:
        name: Its name.
        topic_id: Its id.
        settings: Its own settings, as text.
        assignment: Brokers of each partition, the preferred leader first.
        leader_epochs: Leader epoch of each partition, as of the last write.
    """

    name: str
    topic_id: uuid.UUID
    settings: dict[str, str | None]
    assignment: list[list[int]]
    leader_epochs: list[int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The stored data of a cluster.

    Attributes:
        topics: The topics, oldest first.
        created_count: Number of topics ever created; the next topic id is derived from it.
        next_producer_id: No producer id at or above it was assigned.
    """

    topics: list[TopicFacts] = dataclasses.field(default_factory=list)
    created_count: int = 0
    next_producer_id: int = 0


def write_facts(disk: Disk, directory: str, facts: ClusterFacts) -> None:
    """Replace the file.

    Raises:
        OSError: The file cannot be written; the old one still exists.
    """
    content = {
        "version": _VERSION,
        "created_count": facts.created_count,
        "next_producer_id": facts.next_producer_id,
        "topics": [
            dataclasses.asdict(it) | {"topic_id": id_text(it.topic_id)} for it in facts.topics
        ],
    }
    replace_file(disk, f"{directory}/{METADATA_FILE}", json.dumps(content, indent=1).encode())


def read_facts(disk: Disk, directory: str) -> ClusterFacts | None:
    """Read the file.

    Returns:
        The content; None if there is no file.

    Raises:
        DirectoryRejected: The file cannot be read, or has another version.
    """
    path = f"{directory}/{METADATA_FILE}"
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read(path, 0, disk.size(path)))
        version = content["version"]
        if version != _VERSION:
            raise DirectoryRejected(f"{path} has version {version!r}; {_VERSION} is known")
        return ClusterFacts(
            topics=_topics(content["topics"]),
            created_count=int(content["created_count"]),
            next_producer_id=int(content["next_producer_id"]),
        )
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DirectoryRejected(f"{path} cannot be read: {error!r}") from None


def _topics(entries: Sequence[dict[str, Any]]) -> list[TopicFacts]:
    topics = [_topic(it) for it in entries]
    for topic in topics:  # a name becomes that of a directory, and must not lead out of it
        fault = name_fault(topic.name)
        if fault is not None:
            raise ValueError(fault)
    for one, two in itertools.pairwise(sorted(it.name for it in topics)):
        if one == two:
            raise ValueError(f"topic {one!r} is there twice")
    return topics


def _topic(entry: dict[str, Any]) -> TopicFacts:
    assignment = [[int(node_id) for node_id in nodes] for nodes in entry["assignment"]]
    if not assignment or not all(assignment):
        raise ValueError(f"topic {entry['name']!r} has no partition, or one without a broker")
    epochs = [int(epoch) for epoch in entry["leader_epochs"]]
    if len(epochs) != len(assignment):
        raise ValueError(f"topic {entry['name']!r} has {len(epochs)} leader epochs")
    settings = {
        str(name): None if it is None else str(it) for name, it in entry["settings"].items()
    }
    return TopicFacts(
        name=str(entry["name"]),
        topic_id=id_value(entry["topic_id"]),
        settings=settings,
        assignment=assignment,
        leader_epochs=epochs,
    )
