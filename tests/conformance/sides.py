"""The two brokers that must answer alike, asked the same in the same words.

Thread-safety: one thread.
"""

import itertools
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.wire import Target, Wire

T = TypeVar("T")
CREATE_VERSION = 5
METADATA_VERSION = 12
OFFSETS_VERSION = 5
IDENTITY_VERSION = 4
OWN_FIELDS = frozenset(
    {"cluster_id", "controller_id", "error_message", "host", "node_id", "port", "topic_id"}
)
"""Values that each cluster chooses, and texts, which differ between brokers."""

NODE_FIELDS = frozenset({"leader_id", "replica_nodes", "isr_nodes"})
_run = uuid.uuid4().hex[:8]
_numbers = itertools.count(1)


class Side:
    """One of the two brokers."""

    __slots__ = ("address", "name")

    def __init__(self, name: str, address: str) -> None:
        """Know where it is.

        Args:
            name: Name of the side.
            address: `host:port`.
        """
        self.name = name
        self.address = address

    def connect(self) -> Wire:
        """Open a connection of one's own."""
        return Wire(self.address)

    def ask(self, api_key: ApiKey, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask one question over a connection of its own."""
        with self.connect() as wire:
            return wire.ask(api_key, version, body)

    def produce(
        self, target: Target, batch: bytes, *, version: int = 9, acks: int = -1
    ) -> dict[str, Any]:
        """Produce one batch.

        Returns:
            The partition's answer.
        """
        with self.connect() as wire:
            wire.send_produce(version, target, batch, acks=acks)
            (topic,) = wire.read(ApiKey.PRODUCE, version)["responses"]
        (answer,) = topic["partition_responses"]
        return dict(answer)

    def fetch(
        self, target: Target, offset: int, *, version: int = 11, **fields: int
    ) -> dict[str, Any]:
        """Fetch from one partition, at once and without a session.

        Args:
            target: Topic and partition.
            offset: The first one wanted.
            version: From 4 on.
            fields: Fields of the request or of its partition, which override the defaults.

        Returns:
            The whole answer.
        """
        partition = {
            "partition": target.partition,
            "fetch_offset": offset,
            "current_leader_epoch": fields.pop("current_leader_epoch", -1),
            "last_fetched_epoch": fields.pop("last_fetched_epoch", -1),
            "partition_max_bytes": fields.pop("partition_max_bytes", 1 << 20),
        }
        topic = {"topic": target.topic, "topic_id": target.topic_id, "partitions": [partition]}
        body = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
        return self.ask(ApiKey.FETCH, version, {**body, **fields, "topics": [topic]})

    def log(self, target: Target) -> bytes:
        """Read all batches of a partition, as they are stored."""
        (topic,) = self.fetch(target, 0)["responses"]
        (answer,) = topic["partitions"]
        assert answer["error_code"] == ErrorCode.NONE
        return bytes(answer["records"])

    def offset(
        self,
        target: Target,
        timestamp: int,
        *,
        version: int = OFFSETS_VERSION,
        isolation_level: int = 0,
        **fields: int,
    ) -> dict[str, Any]:
        """Ask ListOffsets of one partition.

        Returns:
            The partition's answer.
        """
        entry = {"partition_index": target.partition, "timestamp": timestamp, **fields}
        topics = [{"name": target.topic, "partitions": [entry]}]
        body = {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}
        answer = self.ask(ApiKey.LIST_OFFSETS, version, body)
        (topic,) = answer["topics"]
        (told,) = topic["partitions"]
        return dict(told)

    def create(self, name: str, partitions: int = 1, **settings: str) -> Target:
        """Make a topic, and wait until its broker leads it.

        Args:
            name: A part of its name; the rest makes it unique.
            partitions: At least 1.
            settings: The topic's own, underscores for dots.

        Returns:
            Its first partition.
        """
        topic = f"{name}-{_run}-{next(_numbers)}"
        entry = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [
                {"name": key.replace("_", "."), "value": value} for key, value in settings.items()
            ],
        }
        body = {"topics": [entry], "timeout_ms": 30_000}
        (made,) = self.ask(ApiKey.CREATE_TOPICS, CREATE_VERSION, body)["topics"]
        assert made["error_code"] == ErrorCode.NONE, made
        while (topic_id := self.led(topic, partitions)) is None:
            pass  # each question takes the broker's time, so this is no busy loop
        return Target(topic, topic_id)

    def led(self, topic: str, partitions: int) -> uuid.UUID | None:
        """The topic's id once the broker serves every partition of it."""
        wish = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        (described,) = self.ask(ApiKey.METADATA, METADATA_VERSION, wish)["topics"]
        if described["error_code"] or len(described["partitions"]) < partitions:
            return None
        topic_id: uuid.UUID = described["topic_id"]
        places = [Target(topic, topic_id, index) for index in range(partitions)]
        is_served = not any(self.offset(place, -1)["error_code"] for place in places)
        return topic_id if is_served else None

    def producer_id(self) -> int:
        """Get a new producer id, its epoch 0; Kafka may need a moment for the first."""
        body = {"transactional_id": None, "transaction_timeout_ms": 60_000}
        while True:
            answer = self.ask(ApiKey.INIT_PRODUCER_ID, IDENTITY_VERSION, body)
            if answer["error_code"] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                assert (answer["error_code"], answer["producer_epoch"]) == (ErrorCode.NONE, 0)
                return int(answer["producer_id"])


class Sides(NamedTuple):
    """Both brokers."""

    embedded: Side
    kafka: Side

    def agreed(self, case: Callable[[Side], T]) -> T:
        """Put a case to both.

        Args:
            case: Asks one side; returns what must not differ.

        Returns:
            Both responses.
        """
        embedded, kafka = case(self.embedded), case(self.kafka)
        assert embedded == kafka, f"embedded: {embedded!r}; kafka: {kafka!r}"
        return kafka


def plain(answer: Any) -> Any:
    """Leave out of a response what each cluster chooses for itself.

    Args:
        answer: Fields of any depth.

    Returns:
        The same without ids, addresses and texts; brokers are only counted.
    """
    if isinstance(answer, dict):
        kept = {key: value for key, value in answer.items() if key not in OWN_FIELDS}
        return {
            key: _counted(value) if key in NODE_FIELDS else plain(value)
            for key, value in kept.items()
        }
    if isinstance(answer, list):
        return [plain(entry) for entry in answer]
    return bytes(answer) if isinstance(answer, memoryview) else answer


def _counted(nodes: int | list[int]) -> int:
    return len(nodes) if isinstance(nodes, list) else int(nodes >= 0)
