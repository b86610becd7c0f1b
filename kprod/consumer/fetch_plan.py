# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Decides which partitions are fetched from which broker.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A partition is fetched while it is in state FETCHING, not paused, and has fewer than `AHEAD_MAX`
waiting blocks. It is examined only when one of these changes (`consider`): idle partitions cost
nothing.

A broker that has a partition with `AHEAD_MAX` blocks is not asked for the others meanwhile
(`awaits_application`). It would keep the fetch until one of them has records, up to
`fetch_max_wait_ms`, and the full partition's next records with it, which the application needs as
soon as it has processed a block.

Thread-safety: the I/O thread.
Source: Kafka AbstractFetch (clients 4.3.1); KIP-227, KIP-392.
"""

import random
from typing import TYPE_CHECKING

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.config import FetchSettings
from kprod.consumer.fetch_buffer import AHEAD_MAX
from kprod.consumer.fetch_session import FetchSession, Wanted
from kprod.consumer.position import DROPPED, AssignedPartition, State
from kprod.consumer.read_replica import ReadReplicas

if TYPE_CHECKING:
    from kprod.model import TopicPartition

_LONG_MS = 60_000
_FETCHING = State.FETCHING  # cached: attribute access on an enum class runs Python code


class FetchPlan:
    """The partitions that one consumer fetches, by broker.

    Attributes:
        sessions: The session of each broker, by node id.
    """

    def __init__(
        self,
        settings: FetchSettings,
        metadata: Metadata,
        *,
        replicas: ReadReplicas,
        backoff: ExponentialBackoff,
        rng: random.Random,
    ) -> None:
        """Start with no partitions.

        Args:
            settings: Sizes.
            metadata: Provides leaders, epochs and topic ids.
            replicas: Chooses the node to fetch from.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
        """
        self._metadata = metadata
        self._replicas = replicas
        self._backoff = backoff
        self._rng = rng
        self.sessions: dict[int, FetchSession] = {}
        self._node_of: dict[TopicPartition, int] = {}  # the node whose session has the partition
        self._put_off: dict[AssignedPartition, None] = {}
        self._full: dict[AssignedPartition, int] = {}  # has `AHEAD_MAX` blocks; of which node
        self._full_counts: dict[int, int] = {}  # partitions of `_full`, by node
        share_bytes = settings.fetch_buffer_memory // AHEAD_MAX
        self._share_bytes = min(settings.max_partition_fetch_bytes, share_bytes)

    def consider(self, partition: AssignedPartition, now_ms: int) -> None:
        """Start or stop fetching a partition, or change its node, according to its present state.

        Args:
            partition: A partition whose state has changed.
            now_ms: Monotonic time.
        """
        key = partition.key
        may_fetch = (
            partition.state is _FETCHING
            and partition.number == partition.start.number
            and not partition.paused
        )
        if may_fetch and partition.ahead_count >= AHEAD_MAX:
            self._note_full(partition)
            may_fetch = False
        else:
            self._forget_full(partition)
        if may_fetch and partition.retry_at_ms > now_ms:
            self._put_off[partition] = None
            may_fetch = False
        node = self._replicas.node_of(key, now_ms) if may_fetch else None
        if may_fetch and node is None:
            self._metadata.request_update_for_topic(key.topic)  # calls `consider` again
        node_id = -1 if node is None else node.node_id
        if self._node_of.get(key, node_id) != node_id:
            self._leave(partition)
        if node is None:
            return
        snapshot = self._metadata.snapshot
        session = self.sessions.get(node_id)
        if session is None:
            session = self.sessions[node_id] = FetchSession()
        session.want(
            Wanted(
                partition,
                partition.number,
                topic_id=snapshot.topic_id_of(key.topic),
                leader_epoch=snapshot.leader_epoch_of(key.topic, key.partition),
                offset=partition.fetch_offset,
                last_epoch=partition.fetch_epoch,
                bytes_max=self._share_bytes,
            )
        )
        self._node_of[key] = node_id

    def is_wanted_from(self, node_id: int, key: "TopicPartition") -> bool:
        """Whether a partition is in a broker's session.

        Args:
            node_id: The broker's node id.
            key: Any partition.

        Returns:
            False for a partition that is not fetched now, or from another broker.
        """
        return self._node_of.get(key) == node_id

    def awaits_application(self, node_id: int) -> bool:
        """Whether a fetch waits until the application has processed a block.

        Args:
            node_id: The broker's node id.

        Returns:
            True if one of the broker's partitions has `AHEAD_MAX` blocks.
        """
        return node_id in self._full_counts

    def uses_leaders(self) -> bool:
        """Return whether no partition is fetched from another replica, for a limited time."""
        return not self._replicas.has_preferred()

    def drop(self, partition: AssignedPartition) -> None:
        """Stop fetching a partition that is no longer assigned.

        Args:
            partition: Any partition.
        """
        self._put_off.pop(partition, None)
        self._forget_full(partition)
        self._leave(partition)
        partition.number = DROPPED  # responses of fetches in flight are ignored

    def try_later(self, partition: AssignedPartition, now_ms: int) -> None:
        """Fetch a partition again after a delay, which grows with each failure.

        Args:
            partition: A partition that could not be fetched.
            now_ms: Monotonic time.
        """
        wait_ms = self._backoff.wait_ms(partition.failures, self._rng)
        partition.retry_at_ms = now_ms + max(1, wait_ms)
        partition.failures += 1
        self._forget_full(partition)
        self._leave(partition)
        self._put_off[partition] = None

    def take_due(self, now_ms: int) -> int:
        """Consider the partitions whose delay has ended.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next delay ends, at most a minute.
        """
        wait_ms = _LONG_MS
        for partition in list(self._put_off):
            if partition.retry_at_ms <= now_ms:
                del self._put_off[partition]
                self.consider(partition, now_ms)
            else:
                wait_ms = min(wait_ms, partition.retry_at_ms - now_ms)
        return wait_ms

    def _note_full(self, partition: AssignedPartition) -> None:
        node_id = self._node_of.get(partition.key)
        if node_id is not None and partition not in self._full:
            self._full[partition] = node_id
            self._full_counts[node_id] = self._full_counts.get(node_id, 0) + 1

    def _forget_full(self, partition: AssignedPartition) -> None:
        node_id = self._full.pop(partition, None)
        if node_id is not None:
            self._full_counts[node_id] -= 1
            if not self._full_counts[node_id]:
                del self._full_counts[node_id]

    def _leave(self, partition: AssignedPartition) -> None:
        """Remove a partition from its session, unless it was assigned again since."""
        node_id = self._node_of.get(partition.key)
        if node_id is None:
            return
        session = self.sessions[node_id]
        wanted = session.wanted.get(partition.key)
        if wanted is not None and wanted.partition is partition:
            session.drop(partition.key)
            del self._node_of[partition.key]
