# cython: annotation_typing=False, nonecheck=True
"""Chooses partitions for records without key and partition: one at a time, preferring short queues.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Such records go to one partition until its batch is closed, full or drained; then another partition
is drawn, with weights that favour short queues. So batches are filled, and a slow broker gets fewer
records.

Partitions are excluded from the draw in this order, unless none would remain: those without a known
leader; those whose leader has accepted nothing for `partitioner_availability_timeout_ms` while
there was something to send; with `partitioner_rack_aware`, those whose leader is in another rack
than `client_rack`.

Thread-safety: any thread that holds the GIL may call `roll`; only the sender calls `note_held`,
`note_taking` and `forget_nodes_but`.
Source: KIP-480 for the moment of change, KIP-794 for weights and availability, KIP-1123 for racks;
kprod's departure 13.
"""

import bisect
import itertools
import random
from collections.abc import Mapping
from typing import NamedTuple

from kprod._core.send.key_hash import KeyHash
from kprod.clock import Clock
from kprod.cluster.metadata import Metadata
from kprod.config import PartitionerSettings
from kprod.producer.topic_queues import TopicQueues

# Weighing ten thousand queues for each batch would cost more than it gains.
WEIGHTS_LIFE_MS = 20
WEIGHED_PER_MS = 50

NULL_KEY_BYTES = -1
NEVER_HASHED_BYTES = 2**31


class KeyRule(NamedTuple):
    """Rule that maps keys to partitions.

    Attributes:
        key_hash: Hash function; the hash modulo the number of partitions is the partition.
        bytes_min: Minimum length of a key that is hashed; a null key has length −1.
    """

    key_hash: KeyHash
    bytes_min: int


KEY_RULES: Mapping[str, KeyRule] = {
    "murmur2": KeyRule(KeyHash.MURMUR2, 0),
    "consistent": KeyRule(KeyHash.CRC32, NULL_KEY_BYTES),
    "consistent_random": KeyRule(KeyHash.CRC32, 1),
    "fnv1a": KeyRule(KeyHash.FNV1A, NULL_KEY_BYTES),
    "fnv1a_random": KeyRule(KeyHash.FNV1A, 0),
}
"""The partitioners by name.

All but the first are librdkafka's, including their treatment of null and empty keys.
"""

ROUND_ROBIN = "round_robin"


def key_rule(settings: PartitionerSettings) -> KeyRule:
    """Return the key rule of a partitioner.

    Args:
        settings: Settings of partitioning.

    Returns:
        The rule of the configured partitioner; Kafka's own by default.
    """
    name = settings.partitioner if isinstance(settings.partitioner, str) else "murmur2"
    rule = KEY_RULES.get(name, KEY_RULES["murmur2"])
    if settings.partitioner_ignore_keys:
        return rule._replace(bytes_min=NEVER_HASHED_BYTES)
    return rule


class Weights:  # noqa: B903 - those would be made by Python code
    """The weights of partitions, and when they were computed.

    Attributes:
        candidates: Partition numbers, ascending.
        cumulated: The sum of the weights up to each partition.
        weighed_at_ms: Monotonic time of the computation.
    """

    def __init__(self, candidates: list[int], cumulated: list[int], weighed_at_ms: int) -> None:
        self.candidates = candidates
        self.cumulated = cumulated
        self.weighed_at_ms = weighed_at_ms


