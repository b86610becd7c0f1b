"""One metadata request, and what its response changes.

Thread-safety: immutable values; one thread makes and merges them.
Source: Metadata.handleMetadataResponse (clients 4.3.1); KIP-526.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kprod.cluster.metadata_response import MetadataResponse
from kprod.cluster.snapshot import NO_LEADER, ClusterSnapshot, TopicSnapshot
from kprod.errors import BrokerError


class Question(NamedTuple):
    """The request that is out.

    Attributes:
        topics: All topics that it names.
        is_partial: Whether there are topics in use that it does not name.
        refreshes: The posted refreshes that it serves.
    """

    topics: frozenset[str]
    is_partial: bool
    refreshes: Mapping[str, int]

    def merge(
        self,
        answer: MetadataResponse,
        older: ClusterSnapshot,
        older_errors: Mapping[str, BrokerError],
    ) -> "MergedAnswer":
        """Merge a response into the metadata before it.

        Args:
            answer: The response to this request.
            older: The newest snapshot before it.
            older_errors: Why topics were not in that snapshot.

        Returns:
            The new snapshot and errors; of the question's topics nothing old is left.
        """
        topics: dict[str, TopicSnapshot] = dict(older.topics) if self.is_partial else {}
        errors = {topic: why for topic, why in older_errors.items() if topic not in self.topics}
        for topic in self.topics - answer.topics.keys():
            topics.pop(topic, None)
        for topic, found in answer.topics.items():
            if topic in self.topics:
                topics[topic] = found.after(older.topics.get(topic))
        errors.update(item for item in answer.errors.items() if item[0] in self.topics)
        snapshot = older._replace(
            nodes=answer.nodes,
            topics=MappingProxyType(topics),
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            is_bootstrap=False,
        )
        made_progress = (
            dict(older.nodes) != answer.nodes
            or older.topics != topics
            or _codes(errors) != _codes(older_errors)
        )
        return MergedAnswer(snapshot, errors, made_progress)


class MergedAnswer(NamedTuple):
    """The metadata after a response.

    Attributes:
        snapshot: The new one.
        errors: Why topics are not in it.
        made_progress: Whether anything in it is new.
    """

    snapshot: ClusterSnapshot
    errors: dict[str, BrokerError]
    made_progress: bool

    def unsettled(self, topics: frozenset[str]) -> Iterator[str]:
        """Yield the topics of which asking again soon may bring more.

        Args:
            topics: The topics to choose from.

        Yields:
            Unknown topics, and topics with a leaderless partition.
        """
        for name in topics:
            topic = self.snapshot.topics.get(name)
            if topic is not None:
                if NO_LEADER in topic.leader_ids:
                    yield name
            elif name not in self.errors or self.errors[name].retriable:
                yield name


def _codes(errors: Mapping[str, BrokerError]) -> dict[str, int]:
    return {topic: error.code for topic, error in errors.items()}
