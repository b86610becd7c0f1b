"""Checks after a change of leader whether the log still has the records that were read.

An unclean leader election may truncate records that were read. The leader returns the end offset of
the last read record's leader epoch in its log. If it is below the position, the log was truncated
there.

Thread-safety: the I/O thread.
Source: KIP-320; Kafka OffsetFetcher.validatePositionsIfNeeded and OffsetsForLeaderEpochUtils
(clients 4.3.1).
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.consumer.leader_questions import LeaderQuestions
from kprod.consumer.position import NO_EPOCH, AssignedPartition, State
from kprod.errors import KprodError, RemoteProtocolError, UnsupportedVersion
from kprod.model import Node, TopicPartition
from kprod.network.client import NetworkClient
from kprod.network.client_request import ANSWER_BYTES, ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import error_for

_VERSIONS = (2, 4)  # the first with the client's own leader epoch
_PARTITION_BYTES = 1_024
_NO_REPLICA = -1


class Truncation:
    """Validates the positions of one consumer's partitions."""

    def __init__(  # noqa: PLR0913 - the collaborators of a query
        self,
        client: NetworkClient,
        metadata: Metadata,
        *,
        backoff: ExponentialBackoff,
        rng: random.Random,
        on_place: Callable[[AssignedPartition], object],
        on_truncated: Callable[[AssignedPartition, int, int], object],
        on_error: Callable[[AssignedPartition, KprodError], object],
    ) -> None:
        """Start with no validations.

        Args:
            client: Sends the requests.
            metadata: Provides the leaders.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
            on_place: Called with each partition whose position is valid.
            on_truncated: Called with each partition whose log was truncated, the end offset of the
                common part (−1 if unknown), and that part's leader epoch.
            on_error: Called with failures that may not be retriable.
        """
        self._client = client
        self._metadata = metadata
        self._on_place = on_place
        self._on_truncated = on_truncated
        self._on_error = on_error
        self._questions: LeaderQuestions[AssignedPartition] = LeaderQuestions(
            client, metadata, backoff=backoff, rng=rng, ask=self._send
        )

    def begin(self, partition: AssignedPartition) -> None:
        """Validate a position.

        Args:
            partition: A partition in state VALIDATING.
        """
        self._questions.add(partition)

    def cancel(self, partition: AssignedPartition) -> None:
        """Cancel a validation; does nothing if there is none.

        Args:
            partition: Any partition.
        """
        self._questions.remove(partition)

    def send(self, now_ms: int) -> int:
        """Send the queries that can be sent.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next attempt; connection events may come earlier.
        """
        return self._questions.send(now_ms)

    def _send(self, node: Node, partitions: list[AssignedPartition], now_ms: int) -> None:
        asked = {
            partition.key: (partition, partition.number, partition.fetch_epoch)
            for partition in partitions
        }
        topics: dict[str, list[dict[str, Any]]] = {}
        snapshot = self._metadata.snapshot
        for key, (partition, _, epoch) in asked.items():
            partition.leader_epoch = snapshot.leader_epoch_of(*key)
            topics.setdefault(key.topic, []).append(
                {
                    "partition": key.partition,
                    "current_leader_epoch": partition.leader_epoch,
                    "leader_epoch": epoch,
                }
            )
        self._questions.begin(node.node_id, partitions)
        self._client.send(
            ClientRequest(
                node_id=node.node_id,
                api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
                versions=_VERSIONS,
                body={
                    "replica_id": _NO_REPLICA,
                    "topics": [{"topic": name, "partitions": it} for name, it in topics.items()],
                },
                on_complete=lambda outcome: self._complete(outcome, asked),
                bounds=Bounds(
                    memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * len(asked),
                    totals={"topics": len(asked), "partitions": len(asked)},
                ),
            ),
            now_ms,
        )

    def _complete(
        self, outcome: Outcome, asked: Mapping[TopicPartition, tuple[AssignedPartition, int, int]]
    ) -> None:
        self._questions.end(outcome.node_id)
        answers: dict[TopicPartition, Mapping[str, Any]] = {}
        for topic in () if outcome.body is None else outcome.body["topics"]:
            for answer in topic["partitions"]:
                answers[TopicPartition(topic["topic"], answer["partition"])] = answer
        for key, (partition, number, _) in asked.items():
            if partition.number != number:
                continue  # the position has changed since
            if partition.state is not State.VALIDATING:
                self._on_place(partition)  # an exception may have interrupted `_accept`
                continue
            answer = answers.get(key)
            if answer is None and isinstance(outcome.error, UnsupportedVersion):
                self._accept(partition)  # the broker is too old for this request
            elif answer is None:
                error = outcome.error or RemoteProtocolError(
                    "an OffsetForLeaderEpoch response leaves out partition"
                    f" {key.partition} of {key.topic!r}"
                )
                self._fail(partition, error, outcome.now_ms)
            elif answer["error_code"]:
                text = f"the epochs of topic {key.topic!r}, partition {key.partition}"
                self._fail(partition, error_for(answer["error_code"], text), outcome.now_ms)
            else:
                self._judge(partition, answer["end_offset"], answer["leader_epoch"])

    def _judge(self, partition: AssignedPartition, end_offset: int, epoch: int) -> None:
        partition.failures = 0
        if end_offset < 0 or epoch < 0:
            self._on_truncated(partition, -1, NO_EPOCH)
        elif end_offset < partition.fetch_offset:
            self._on_truncated(partition, end_offset, epoch)
        else:
            self._accept(partition)

    def _accept(self, partition: AssignedPartition) -> None:
        partition.move_to(State.FETCHING)
        self._on_place(partition)

    def _fail(self, partition: AssignedPartition, error: KprodError, now_ms: int) -> None:
        if not error.retriable:
            self._on_error(partition, error)
        self._questions.put_off(partition, error, now_ms)
        self._questions.add(partition)