class StickyPartitioner:
    """Draws the next partition for records without key and partition."""

    def __init__(
        self,
        settings: PartitionerSettings,
        metadata: Metadata,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """Create a partitioner.

        Args:
            settings: Settings of partitioning.
            metadata: Leaders of partitions, with their racks.
            clock: Clock for the lifetime of weights.
            rng: Random numbers.
        """
        self._settings = settings
        self._metadata = metadata
        self._clock = clock
        self._rng = rng
        self._held_since_ms: dict[int, int] = {}
        self._weights: dict[str, Weights] = {}

    @property
    def takes_turns(self) -> bool:
        """Whether records go to the partitions in turn instead (round robin)."""
        return self._settings.partitioner == ROUND_ROBIN

    def roll(self, routes: TopicQueues) -> None:
        """Draw another partition for a topic.

        Args:
            routes: Routes of a topic with at least one partition.
        """
        weights = self._weights.get(routes.name)
        now_ms = self._clock.now_ms()
        life_ms = WEIGHTS_LIFE_MS + routes.partition_count // WEIGHED_PER_MS
        if (
            weights is None
            or now_ms - weights.weighed_at_ms >= life_ms
            or weights.candidates[-1] >= routes.partition_count
        ):
            weights = self._weights[routes.name] = self._weigh(routes, now_ms)
        # `randrange` is Python code, and this is on the direct path (`COMPILED_MODULES`).
        drawn = int(self._rng.random() * weights.cumulated[-1])
        routes.sticky = weights.candidates[bisect.bisect_right(weights.cumulated, drawn)]

    def follow(self, routes: TopicQueues) -> None:
        """Restrict records without key to existing partitions; in turn, to those with a leader.

        Args:
            routes: Routes whose number of partitions or leaders may have changed.
        """
        if self.takes_turns:
            leader_of = self._metadata.snapshot.leader_of
            led = [
                p for p in range(routes.partition_count) if leader_of(routes.name, p) is not None
            ]
            routes.turns = led if len(led) < routes.partition_count else []
        if routes.sticky >= routes.partition_count:
            self.roll(routes)

    def note_held(self, node_id: int, now_ms: int) -> None:
        """Record that a node cannot accept the batches for it.

        Args:
            node_id: Id of a node that is not connected, throttled, or at its limit of requests.
            now_ms: Monotonic time.
        """
        self._held_since_ms.setdefault(node_id, now_ms)

    def note_taking(self, node_id: int) -> None:
        """Record that a node accepts batches.

        Args:
            node_id: Id of any node.
        """
        if self._held_since_ms:
            self._held_since_ms.pop(node_id, None)

    def forget_nodes_but(self, node_ids: list[int]) -> None:
        """Forget slow nodes that have nothing to send, since they cannot be slow.

        Args:
            node_ids: Ids of nodes with batches to send.
        """
        if self._held_since_ms:
            for node_id in self._held_since_ms.keys() - node_ids:
                del self._held_since_ms[node_id]

    def _weigh(self, routes: TopicQueues, now_ms: int) -> Weights:
        candidates = self._candidates(routes, now_ms)
        if not self._settings.partitioner_adaptive_partitioning_enable:
            return Weights(candidates, list(range(1, len(candidates) + 1)), now_ms)
        lengths = [len(routes.queues[partition].batches) for partition in candidates]
        longest = max(lengths)
        weights = itertools.accumulate(longest + 1 - length for length in lengths)
        return Weights(candidates, list(weights), now_ms)

    def _candidates(self, routes: TopicQueues, now_ms: int) -> list[int]:
        """Return the partitions to draw from, ascending, at least one."""
        snapshot = self._metadata.snapshot
        everyone = range(routes.partition_count)
        led = [(p, snapshot.leader_of(routes.name, p)) for p in everyone]
        leaders = {p: leader for p, leader in led if leader is not None}
        timeout_ms = self._settings.partitioner_availability_timeout_ms
        if timeout_ms:
            held = self._held_since_ms
            slow = {n for n, since_ms in list(held.items()) if now_ms - since_ms > timeout_ms}
            leaders = {p: n for p, n in leaders.items() if n.node_id not in slow} or leaders
        if self._settings.partitioner_rack_aware:
            rack = self._settings.client_rack
            near = {partition: node for partition, node in leaders.items() if node.rack == rack}
            leaders = near or leaders
        return list(leaders) or list(everyone)
