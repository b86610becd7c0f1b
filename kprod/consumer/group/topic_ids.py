"""The ids of topics, by which the newest requests about offsets name them.

Brokers before Kafka 2.8 have no ids, and a topic may be too new or gone: then a request has names,
in the newest version that has them. A broker that does not know an id makes the client ask for new
metadata, since the topic was deleted, and perhaps created again.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.sendOffsetCommitRequest (clients 4.3.1); KIP-848.
"""

import uuid
from collections.abc import Collection

from kprod.cluster.metadata import Metadata
from kprod.cluster.snapshot import NO_TOPIC_ID


class TopicIds:
    """The ids of a cluster's topics."""

    def __init__(self, metadata: Metadata) -> None:
        """Use the newest metadata.

        Args:
            metadata: The cluster's.
        """
        self._metadata = metadata

    def of(self, topics: Collection[str]) -> dict[str, uuid.UUID]:
        """Return the ids of topics.

        Args:
            topics: Names.

        Returns:
            The ids by name; empty unless all are known.
        """
        snapshot = self._metadata.snapshot
        found = {name: snapshot.topic_id_of(name) for name in topics}
        return {} if NO_TOPIC_ID in found.values() else found

    def renew(self) -> None:
        """Ask for new metadata, since a broker does not know an id."""
        self._metadata.request_update()


def names_by_id(ids: dict[str, uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return the names of a request's topics.

    Args:
        ids: The ids by name.

    Returns:
        The names by id.
    """
    return {topic_id: name for name, topic_id in ids.items()}
